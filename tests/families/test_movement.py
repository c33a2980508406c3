"""Reshape, Squeeze, Transpose, Concat, Split, Slice, Expand, Tile, Pad against onnxruntime, static and dynamic."""

from __future__ import annotations

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

NATIVE = True


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


RESHAPES = [
    ((2, 3, 4), [4, 6], {}),
    ((2, 3, 4), [0, -1], {}),
    ((2, 3, 4), [-1, 0, 2], {}),
    ((2, 3, 4), [24], {}),
    ((1, 1), [], {}),
    ((), [1, 1], {}),
    ((0, 3), [3, 0], {"allowzero": 1}),
    ((2, 0, 3), [0, 0, 5], {}),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("shape", "target", "attributes"), RESHAPES)
def test_reshape(shape, target, attributes, dynamic, known):
    if dynamic and not known:
        pytest.skip("the length of the shape would vary")
    inputs = [ramp(*shape), ints(*target)]
    agrees("Reshape", inputs, opset=19, known=[1] if known else [], dynamic=dynamic, native=dynamic, **attributes)


def test_reshape_that_is_not_determined():
    with pytest.raises(Refusal, match="not determined"):
        agrees("Reshape", [ramp(2, 0, 3), ints(0, 0, -1)], opset=19, known=[1], expected=[None])
    agrees("Reshape", [ramp(2, 3), ints(0, -1)], opset=19, known=[1], dynamic=True, native=NATIVE)


def test_reshape_attribute():
    agrees("Reshape", [ramp(2, 6)], opset=1, shape=[0, 3, -1], expected=[ramp(2, 3, 2)], native=NATIVE)


@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("opset", [8, 9, 13])
def test_flatten(axis, opset):
    if opset < 11 and axis < 0:
        pytest.skip("negative axes came with opset 11")
    agrees("Flatten", [ramp(2, 3, 4)], opset=opset, axis=axis, dynamic=opset == 13, native=NATIVE)


ONES = (1, 3, 1, 4)


@pytest.mark.parametrize("axes", [[0], [2], [0, 2], [-2], [2, 0]])
@pytest.mark.parametrize("mode", ["attribute", "known", "run time"])
def test_squeeze(axes, mode):
    if mode == "attribute":
        agrees("Squeeze", [ramp(*ONES)], opset=11, axes=axes, dynamic=True, native=NATIVE)
    else:
        known = [1] if mode == "known" else []
        agrees("Squeeze", [ramp(*ONES), ints(*axes)], opset=13, known=known, native=NATIVE)


def test_squeeze_without_axes():
    agrees("Squeeze", [ramp(*ONES)], opset=13, native=NATIVE)
    agrees("Squeeze", [ramp(2, 3)], opset=13, dynamic=True, native=NATIVE)
    with pytest.raises(Refusal, match="would change the rank"):
        agrees("Squeeze", [ramp(1, 3)], opset=13, dynamic=True, native=False)


@pytest.mark.parametrize("axes", [[0], [1, 3], [-1], [-1, 0], [3, 1]])
@pytest.mark.parametrize("mode", ["attribute", "known", "run time"])
def test_unsqueeze(axes, mode):
    if mode == "attribute":
        agrees("Unsqueeze", [ramp(2, 3)], opset=11, axes=axes, dynamic=True, native=NATIVE)
    else:
        known = [1] if mode == "known" else []
        agrees("Unsqueeze", [ramp(2, 3), ints(*axes)], opset=13, known=known, native=NATIVE)


def test_axes_out_of_range_or_twice():
    for axes in ([4], [0, 0]):
        with pytest.raises(Refusal, match="axis"):
            agrees("Squeeze", [ramp(1, 3), ints(*axes)], opset=13, known=[1], expected=[None])


@pytest.mark.parametrize("dynamic", [False, True])
def test_transpose(dynamic):
    agrees("Transpose", [ramp(2, 3, 4)], opset=13, dynamic=dynamic, native=dynamic)
    agrees("Transpose", [ramp(2, 3, 4)], opset=1, perm=[1, 2, 0], dynamic=dynamic, native=dynamic)
    agrees("Transpose", [ramp()], opset=21, dynamic=dynamic, native=dynamic)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "uint16", "int64"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_concat(dtype, dynamic):
    inputs = [ramp(2, 3, dtype=dtype), ramp(2, 0, dtype=dtype), ramp(2, 1, dtype=dtype)]
    agrees("Concat", inputs, opset=13, axis=-1, dynamic=dynamic, native=dynamic)


def test_concat_default_axis_of_version_1():
    expected = np.concatenate([ramp(2, 3), ramp(2, 1)], 1)
    agrees("Concat", [ramp(2, 3), ramp(2, 1)], opset=1, expected=[expected], native=NATIVE)


SPLITS = [
    (2, {"axis": 1}, None, 2),
    (11, {"axis": -1, "split": [1, 3]}, None, 2),
    (13, {"axis": 1}, [3, 1], 2),
    (13, {"axis": 0}, None, 3),
    (18, {"axis": 0, "num_outputs": 2}, None, 2),
    (18, {"axis": 1, "num_outputs": 3}, None, 3),
    (18, {"axis": 0}, [1, 0, 2], 3),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("opset", "attributes", "split", "outputs"), SPLITS)
def test_split(opset, attributes, split, outputs, dynamic, known):
    if split is None and not known:
        pytest.skip("no second input")
    if dynamic and not known:
        pytest.skip("the length of split would vary")
    inputs = [ramp(3, 4)] + ([] if split is None else [ints(*split)])
    options = {"known": [1] if known else [], "dynamic": dynamic, "outputs": outputs, "native": NATIVE}
    if opset == 18 and attributes.get("num_outputs") == 3:
        options["expected"] = [ramp(3, 4)[:, :2], ramp(3, 4)[:, 2:], ramp(3, 0)]
    agrees("Split", inputs, opset=opset, **options, **attributes)


SLICES = [
    ([1], [3], [0], None),
    ([-2], [2**63 - 1], [0], None),
    ([0, 1], [5, -1], None, None),
    ([3], [-(2**63)], [1], [-1]),
    ([-1], [-5], [1], [-2]),
    ([10], [0], [0], [-3]),
    ([3], [1], [0], None),
    ([-100], [100], [0], [2]),
    ([-100], [-200], [1], [-1]),
    ([0, 0], [3, 2], [-1, 0], [2, 1]),
    ([2**31 - 1], [-(2**31)], [0], [-1]),
]


@pytest.mark.parametrize("mode", ["known", "run-time bounds", "run time"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice(starts, ends, axes, steps, dynamic, mode):
    if dynamic and mode != "known":
        pytest.skip("the number of slices would vary")
    inputs = [ramp(5, 4), ints(*starts), ints(*ends), *(None if i is None else ints(*i) for i in (axes, steps))]
    known = {"known": [1, 2, 3, 4], "run-time bounds": [3, 4], "run time": []}[mode]
    agrees("Slice", inputs, opset=13, known=known, dynamic=dynamic, native=dynamic)


def test_slice_attributes():
    agrees("Slice", [ramp(5, 4)], opset=9, starts=[1, -3], ends=[1000, -1], dynamic=True, native=NATIVE)
    agrees("Slice", [ramp(5, 4)], opset=1, starts=[1], ends=[2], axes=[1], native=NATIVE)


def test_slice_of_nothing():
    for start, end, step in ((0, 5, 1), (-1, -9, -1)):
        inputs = [ramp(0, 4), ints(start), ints(end), ints(0), ints(step)]
        agrees("Slice", inputs, opset=13, known=[1, 2, 3, 4], dynamic=True, native=NATIVE)


EXPANSIONS = [((3, 1), [2, 1, 6]), ((3, 1), [3, 4]), ((2, 3), [1, 1]), ((), [2, 2]), ((1, 3), [0, 1]), ((4,), [4])]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("shape", "target"), EXPANSIONS)
def test_expand(shape, target, known):
    agrees("Expand", [ramp(*shape), ints(*target)], opset=13, known=[1] if known else [], native=NATIVE)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("repeats", [[1, 1], [2, 3], [1, 4], [0, 2]])
def test_tile(repeats, known):
    known_inputs = [1] if known else []
    agrees("Tile", [ramp(2, 3), ints(*repeats)], opset=13, known=known_inputs, dynamic=known, native=NATIVE)


def test_tile_one_axis():
    inputs = [ramp(2, 3), np.float32([2]), np.float32([1])]
    for known in ([1, 2], [2], [1], []):
        agrees("Tile", inputs, opset=1, known=known, expected=[np.tile(ramp(2, 3), (1, 2))], native=NATIVE and known != [1])
    inputs[2] = np.float32([2])
    with pytest.raises(Refusal, match="must be in range"):
        agrees("Tile", inputs, opset=1, expected=[None], native=False)


PADS = [[0, 1, 0, 2], [1, 0, 1, 0], [2, 2, 2, 2], [0, 0, 0, 0], [-1, 0, 1, 0], [-1, 1, -1, -1]]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("known", [True, False])
def test_pad(pads, mode, known):
    opset = 19 if mode == "wrap" else 11
    data = ramp(4, 3)
    expected = None
    if mode == "wrap" and min(pads) < 0:
        pytest.skip("wrap with negative pads is not defined by ONNX's own reference")
    known_inputs = [1, 2] if known else []
    agrees(
        "Pad",
        [data, ints(*pads), *([np.array(7, np.float32)] if mode == "constant" else [])],
        opset=opset,
        known=known_inputs,
        dynamic=known,
        mode=mode,
        expected=expected,
        native=NATIVE,
    )


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "int64", "bool"])
def test_pad_dtypes(dtype):
    agrees("Pad", [ramp(2, 3, dtype=dtype), ints(0, 1, 1, 0)], opset=13, known=[1], native=NATIVE)


def test_pad_axes():
    for known in ([1, 3], []):
        inputs = [ramp(2, 3, 4), ints(1, 2), np.array(0.5, np.float32), ints(-1)]
        agrees("Pad", inputs, opset=18, known=known, native=NATIVE)


def test_pad_attributes():
    agrees("Pad", [ramp(2, 3)], opset=2, pads=[0, 1, 1, 0], value=2.5, native=NATIVE)
    agrees("Pad", [ramp(2, 3)], opset=10, pads=[0, 1, 0, 1], mode="reflect", native=NATIVE)
    expected = np.pad(ramp(2, 3), ((0, 1), (1, 0)))
    agrees("Pad", [ramp(2, 3)], opset=1, paddings=[0, 1, 1, 0], expected=[expected], native=NATIVE)
