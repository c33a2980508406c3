"""Gather, scatter and their relatives against onnxruntime: negative indices, ranks, reductions, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m
from tests.one_node import agrees

NATIVE = True


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(int(np.prod(shape))) + 1).reshape(shape).astype(dtype)


@pytest.mark.parametrize("index", [np.int64(-1), np.array([0, -2, 2]), np.array([[1, 0], [-1, -3]], dtype=np.int32)])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_gather(index, axis, dynamic, known):
    inputs = [ramp(3, 4), np.asarray(index)]
    agrees("Gather", inputs, opset=13, axis=axis, dynamic=dynamic, known=[1] if known else [], native=dynamic)


def test_gather_nothing():
    agrees("Gather", [ramp(3, 4), np.zeros((0, 2), np.int64)], opset=13, dynamic=True, native=NATIVE)
    agrees("Gather", [ramp(3, 0), np.array([1, 2])], opset=1, dynamic=True, native=NATIVE)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "int64"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gather_elements(dtype, dynamic):
    index = np.array([[0, -1, 2], [1, 1, -3]])
    agrees("GatherElements", [ramp(3, 3, dtype=dtype), index], opset=13, dynamic=dynamic, native=dynamic)
    agrees("GatherElements", [ramp(2, 4, dtype=dtype), index], opset=11, axis=1, dynamic=dynamic, native=dynamic)


GATHER_ND = [
    ((2, 3, 4), np.array([[0, -1], [1, 0]]), 0),
    ((2, 3, 4), np.array([[[0, 1, -1]], [[1, 2, 3]]]), 0),
    ((2, 3, 4), np.array([[1], [0]]), 0),
    ((2, 3, 4), np.array([[1], [-1]]), 1),
    ((2, 3, 4), np.array([[[1], [0], [2]], [[3], [-1], [0]]]), 2),
]


@pytest.mark.parametrize(("shape", "index", "batch_dims"), GATHER_ND)
def test_gather_nd(shape, index, batch_dims):
    attributes = {"batch_dims": batch_dims} if batch_dims else {}
    agrees("GatherND", [ramp(*shape), index], opset=12, native=NATIVE, **attributes)
    if not batch_dims:
        agrees("GatherND", [ramp(*shape), index], opset=11, native=NATIVE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(dtype, reduction, axis):
    indices = np.array([[0, 2, 1], [-2, 0, 2]]) if axis == 0 else np.array([[0, -1, 1], [2, 1, 0]])
    inputs = [ramp(3, 3, dtype=dtype), indices, np.array([[2, 3, 4], [5, 9, 1]], dtype=dtype)]
    attributes = {} if reduction == "none" else {"reduction": reduction}
    agrees("ScatterElements", inputs, opset=18, axis=axis, dynamic=axis == 1, native=NATIVE, **attributes)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_scatter_repeated_indices(reduction):
    inputs = [ramp(4), np.array([1, 1, -3, 0]), np.float32([3, -2, 5, 0.5])]
    agrees("ScatterElements", inputs, opset=18, reduction=reduction, native=NATIVE)
    inputs = [ramp(4, 2), np.array([[1], [1], [-3]]), ramp(3, 2) * np.float32(0.5)]
    agrees("ScatterND", inputs, opset=18, reduction=reduction, native=NATIVE)


def test_scatter_bool():
    inputs = [np.array([True, False, True]), np.array([0, 1]), np.array([False, True])]
    for reduction, expected in (("add", [True, True, True]), ("mul", [False, False, True])):
        agrees(
            "ScatterElements",
            inputs,
            opset=18,
            reduction=reduction,
            expected=[np.array(expected)],
            native=NATIVE,
        )


def test_scatter_of_opset_9():
    inputs = [ramp(3, 3), np.array([[1, 0, 2]]), np.float32([[7, 8, 9]])]
    agrees("Scatter", inputs, opset=9, axis=1, dynamic=True, native=NATIVE)


SCATTER_ND = [
    ((4,), np.array([[1], [-1]]), (2,)),
    ((2, 3, 4), np.array([[0, 1], [1, -1]]), (2, 4)),
    ((2, 3), np.array([[[0, 1]], [[1, 2]]]), (2, 1)),
]


@pytest.mark.parametrize(("shape", "indices", "update"), SCATTER_ND)
@pytest.mark.parametrize("opset", [11, 18])
def test_scatter_nd(shape, indices, update, opset):
    agrees("ScatterND", [ramp(*shape), indices, -ramp(*update)], opset=opset, native=NATIVE)


OUTSIDE = {
    "Gather": ("float[4, 5] x, int64[2] i", "Gather<axis=1>(x, i)", [[-6, 0], [0, 5], [-10, 0]]),
    "GatherElements": ("float[4, 5] x, int64[1, 1] i", "GatherElements<axis=1>(x, i)", [[[-6]], [[-10]], [[5]]]),
    "GatherND": ("float[4, 5] x, int64[1, 2] i", "GatherND(x, i)", [[[0, -6]], [[-5, 0]], [[3, 5]], [[-8, 0]]]),
    "ScatterElements": ("float[4, 5] x, int64[1, 1] i, float[1, 1] u", "ScatterElements<axis=1>(x, i, u)", [[[-6]], [[5]]]),
    "ScatterND": ("float[4, 5] x, int64[1, 2] i, float[1] u", "ScatterND(x, i, u)", [[[1, 5]], [[1, -6]], [[-5, 0]]]),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_is_refused(name):
    """Also what would be inside if it were counted from the end twice, or of several axes together."""
    inputs, call, indices = OUTSIDE[name]
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g ({inputs}) => (float[N, M] y) {{ y = {call} }}')
    program = o2m.convert(model)
    engine = program.compile()
    for index in indices:
        rest = [np.ones([1] * (2 if "1, 1] u" in inputs else 1), np.float32)] if " u" in inputs else []
        with pytest.raises(o2m.Refusal, match="an index lies outside"):
            engine.run([ramp(4, 5), np.array(index), *rest])


CALLS = ["GatherElements<axis=1>(x, i)", "ScatterElements<axis=1>(x, i, i)", "GatherND(x, i)"]


@pytest.mark.parametrize("dim", ["5", "N"])
@pytest.mark.parametrize("call", CALLS)
def test_positions_are_counted_where_they_are_used(call, dim):
    """An index that counts negative positions from the end is not made for it."""
    text = f"int64[4, {dim}] x, int64[4, 1] i"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g ({text}) => (int64[A, B] y) {{ y = {call} }}')
    program = o2m.convert(model)
    assert "aten.where" in str(program)
    # Where an element is checked, and where it is used.
    assert str(program.to_mlir("linalg")).count("arith.select") == 2


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode):
    cache, update = ramp(2, 1, 5, 3), -ramp(2, 1, 2, 3)
    start = np.array([1, 3]) if mode == "linear" else np.array([4, 0])
    expected = cache.copy()
    for batch in range(2):
        for step in range(2):
            expected[batch, :, (start[batch] + step) % 5] = update[batch, :, step]
    for dynamic in (False, True):
        inputs = [cache, update, start]
        agrees("TensorScatter", inputs, opset=24, mode=mode, dynamic=dynamic, expected=[expected], native=dynamic)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("condition", [[True, False, True], [False, True], [False, False, False]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compress(axis, condition, dynamic):
    attributes = {} if axis is None else {"axis": axis}
    agrees("Compress", [ramp(3, 4), np.array(condition)], opset=11, dynamic=dynamic, native=dynamic, **attributes)


@pytest.mark.parametrize("dynamic", [False, True])
def test_reverse_sequence(dynamic):
    inputs = [ramp(4, 3, 2), np.array([1, 4, 3])]
    agrees("ReverseSequence", inputs, opset=10, dynamic=dynamic, native=dynamic)
    inputs = [ramp(3, 4), np.array([0, 4, 2])]
    agrees("ReverseSequence", inputs, opset=10, batch_axis=0, time_axis=1, dynamic=dynamic, native=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("known", [(), (1,)])
@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (3, 0)])
@pytest.mark.parametrize("shape", [(3, 4, 5, 3), (1, 2, 1, 3), (2, 2, 2, 0), (2, 0, 2, 2)])
def test_reverse_sequence_along_any_axes(shape, batch, time, known, dynamic):
    data = ramp(*shape)
    lengths = np.arange(shape[batch]) % (shape[time] + 1)
    moved = np.moveaxis(data.copy(), (batch, time), (0, 1))
    for row, length in zip(moved, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    expected = [np.moveaxis(moved, (0, 1), (batch, time))]
    axes = {"batch_axis": batch, "time_axis": time}
    program = agrees("ReverseSequence", [data, lengths], opset=10, known=known, dynamic=dynamic, expected=expected, **axes)
    names = [str(node.target) for node in program.exported.graph.nodes]
    assert any("gather" in name for name in names) == (abs(batch - time) > 1)


PREPARED = {
    "rows": ("s = Constant<value_ints = [6, 5]>() j = Expand(i, s)", (6, 1)),
    "columns": ("s = Constant<value_ints = [6, 5]>() j = Expand(i, s)", (1, 5)),
    "one": ("s = Constant<value_ints = [6, 5]>() j = Expand(i, s)", (1, 1)),
    "new axes": ("s = Constant<value_ints = [6, 5]>() j = Expand(i, s)", (5,)),
    "turned": ("j = Transpose<perm = [1, 0]>(i)", (5, 6)),
    "around": ("k = Constant<value_ints = [-1]>() l = Constant<value_ints = [-9]>() j = Slice(i, k, l, k, k)", (6, 5)),
}


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_where_an_index_is_repeated_or_moved(name, axis, reduction):
    """The index is read as it was before; what is written last stays."""
    prepare, shape = PREPARED[name]
    index = np.random.default_rng(1).integers(-7, 7, shape)
    data, updates = ramp(7, 7), -ramp(6, 5)
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
      g (float[7,7] x, int64[{",".join(map(str, shape))}] i, float[6,5] u) => (float[7,7] y) {{
        {prepare}
        y = ScatterElements<axis = {axis}, reduction = "{reduction}">(x, j, u)
      }}""")
    moved = index.T if name == "turned" else index[:, ::-1] if name == "around" else np.broadcast_to(index, updates.shape)
    expected = data.copy()
    for place, value in np.ndenumerate(updates):
        target = list(place)
        target[axis] = moved[place]
        expected[tuple(target)] = value + (expected[tuple(target)] if reduction == "add" else 0)
    (found,) = o2m.compile(model).run([data, index, updates])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_where_an_index_is_repeated_or_moved(name, axis):
    prepare, shape = PREPARED[name]
    index = np.random.default_rng(1).integers(-7, 7, shape)
    data = ramp(7, 7)
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
      g (float[7,7] x, int64[{",".join(map(str, shape))}] i) => (float[6,5] y) {{
        {prepare}
        y = GatherElements<axis = {axis}>(x, j)
      }}""")
    moved = index.T if name == "turned" else index[:, ::-1] if name == "around" else np.broadcast_to(index, (6, 5))
    expected = np.zeros((6, 5), np.float32)
    for place in np.ndindex(6, 5):
        target = list(place)
        target[axis] = moved[place]
        expected[place] = data[tuple(target)]
    (found,) = o2m.compile(model).run([data, index])
    np.testing.assert_array_equal(found, expected)


def test_a_repeated_index_that_lies_outside_is_told():
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
      g (float[7,7] x, int64[6,1] i, float[6,7] u) => (float[7,7] y) { y = ScatterND(x, i, u) }""")
    program = o2m.compile(model)
    with pytest.raises(o2m.Refusal, match="outside"):
        program.run([ramp(7, 7), np.array([[0], [1], [2], [3], [4], [7]]), ramp(6, 7)])
