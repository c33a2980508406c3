"""Which loops ask for what they will meet, where that is, and that no turn is lost or done twice."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch_mlir import ir

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler.asking_loops import FAR, write
from onnx2torch_mlir.engine.compiler.streams import pays
from onnx2torch_mlir.engine.compiler.walks import nested
from tests.engine import programs

COPY = """%zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    scf.for %i = %from to %to step %one {
      %x = memref.load %a[%i] : memref<?xf32, strided<[1]>>
      memref.store %x, %b[%i] : memref<?xf32, strided<[1]>>
    }"""
LINES = """%zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    scf.for %r = %from to %to step %one {
      scf.for %i = %zero to %to step %one {
        %x = memref.load %a[%r, %i] : memref<?x?xf32, strided<[?, 1]>>
        memref.store %x, %b[%r, %i] : memref<?x?xf32, strided<[?, 1]>>
      }
    }"""
ONE, TWO = "memref<?xf32, strided<[1]>>", "memref<?x?xf32, strided<[?, 1]>>"


def asked(loops, types, attributes=f"attributes {{{FAR}}}"):
    """How often a kernel asks to read, and to write."""
    text = f"func.func @kernel(%from: index, %to: index, %a: {types}, %b: {types}) {attributes} {{ {loops}\n return }}"
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        write(module, {"kernel"})
        assert module.operation.verify()
        found = [one for one in nested(module.operation) if one.name == "llvm.intr.prefetch"]
        writing = [ir.IntegerAttr(one.attributes["rw"]).value for one in found]
    return writing.count(0), writing.count(1)


def test_a_group_asks_for_each_line_that_it_goes_along_once():
    assert asked(COPY, ONE) == (4, 4)
    assert asked(LINES, TWO) == (4, 4)
    assert asked(COPY.replace("f32", "f64"), ONE.replace("f32", "f64")) == (8, 8)
    assert asked(COPY.replace("f32", "i8"), ONE.replace("f32", "i8")) == (4, 4)


def test_what_is_in_the_cache_or_apart_is_not_asked_for():
    assert asked(COPY, ONE, attributes="") == (0, 0)
    apart = COPY.replace("strided<[1]>", "strided<[2]>"), ONE.replace("strided<[1]>", "strided<[2]>")
    assert asked(*apart) == (0, 0)


def test_a_buffer_of_open_size_may_be_far(monkeypatch):
    with ir.Context():
        types = [ir.Type.parse(f"memref<{size}xf32>") for size in (100, 65536, "?")]
        for host, expected in (("cpu +avx512f", [False, True, True]), ("znver4 +avx512f", [False] * 3)):
            monkeypatch.setattr(objects, "_assumed", f"x86_64 {host}")
            assert [pays([type_, types[0]]) for type_ in types] == expected


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [4095, 4096, 4097, 4160, 70001])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_every_element_is_computed_once(dtype, count, threads):
    x = np.random.default_rng(0).integers(-50, 50, count).astype(dtype)
    kind = {"float32": torch.float32, "float64": torch.float64, "int8": torch.int8}[dtype]
    add = "arith.addi" if dtype == "int8" else "arith.addf"
    body = programs.pointwise(f"%r = {add} %x0, %x1 : {programs.MLIR[kind]}", [kind, kind], kind)
    shape = (programs.N,)
    program = o2m.engine.compile(programs.lowered(body, [(kind, shape)] * 2, [(kind, shape)]), threads=threads)
    (got,) = program.run([x, x])
    np.testing.assert_array_equal(got, x + x)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("columns", [511, 512, 600, 1024])
def test_lines_that_lie_apart(columns, dynamic):
    """Parts of the lines of one array, times those of another: lines of the result lie together."""
    rows, wide = 150, 1300
    starts = [helper.make_tensor(name, 7, [1], [value]) for name, value in (("a", 37), ("b", 37 + columns), ("c", 1))]
    nodes = [helper.make_node("Slice", ["x", "a", "b", "c"], ["s"]), helper.make_node("Mul", ["s", "z"], ["y"])]
    sizes = ("n", "w", "c") if dynamic else (rows, wide, columns)
    values = [helper.make_tensor_value_info("x", 1, sizes[:2]), helper.make_tensor_value_info("z", 1, [sizes[0], sizes[2]])]
    result = helper.make_tensor_value_info("y", 1, ["p", "q"])
    graph = helper.make_graph(nodes, "lines", values, [result], starts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    random = np.random.default_rng(1)
    x, z = (random.standard_normal((rows, size)).astype("f") for size in (wide, columns))
    (got,) = o2m.convert(model).compile().run([x, z])
    np.testing.assert_array_equal(got, x[:, 37 : 37 + columns] * z)
