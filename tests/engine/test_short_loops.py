"""Which loops LLVM is asked not to unroll, and that they compute every element."""

import re

import numpy as np
import pytest
import torch
from torch_mlir import ir

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import sequential_loops
from onnx2torch_mlir.engine.compiler.short_loops import mark
from onnx2torch_mlir.engine.compiler.walks import nested
from tests.engine import programs

MAPS = "affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (c)>, affine_map<(r, c) -> (r, c)>"
DENSE = "memref<?x?xf32>"
READ = "%v = memref.load %x[%i, %j] : {0}\n memref.store %v, %x[%i, %j] : {0}"


def marked(turns, body, x=DENSE, outer="scf.for %i = %zero to %rows step %one"):
    """How many loops are marked of one of so many turns inside of another one."""
    text = f"""func.func @kernel(%rows: index, %is: i1, %x: {x}) {{
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %end = arith.constant {turns} : index
        {outer} {{ scf.for %j = %zero to %end step %one {{ {body} }} }}
        return
    }}"""
    with ir.Context(), ir.Location.unknown(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "_assumed", "x86_64 cpu +avx512f")
        module = ir.Module.parse(text)
        mark(module, {"kernel"})
        assert module.operation.verify()
        return sum("loop_annotation" in one.attributes for one in nested(module.operation))


def test_short_loops_over_dense_memory_are_marked():
    body = READ.format(DENSE)
    assert [marked(turns, body) for turns in (8, 9, 32, 64, 65)] == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("stride", ["2", "?"])
def test_strided_memory_gains_by_unrolling(stride):
    type_ = f"memref<?x?xf32, strided<[?, {stride}]>>"
    assert marked(32, READ.format(type_), type_) == 0


def test_places_that_are_computed_may_be_anywhere():
    assert marked(32, f"%k = arith.muli %j, %rows : index\n %v = memref.load %x[%i, %k] : {DENSE}") == 0
    assert marked(32, f"%v = memref.load %x[%j, %i] : {DENSE}") == 0


def test_loops_that_nothing_is_around_stay():
    body = READ.format(DENSE).replace("%i", "%rows")
    assert marked(32, body, outer="scf.if %is") == 0


@pytest.mark.parametrize("columns", [1, 3, 8, 9, 12, 15, 16, 17, 31, 32, 40, 63, 64, 65])
@pytest.mark.parametrize("dynamic", [False, True])
def test_every_element_is_computed(columns, dynamic):
    """A row that all share keeps the dims apart, so that loops are as short as the row."""
    rows = "?" if dynamic else "5"
    asked = f"%zero = arith.constant 0 : index\n %n = tensor.dim %a0, %zero : tensor<?x{columns}xf32>" if dynamic else ""
    body = f"""
  {asked}
  %e = tensor.empty({"%n" if dynamic else ""}) : tensor<{rows}x{columns}xf32>
  %t = linalg.generic {{indexing_maps = [{MAPS}], iterator_types = ["parallel", "parallel"]}}
      ins(%a0, %a1 : tensor<{rows}x{columns}xf32>, tensor<{columns}xf32>) outs(%e : tensor<{rows}x{columns}xf32>) {{
  ^bb0(%x: f32, %y: f32, %out: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  }} -> tensor<{rows}x{columns}xf32>
  return %t : tensor<{rows}x{columns}xf32>"""
    f32, height = torch.float32, programs.N if dynamic else 5
    program = engine.compile(programs.lowered(body, [(f32, (height, columns)), (f32, (columns,))], [(f32, (height, columns))]))
    random = np.random.default_rng(0)
    x, y = random.standard_normal((5, columns)).astype("f"), random.standard_normal(columns).astype("f")
    (got,) = program.run([x, y])
    np.testing.assert_array_equal(got, x + y)


def test_an_axis_of_one_place_behind_changes_nothing():
    type_ = "memref<?x32x1xf32>"
    assert marked(32, f"%v = memref.load %x[%i, %j, %zero] : {type_}", type_) == 1
    type_ = "memref<?x32x2xf32>"
    assert marked(32, f"%v = memref.load %x[%i, %j, %zero] : {type_}", type_) == 0


@pytest.mark.parametrize("long", ["%rows", "%end"])
@pytest.mark.parametrize("turns", [(14, 65, 1), (14, 64, 0), (64, 1000, 1), (65, 1000, 0)])
def test_loops_around_long_ones_are_marked(turns, long):
    """Two of them, one inside the other; in the one ``long`` there may be something else, too."""
    outer, inner, expected = turns
    if long == "%rows":  # nobody knows how many
        expected = outer <= 64
    text = f"""func.func @kernel(%rows: index, %x: memref<?x?xf32, strided<[?, 2]>>) {{
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %turns = arith.constant {outer} : index
        %end = arith.constant {inner} : index
        scf.for %h = %zero to %turns step %one {{ scf.for %i = %zero to %turns step %one {{
          scf.for %j = %zero to {long} step %one {{ {READ.format("memref<?x?xf32, strided<[?, 2]>>")} }}
        }} }}
        return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        mark(module, {"kernel"})
        assert sum("loop_annotation" in one.attributes for one in nested(module.operation)) == 2 * expected


def test_parallel_loops_inside_of_others_become_loops():
    """What reads their places reads those of loops; the outer ones first."""
    text = """func.func @kernel(%m: index, %n: index, %x: memref<?x?xf32>) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %two = arith.constant 2 : index
        scf.for %k = %zero to %m step %one {
          scf.parallel (%i, %j) = (%zero, %one) to (%m, %n) step (%one, %two) {
            %v = memref.load %x[%i, %j] : memref<?x?xf32>
            scf.parallel (%l) = (%i) to (%n) step (%one) { memref.store %v, %x[%j, %l] : memref<?x?xf32> }
          }
        }
        return
    }"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        sequential_loops.write(module, {"another"})
        assert "scf.for" in str(module) and str(module).count("scf.parallel") == 2
        sequential_loops.write(module, {"kernel"})
        assert module.operation.verify()
        lines = [line.strip() for line in str(module).splitlines()]
    loops = [line for line in lines if line.startswith("scf.")]
    assert [re.sub(r"%arg\d", "%i", line) for line in loops] == [
        "scf.for %i = %c0 to %i step %c1 {",
        "scf.for %i = %c0 to %i step %c1 {",
        "scf.for %i = %c1 to %i step %c2 {",
        "scf.for %i = %i to %i step %c1 {",
    ]
    assert any(line.startswith("memref.store") for line in lines[lines.index(loops[-1]) :])


@pytest.mark.parametrize("columns", [1, 9, 32, 70])
def test_rows_that_are_summed_up(columns):
    """A loop over columns inside of one over rows."""
    body = f"""
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{columns}xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<{columns}xf32>) -> tensor<{columns}xf32>
  %t = linalg.generic {{indexing_maps = [affine_map<(r, s, c) -> (r, s, c)>, affine_map<(r, s, c) -> (c)>],
      iterator_types = ["reduction", "reduction", "parallel"]}}
      ins(%a0 : tensor<14x15x{columns}xf32>) outs(%f : tensor<{columns}xf32>) {{
  ^bb0(%x: f32, %out: f32):
    %s = arith.addf %out, %x : f32
    linalg.yield %s : f32
  }} -> tensor<{columns}xf32>
  return %t : tensor<{columns}xf32>"""
    f32 = torch.float32
    program = engine.compile(programs.lowered(body, [(f32, (14, 15, columns))], [(f32, (columns,))]))
    x = np.random.default_rng(0).standard_normal((14, 15, columns)).astype("f")
    np.testing.assert_allclose(program.run([x])[0], x.sum((0, 1)), rtol=1e-4, atol=1e-4)
