"""Copies between arrays that are dense along different axes: squares and what is left of them, of all sizes and widths."""

import re

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import turns
from onnx2torch_mlir.engine.compiler.code_text import turned
from onnx2torch_mlir.engine.compiler.vector_unit import of_host

LANES = of_host().lanes
CASES = {
    "squares": ([1, 0], (2 * LANES, 3 * LANES)),
    "rests": ([1, 0], (2 * LANES + 1, 3 * LANES - 1)),
    "shorter than a vector": ([1, 0], (LANES - 1, LANES // 2)),
    "one side shorter": ([1, 0], (LANES // 2 + 1, 2 * LANES + 3)),
    "the other side shorter": ([1, 0], (3 * LANES - 1, LANES - 2)),
    "channels last": ([0, 2, 3, 1], (2, 17, 9, 31)),
    "channels first": ([0, 3, 1, 2], (2, 9, 31, 17)),
    "turned around": ([2, 1, 0], (LANES + 3, 5, LANES + 2)),
    "nothing": ([1, 0], (0, 9)),
}
TYPES = {
    name: np.dtype("bool" if name == "bool" else {"float": "f4", "double": "f8"}.get(name, name))
    for name in ("float", "int32", "int64", "double", "float16", "uint16", "int8", "bool", "complex64", "complex128")
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_turned(name, known, type_, threads):
    order, shape = CASES[name]
    x = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape)
    x = (x % 3 == 0 if type_ == "bool" else x).astype(TYPES[type_])
    before, after = (",".join(f"{letter}{i}" for i in range(x.ndim)) for letter in "dr")
    given = ",".join(map(str, shape)) if known else before
    text = f"g ({type_}[{given}] x) => ({type_}[{after}] y) {{ y = Transpose <perm = {order}> (x) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    np.testing.assert_array_equal(o2m.compile(model, threads=threads).run([x])[0], x.transpose(order))


@pytest.mark.parametrize(("lanes", "width"), [(16, 1), (8, 2), (16, 2), (4, 4), (8, 4), (16, 4), (2, 8), (4, 8), (8, 8)])
def test_a_square_in_registers(lanes, width):
    """The shuffles, done here, turn the square; none takes numbers from other places than one instruction may."""
    values = {f"%v{row}": [(row, column) for column in range(lanes)] for row in range(lanes)}
    lines, names = turned("t", list(values), lanes, "e", width)
    assert len(lines) == lanes * (lanes.bit_length() - 1)
    for line in lines:
        made, first, second, order = re.match(r"(\S+) = vector.shuffle (\S+), (\S+) \[(.*)\]", line).groups()
        both = values[first] + values[second]
        values[made] = [both[int(place)] for place in order.split(",")]
    assert [values[name] for name in names] == [[(row, column) for row in range(lanes)] for column in range(lanes)]


@pytest.mark.parametrize(
    ("element", "found"),
    [("i1", 1), ("i8", 1), ("f16", 1), ("f32", 1), ("i64", 1), ("complex<f32>", 1), ("complex<f64>", 0)],
)
def test_elements_of_every_width_are_turned(element, found):
    sides = f"memref<96x160x{element}>", f"memref<160x96x{element}>"
    text = f"""func.func @main(%from: {sides[0]}, %to: {sides[1]}) {{
      linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}} ins(%from : {sides[0]}) outs(%to : {sides[1]}) {{
      ^bb0(%x: {element}, %old: {element}):
        linalg.yield %x : {element}
      }}
      return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        assert len(turns.replace(module)) == found
        assert module.operation.verify()


@pytest.mark.parametrize("disabled", ["", "turns"])
def test_into_the_middle_of_an_image(disabled, monkeypatch):
    """A convolution's padded input is turned into place: nothing around it is written."""
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, LANES + 1, 7, 19), np.float32), rng.standard_normal((5, LANES + 1, 3, 3), np.float32)
    text = f"g (float[2,{LANES + 1},7,19] x, float[5,{LANES + 1},3,3] w) => (float[a,b,c,d] y)"
    text += " { y = Conv <pads = [1,1,1,1]> (x, w) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    found = o2m.compile(model).run([x, w])[0]
    np.testing.assert_allclose(found, np.einsum("nchwpq,fcpq->nfhw", windows, w), rtol=1e-4, atol=1e-4)
