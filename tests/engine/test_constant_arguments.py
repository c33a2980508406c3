"""Layers that differ in constants only share their code, and compute with their own constants."""

import re

import numpy as np
import onnxruntime
import pytest
from onnx import parser
from torch_mlir import ir

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import constant_arguments, kernels, likeness
from onnx2torch_mlir.engine.compiler.walks import nested
from tests.engine.made_here import engine_of, entry_of

COUNT = 5


def model(types, body):
    """``body`` for each number from 0 on, of the input x# and with the result y#; ``types`` are those of the two."""
    inputs, results = (
        ", ".join(f"{type_} {name}{i}" for i in range(COUNT)) for name, type_ in zip("xy", types, strict=True)
    )
    nodes = "\n".join(body(i).replace("#", str(i)) for i in range(COUNT))
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({results}) {{ {nodes} }}')


def line(i):
    return f"""c# = Constant <value_float = {0.3 + 0.8 * i}> ()  d# = Constant <value_float = 2.0> ()
        p# = Mul (x#, c#)  q# = Add (p#, d#)  y# = Tanh (q#)"""


def codes(i):
    return f"""s# = Constant <value = float {{{0.01 * (i + 1)}}}> ()  z# = Constant <value = uint8 {{{100 + 9 * i}}}> ()
        y# = QuantizeLinear (x#, s#, z#)"""


def tail(i):
    values = ", ".join(str((7 * k + i) % 11 - 5) for k in range(24 * 32))
    return f"""w# = Constant <value = float[24,32] {{{values}}}> ()  t# = MatMul (x#, w#)
        c# = Constant <value_float = {0.1 + 0.2 * i}> ()  y# = Mul (t#, c#)"""


MODELS = {
    "pointwise": (model(("float[40,24]", "float[40,24]"), line), "kernel"),
    "integers": (model(("float[40,24]", "uint8[40,24]"), codes), "kernel"),
    "any size": (model(("float[n,24]", "float[n,24]"), line), "kernel"),
    "after products": (model(("float[40,24]", "float[40,32]"), tail), "tail"),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_one_function_for_all(name, threads):
    read, kind = MODELS[name]
    program = o2m.convert(read).lowered
    entry = entry_of(program)
    own = {found for found, *_ in objects._symbols(entry["object"]) if re.fullmatch(rf"o2m_{kind}_\d+", found)}
    assert len(own) == 1
    code = engine_of(program, entry, threads=threads)
    feeds = {f"x{i}": np.random.default_rng(i).standard_normal((40, 24), np.float32) for i in range(COUNT)}
    session = onnxruntime.InferenceSession(read.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, wanted in zip(code.run(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)


def marked(*bodies):
    """Which constants are marked in pointwise nests with these bodies."""
    nests = "\n".join(
        f"""linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}}
        ins(%a : memref<8xf32>) outs(%b : memref<8xf32>) {{ ^bb0(%x: f32, %o: f32): {body} linalg.yield %r : f32 }}"""
        for body in bodies
    )
    constants = "\n".join(f"%c{i} = arith.constant {i}.0 : f32" for i in range(4))
    with ir.Context(), ir.Location.unknown():
        text = f"func.func @main(%a: memref<8xf32>, %b: memref<8xf32>) {{ {constants} {nests} return }}"
        module = ir.Module.parse(text)
        constant_arguments.give(module)
        generics = [operation for operation in nested(module.operation) if operation.name == "linalg.generic"]
        given = [[value for value in likeness.captured(nest) if not kernels.is_constant(value)] for nest in generics]
        return [[value.owner.attributes["value"].value for value in values] for values in given]


def test_only_what_differs_is_given():
    one, two = ("%p = arith.mulf %x, %c1 : f32 %r = arith.addf %p, " + f"%c{i} : f32" for i in (2, 3))
    assert marked(one, two) == [[2], [3]]
    assert marked(one, one) == [[], []]
    assert marked(one, two, two) == [[2], [3], [3]]
    assert marked(one) == [[]]


def test_other_bodies_are_let_alone():
    one = "%p = arith.mulf %x, %c1 : f32 %r = arith.addf %p, %c2 : f32"
    for other in (
        "%p = arith.mulf %x, %c3 : f32 %r = arith.subf %p, %c3 : f32",
        "%p = arith.mulf %x, %c3 : f32 %r = arith.addf %p, %x : f32",
        "%p = arith.mulf %c3, %x : f32 %r = arith.addf %p, %c3 : f32",
        "%p = arith.mulf %x, %c3 fastmath<nnan> : f32 %r = arith.addf %p, %c3 : f32",
    ):
        assert marked(one, other) == [[], []]
