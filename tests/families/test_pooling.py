"""Pools against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import agrees, node_model, reference

NATIVE = False
RANDOM = np.random.default_rng(1)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


Case = tuple[tuple[int, ...], dict[str, Any]]

COMMON: dict[str, Case] = {
    "plain": ((1, 2, 6, 5), {"kernel_shape": [2, 3]}),
    "one axis": ((2, 2, 9), {"kernel_shape": [3], "strides": [2]}),
    "three axes": ((1, 2, 5, 4, 6), {"kernel_shape": [2, 2, 3], "strides": [2, 1, 2]}),
    "padded": ((1, 2, 6, 5), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "asymmetric": ((1, 2, 6, 5), {"kernel_shape": [3, 2], "pads": [2, 0, 1, 1], "strides": [2, 1]}),
    "padded beyond half": ((1, 2, 6), {"kernel_shape": [3], "pads": [2, 2]}),
    "same upper": ((1, 2, 6, 5), {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 2, 6, 5), {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    "valid": ((1, 2, 6, 5), {"kernel_shape": [3, 2], "auto_pad": "VALID"}),
    "whole plane": ((3, 1, 4, 3), {"kernel_shape": [4, 3]}),
}
CEILED: dict[str, Case] = {
    "ceil": ((1, 2, 7, 5), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "ceil, padded": ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "ceil, a window dropped": ((1, 1, 7), {"kernel_shape": [3], "strides": [3], "pads": [1, 1]}),
    "ceil, a window of padding": ((1, 1, 6), {"kernel_shape": [4], "strides": [4], "pads": [0, 1]}),
    "ceil, nothing left": ((1, 1, 8), {"kernel_shape": [2], "strides": [2]}),
    "ceil, kernel below stride": ((1, 1, 6), {"kernel_shape": [1], "strides": [2]}),
    "ceil, valid": ((1, 1, 7), {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID"}),
    "ceil, three axes": ((1, 1, 5, 4, 3), {"kernel_shape": [2, 3, 2], "strides": [2, 2, 2]}),
}
DILATED: dict[str, Case] = {
    "dilated": ((1, 2, 7, 6), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "dilated, padded": ((1, 2, 7), {"kernel_shape": [3], "dilations": [2], "pads": [1, 2], "strides": [2]}),
    "dilated, same": ((1, 2, 7), {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_LOWER", "strides": [2]}),
}


def with_ceil(cases: dict[str, Case]) -> dict[str, Case]:
    return {name: (shape, {**attributes, "ceil_mode": 1}) for name, (shape, attributes) in cases.items()}


WINDOWS = {
    1: COMMON,
    10: {**COMMON, **with_ceil(CEILED), **DILATED},
    22: {**COMMON, **with_ceil(CEILED), **DILATED},
}
UNDILATED = {1: COMMON, 7: COMMON, 11: {**COMMON, **with_ceil(CEILED)}, 19: WINDOWS[22], 22: WINDOWS[22]}


def table(windows: dict[int, dict[str, Case]]) -> list[tuple[int, str]]:
    return [(opset, name) for opset, cases in windows.items() for name in cases]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("opset", "case"), table(WINDOWS))
def test_max_pool(opset: int, case: str, dynamic: bool) -> None:
    shape, attributes = WINDOWS[opset][case]
    agrees("MaxPool", [floats(*shape)], opset=opset, dynamic=dynamic, native=NATIVE, **attributes)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", WINDOWS[22])
def test_max_pool_indices(case: str, dynamic: bool, storage_order: int) -> None:
    shape, attributes = WINDOWS[22][case]
    spatial = shape[2:]
    x = RANDOM.permutation(2 * 3 * int(np.prod(spatial))).reshape(2, 3, *spatial).astype(np.float32)
    agrees(
        "MaxPool", [x], opset=12, outputs=2, dynamic=dynamic, native=NATIVE, storage_order=storage_order, **attributes
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64, np.float16])
@pytest.mark.parametrize("case", ["plain", "padded", "asymmetric", "one axis"])
def test_max_pool_dtypes(case: str, dtype: Any) -> None:
    shape, attributes = COMMON[case]
    x = RANDOM.integers(0, 120, shape).astype(dtype)
    agrees("MaxPool", [x], opset=22, native=NATIVE, **attributes)


def test_positions_are_never_padding() -> None:
    x = np.zeros((1, 1, 2, 3), np.uint8)
    want = np.array([[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 4, 5]]).reshape(1, 1, 3, 4)
    attributes: dict[str, Any] = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}
    agrees("MaxPool", [x], opset=12, outputs=2, expected=[None, want], native=NATIVE, **attributes)
    low = np.full((1, 1, 2, 3), -np.inf, np.float32)
    attributes = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}
    agrees("MaxPool", [low], opset=12, outputs=2, expected=[None, want], native=NATIVE, **attributes)


def test_max_pool_over_four_axes() -> None:
    x = floats(1, 2, 3, 4, 3, 4)
    attributes: dict[str, Any] = {"kernel_shape": [2, 2, 2, 2], "strides": [1, 2, 1, 1]}
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2, 2, 2), (2, 3, 4, 5))[:, :, :, ::2]
    assert windows.shape[:6] == (1, 2, 2, 2, 2, 3)
    agrees("MaxPool", [x], opset=12, expected=[windows.max((6, 7, 8, 9))], native=NATIVE, **attributes)
    agrees("AveragePool", [x], opset=12, expected=[windows.mean((6, 7, 8, 9))], native=NATIVE, **attributes)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("opset", "case"), table(UNDILATED))
def test_average_pool(opset: int, case: str, dynamic: bool, include: int) -> None:
    shape, attributes = UNDILATED[opset][case]
    x = floats(*shape)
    expected = None
    if opset >= 7:
        attributes = {**attributes, "count_include_pad": include}
    else:  # nothing runs versions below 7; ONNX's version converter says that they do not count padding
        expected = reference(node_model("AveragePool", [x], opset=7, **attributes), {"in0": x})
    agrees("AveragePool", [x], opset=opset, dynamic=dynamic, expected=expected, native=NATIVE, **attributes)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 2, 7, 5), {"kernel_shape": [1280, 900], "strides": [1280, 900]}),
        ((1, 2, 7, 5), {"kernel_shape": [1280, 2], "strides": [1280, 2], "pads": [1, 0, 2, 1]}),
        ((2, 1, 170), {"kernel_shape": [64], "strides": [40], "pads": [3, 5], "count_include_pad": 1}),
        ((1, 1, 128), {"kernel_shape": [64], "strides": [64]}),
    ],
    ids=["all of the image", "one axis", "some windows", "whole windows"],
)
def test_windows_far_beyond_an_image_of_any_size(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    x = floats(*shape)
    x[0, 0, 0] = np.inf
    agrees("AveragePool", [x], opset=19, dynamic=True, native=NATIVE, ceil_mode=1, **attributes)


@pytest.mark.parametrize("dynamic", [False, True])
def test_average_pool_dilated_and_padded(dynamic: bool) -> None:
    """Counted by hand: onnxruntime refuses the padding, ONNX's reference evaluator pads by the undilated kernel."""
    x = np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)
    attributes: dict[str, Any] = {"kernel_shape": [3], "dilations": [2], "pads": [2, 3], "strides": [3]}
    for include, want in ((0, [2.0, 4.0, 6.0]), (1, [4 / 3, 4.0, 4.0])):
        expected = [np.array(want, np.float32).reshape(1, 1, 3)]
        agrees(
            "AveragePool",
            [x],
            opset=19,
            dynamic=dynamic,
            expected=expected,
            native=NATIVE,
            count_include_pad=include,
            **attributes,
        )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("opset", [2, 11, 18, 22])
def test_lp_pool(opset: int, p: int, dynamic: bool) -> None:
    for shape, attributes in COMMON.values():
        agrees("LpPool", [floats(*shape)], opset=opset, dynamic=dynamic, native=NATIVE, rtol=1e-4, p=p, **attributes)
    if opset >= 18:
        attributes = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "p": p}
        x = floats(1, 2, 7)
        padded = np.pad(np.abs(x.astype(np.float64)) ** p, ((0, 0), (0, 0), (0, 1))).reshape(1, 2, 4, 2)
        want = (padded.sum(-1) ** (1 / p)).astype(np.float32)
        agrees("LpPool", [x], opset=opset, dynamic=dynamic, expected=[want], native=NATIVE, **attributes)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 6), (1, 1, 2, 3, 4)])
def test_global_pools(shape: tuple[int, ...], dynamic: bool) -> None:
    x = floats(*shape)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        agrees(op, [x], opset=22, dynamic=dynamic, native=NATIVE)
    axes = tuple(range(2, x.ndim))
    for opset, p in ((1, 2.0), (1, 1.5), (2, 3), (22, 1), (22, 2)):
        norm = (np.abs(x.astype(np.float64)) ** p).sum(axes, keepdims=True) ** (1 / p)
        want = [norm.astype(np.float32)]
        agrees("GlobalLpPool", [x], opset=opset, dynamic=dynamic, expected=want, native=NATIVE, rtol=1e-4, p=p)


@pytest.mark.parametrize("dynamic", [False, True])
def test_max_unpool(dynamic: bool) -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    places = np.array([[[[5, 7], [13, 15]]]], np.int64)
    attributes: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    agrees("MaxUnpool", [x, places], opset=11, dynamic=dynamic, native=NATIVE, **attributes)
    shape = np.array([1, 1, 5, 5], np.int64)
    want = np.zeros((1, 1, 5, 5), np.float32)
    want[0, 0, 1, 1], want[0, 0, 1, 3], want[0, 0, 3, 1], want[0, 0, 3, 3] = 1, 2, 3, 4
    for known in ([2],) if dynamic else ([], [2]):
        agrees(
            "MaxUnpool",
            [x, places, shape],
            opset=11,
            known=known,
            dynamic=dynamic,
            expected=[want],
            native=NATIVE,
            **attributes,
        )
