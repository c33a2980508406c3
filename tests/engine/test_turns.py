"""Copies between arrays that are dense along different axes: squares and what is left of them, of all sizes and widths."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import task, turns, woven_lines
from onnx2torch_mlir.engine.compiler.code_text import turned
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import functions, symbol
from onnx2torch_mlir.engine.options import Options
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

LANES = of_host().lanes
CASES = {
    "squares": ([1, 0], (2 * LANES, 3 * LANES)),
    "rests": ([1, 0], (2 * LANES + 1, 3 * LANES - 1)),
    "shorter than a vector": ([1, 0], (LANES - 1, LANES // 2)),
    "one side shorter": ([1, 0], (LANES // 2 + 1, 2 * LANES + 3)),
    "the other side shorter": ([1, 0], (3 * LANES - 1, LANES - 2)),
    "channels last": ([0, 2, 3, 1], (2, 17, 9, 31)),
    "channels first": ([0, 3, 1, 2], (2, 9, 31, 17)),
    "an image's pixels last": ([0, 2, 3, 1], (1, 2 * LANES, 5, 9)),
    "an image's pixels first": ([0, 3, 1, 2], (2, 5, 9, 2 * LANES + 1)),
    "several on both sides": ([0, 3, 4, 1, 2], (2, 3, 7, 5, 6)),
    "turned around": ([2, 1, 0], (LANES + 3, 5, LANES + 2)),
    "nothing": ([1, 0], (0, 9)),
    "woven": ([0, 2, 1], (3, 2, 3 * LANES + 5)),
    "woven, whole vectors": ([1, 0], (3, 4 * LANES)),
    "woven, not a vector": ([1, 0], (5, LANES - 1)),
    "woven, long": ([1, 0], (7, 40 * LANES + 1)),
    "taken apart": ([0, 2, 1], (3, 3 * LANES + 5, 2)),
    "taken apart, whole vectors": ([1, 0], (4 * LANES, 3)),
    "taken apart, not a vector": ([1, 0], (LANES - 1, 5)),
    "taken apart, long": ([1, 0], (40 * LANES + 1, 7)),
    "colours last": ([0, 2, 3, 1], (2, 3, 9, LANES + 3)),
    "colours first": ([0, 3, 1, 2], (2, 9, LANES + 3, 3)),
    "twice the size": ([0, 1, 3, 2], (2, 3, 2, 2 * LANES)),
}
FEW = 8
TYPES = {
    name: np.dtype("bool" if name == "bool" else {"float": "f4", "double": "f8"}.get(name, name))
    for name in ("float", "int32", "int64", "double", "float16", "uint16", "int8", "bool", "complex64", "complex128")
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("known", ["all", "none", "few"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_turned(name, known, type_, threads):
    order, shape = CASES[name]
    x = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape)
    x = (x % 3 == 0 if type_ == "bool" else x).astype(TYPES[type_])
    after = ",".join(f"r{i}" for i in range(x.ndim))
    is_known = {"all": lambda size: True, "none": lambda size: False, "few": lambda size: 0 < size < FEW}[known]
    given = ",".join(str(size) if is_known(size) else f"b{axis}" for axis, size in enumerate(shape))
    text = f"g ({type_}[{given}] x) => ({type_}[{after}] y) {{ y = Transpose <perm = {order}> (x) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    np.testing.assert_array_equal(o2m.compile(model, threads=threads).run([x])[0], x.transpose(order))


def shuffled(lines, values):
    """``values`` and what the shuffles of ``lines`` make of them."""
    values = dict(values)
    for line in lines:
        made, first, second, order = re.match(r"(\S+) = vector.shuffle (\S+), (\S+) \[(.*)\]", line).groups()
        both = values[first] + values[second]
        values[made] = [both[int(place)] for place in order.split(",")]
    return values


@pytest.mark.parametrize(("lanes", "width"), [(16, 1), (8, 2), (16, 2), (4, 4), (8, 4), (16, 4), (2, 8), (4, 8), (8, 8)])
def test_a_square_in_registers(lanes, width):
    """The shuffles, done here, turn the square; none takes numbers from other places than one instruction may."""
    values = {f"%v{row}": [(row, column) for column in range(lanes)] for row in range(lanes)}
    lines, names = turned("t", list(values), lanes, "e", width)
    assert len(lines) == lanes * (lanes.bit_length() - 1)
    values = shuffled(lines, values)
    assert [values[name] for name in names] == [[(row, column) for row in range(lanes)] for column in range(lanes)]


@pytest.mark.parametrize("is_taken_apart", [False, True])
@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("width", [1, 4, 8])
def test_woven_in_registers(count, width, is_taken_apart):
    """The shuffles, done here, put each number into its place."""
    weave = woven_lines.Weave(SimpleNamespace(width=width), count, is_taken_apart)
    lanes = 4 * LANES // width
    apart = [[(place, line) for place in range(lanes)] for line in range(count)]
    flat = [(place, line) for place in range(lanes) for line in range(count)]
    woven = [flat[start : start + lanes] for start in range(0, len(flat), lanes)]
    given, expected = (woven, apart) if is_taken_apart else (apart, woven)
    for number in range(count):
        values = {f"%v{i}": vector for i, vector in enumerate(given)}
        lines, name = woven_lines.mixed("t", list(values), weave.order(number), "t")
        assert len(lines) == count - 1
        assert shuffled(lines, values)[name] == expected[number]


@pytest.mark.parametrize(
    ("shape", "strides", "found"),
    [
        ((3, 100), None, "o2m_turn4_3_woven"),
        ((3, 100), "[4, 1]", None),
        ((9, 100), None, "o2m_turn4"),
        ((3, 5), None, None),
        ((100, 3), None, "o2m_turn4_3_lines"),
        ((100, 1), None, None),
    ],
)
def test_which_lines_are_woven(shape, strides, found, monkeypatch):
    monkeypatch.setattr(objects, "_assumed", "x86_64 cpu +avx512f")
    rows, columns = shape
    layout = "" if strides is None else f", strided<{strides}>"
    sides = f"memref<{rows}x{columns}xf32>", f"memref<{columns}x{rows}xf32{layout}>"
    text = f"""func.func @main(%from: {sides[0]}, %to: {sides[1]}) {{
      linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>],
          iterator_types = ["parallel", "parallel"]}} ins(%from : {sides[0]}) outs(%to : {sides[1]}) {{
      ^bb0(%in: f32, %out: f32):
        linalg.yield %in : f32
      }}
      return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        turns.replace(module)
        assert module.operation.verify()
        names = [symbol(function) for function in functions(module)]
    assert names == ["main", *([found] if found else [])]


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


@pytest.mark.parametrize(
    ("order", "shape", "merged"),
    [
        ([0, 2, 3, 1], (1, 32, 5, 9), {45}),
        ([0, 3, 1, 2], (2, 5, 9, 32), {45}),
        ([0, 3, 4, 1, 2], (2, 4, 7, 5, 6), {28, 30}),
        ([1, 0], (32, 48), set()),
        ([0, 2, 1, 3, 4], (1, 6, 7, 2, 3), None),
    ],
)
def test_loops_that_go_on_where_others_end_are_one(order, shape, merged, monkeypatch):
    """An image's pixels are turned as one line, whatever its width."""
    found, match = [], turns.match
    monkeypatch.setattr(turns, "match", lambda nest: found.append(match(nest)) or found[-1])
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    given, after = (", ".join(map(str, sizes)) for sizes in (shape, [shape[axis] for axis in order]))
    text = f"g (float[{given}] x) => (float[{after}] y) {{ y = Transpose <perm = {order}> (x) }}"
    lowered = convert(read(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'))).lowered
    task.build(lowered.bytecode, Options(inputs=1))
    copies = [copy for copy in found if copy is not None]
    assert [set(copy.merged.values()) for copy in copies] == ([merged] if merged is not None else [])
