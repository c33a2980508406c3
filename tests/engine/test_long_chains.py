"""What LLVM is asked about loops over long chains, and that no rest of such a loop is lost."""

import numpy as np
import pytest
import torch
from torch_mlir import ir

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler.long_chains import mark
from onnx2torch_mlir.engine.compiler.walks import nested
from tests.engine import programs

STEP = "%{0} = llvm.intr.fmuladd({1}, {1}, {1}) : ({2}, {2}, {2}) -> {2}\n"
MAPS = "affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (c)>, affine_map<(r, c) -> (r, c)>"


def chain(length, type_="f32"):
    """A loop's body of so many steps."""
    names = ["%x", *(f"%{number}" for number in range(length))]
    return "".join(STEP.format(number, names[number], type_) for number in range(length))


def marked(loop, x="f32", host="x86_64 cpu +avx512f"):
    """How many loops of a kernel are to be interleaved, and how many masked."""
    text = f"func.func @kernel(%from: index, %to: index, %step: index, %x: {x}) {{ {loop}\n return }}"
    with ir.Context(), ir.Location.unknown(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "_assumed", host)
        module = ir.Module.parse(text)
        mark(module, {"kernel"})
        assert module.operation.verify()
        loops = [one for one in nested(module.operation) if "loop_annotation" in one.attributes]
        asked = [str(loop.attributes["loop_annotation"]) for loop in loops]
    return sum("interleave" in one for one in asked), sum("predicateEnable = true" in one for one in asked)


def over(turns, body):
    return f"""%zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %end = arith.constant {turns} : index
    scf.for %i = %zero to %end step %one {{ {body} }}"""


def test_long_loops_take_several_vectors_and_short_ones_masks():
    assert [marked(over(turns, chain(4))) for turns in (2000, 256, 500, 100, 16)] == [(1, 0), (1, 0), (0, 0), (0, 1), (0, 0)]
    assert marked(over(100, chain(4)), host="x86_64 cpu +sse2") == (0, 0)


def test_shares_of_threads_take_several_vectors():
    share = f"scf.for %i = %from to %to step %step {{ {chain(4)} }}"
    assert marked(share) == (1, 0)
    assert marked(f"scf.for %j = %from to %to step %step {{ {share} }}") == (0, 0)


def test_short_chains_and_vectors_stay():
    assert marked(over(2000, chain(3))) == (0, 0)
    assert marked(over(2000, chain(8, "vector<16xf32>")), "vector<16xf32>") == (0, 0)


@pytest.mark.parametrize("columns", [1, 5, 15, 16, 17, 40, 63, 65, 130, 300, 513])
@pytest.mark.parametrize("rows", [1, 3])
def test_every_element_is_computed(rows, columns):
    """A row that all share keeps the dims apart, so that loops are as short as the row."""
    body = f"""
  %e = tensor.empty() : tensor<{rows}x{columns}xf32>
  %t = linalg.generic {{indexing_maps = [{MAPS}], iterator_types = ["parallel", "parallel"]}}
      ins(%a0, %a1 : tensor<{rows}x{columns}xf32>, tensor<{columns}xf32>) outs(%e : tensor<{rows}x{columns}xf32>) {{
  ^bb0(%x: f32, %y: f32, %out: f32):
    %s = arith.addf %x, %y : f32
    %r = math.exp %s : f32
    linalg.yield %r : f32
  }} -> tensor<{rows}x{columns}xf32>
  return %t : tensor<{rows}x{columns}xf32>"""
    f32 = torch.float32
    program = engine.compile(programs.lowered(body, [(f32, (rows, columns)), (f32, (columns,))], [(f32, (rows, columns))]))
    random = np.random.default_rng(0)
    x, y = random.standard_normal((rows, columns)).astype("f"), random.standard_normal(columns).astype("f")
    (got,) = program.run([x, y])
    np.testing.assert_allclose(got, np.exp(x + y), rtol=3e-7)
