"""Resize and Upsample against onnxruntime, or ONNX's reference evaluator where onnxruntime has no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import agrees, eager, node_model, reference

NATIVE = False
RANDOM = np.random.default_rng(2)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
FACTORS = [(2.0, 3.0), (0.5, 0.6), (1.3, 0.7), (0.34, 2.5), (1.0, 0.26)]


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def factors(*items: float) -> Any:
    return np.array(items, np.float32)


def ties(scales: tuple[float, float], mode: str, coordinate: str) -> bool:
    """Whether a coordinate is half-way between two elements but for the rounding of float32."""
    return scales == (0.5, 0.6) and mode == "nearest" and coordinate == "half_pixel_symmetric"


def resized(inputs: Any, *, known: Any, opset: int = 19, **options: Any) -> None:
    agrees("Resize", inputs, opset=opset, known=known, rtol=1e-4, atol=1e-5, native=NATIVE, **options)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("scales", FACTORS)
@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(mode: str, coordinate: str, scales: tuple[float, float], known: bool) -> None:
    if ties(scales, mode, coordinate):
        pytest.skip("a tie but for rounding")
    inputs = [floats(1, 2, 5, 7), None, factors(1, 1, *scales)]
    where: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinate}
    resized(inputs, known=[2] if known else [], **where)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", FACTORS)
def test_scales_of_dynamic_sizes(mode: str, scales: tuple[float, float]) -> None:
    inputs = [floats(1, 2, 10, 7), None, factors(1, 1, *scales)]
    for coordinate in COORDINATES:
        if ties(scales, mode, coordinate):
            continue
        resized(inputs, known=[2], dynamic=True, mode=mode, coordinate_transformation_mode=coordinate)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sizes", [(10, 7), (3, 4), (1, 1), (5, 14), (1, 9)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes(mode: str, sizes: tuple[int, int], known: bool, dynamic: bool) -> None:
    if dynamic and not known:
        return
    inputs = [floats(1, 2, 5, 7), None, None, np.array([1, 2, *sizes], np.int64)]
    for coordinate in COORDINATES:
        where: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinate}
        resized(inputs, known=[3] if known else [], dynamic=dynamic, **where)


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("coordinate", ["half_pixel", "asymmetric", "align_corners"])
def test_nearest_modes(nearest: str, coordinate: str) -> None:
    for scales in FACTORS:
        inputs = [floats(1, 1, 6, 8), None, factors(1, 1, *scales)]
        resized(inputs, known=[2], nearest_mode=nearest, coordinate_transformation_mode=coordinate, opset=13)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop(mode: str, dynamic: bool) -> None:
    region = factors(0, 0, 0.4, -0.2, 1, 1, 0.6, 1.1)
    where: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 10.0,
    }
    for sizes in ([1, 1, 3, 3], [1, 1, 1, 6]):
        inputs = [floats(1, 1, 4, 5), region, None, np.array(sizes, np.int64)]
        resized(inputs, known=[1, 3], dynamic=dynamic, opset=13, **where)
        if not dynamic:
            resized(inputs, known=[3], opset=13, **where)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@pytest.mark.parametrize("sizes", [[2, 11], [7, 3]])
def test_antialiased_integers_are_rounded_after_each_axis(dtype: type, sizes: list[int]) -> None:
    """The kernels of onnxruntime for integers round twice, which is not the same as once."""
    image = np.random.default_rng(4).integers(0, 100, (1, 2, 5, 6)).astype(dtype)
    resized([image, None, None, np.array([1, 2, *sizes])], known=[3], mode="linear", antialias=1)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str, exclude: int, known: bool) -> None:
    for scales in ((0.5, 0.6), (0.3, 2.0), (0.9, 0.25)):
        inputs = [floats(1, 2, 9, 8), None, factors(1, 1, *scales)]
        resized(inputs, known=[2] if known else [], mode=mode, antialias=1, exclude_outside=exclude)
    inputs = [floats(1, 2, 9, 8), None, None, np.array([1, 2, 4, 5], np.int64)]
    resized(inputs, known=[3], dynamic=known, mode=mode, antialias=1, exclude_outside=exclude)


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [[40, 31], [30, 200], [100, 3]])
def test_antialias_of_long_axes(sizes: list[int], mode: str, exclude: int) -> None:
    """Few elements of an axis are picked one by one; many are a product with a matrix."""
    wanted = np.array([1, 2, *sizes], np.int64)
    resized([floats(1, 2, 90, 128), None, None, wanted], known=[3], mode=mode, antialias=1, exclude_outside=exclude)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_of_axes_of_open_length(mode: str) -> None:
    """Scales that are known tell how many elements are picked, whatever the sizes."""
    inputs = [floats(1, 2, 9, 8), None, factors(1, 1, 0.5, 0.4)]
    resized(inputs, known=[2], dynamic=True, mode=mode, antialias=1)


@pytest.mark.parametrize("sizes", [[40, 31], [100, 3]])
def test_antialiased_bytes_of_long_axes(sizes: list[int]) -> None:
    """onnxruntime's weights are integers there, which a sum of many shows: one in a hundred results is off by one."""
    image = np.random.default_rng(4).integers(0, 255, (1, 3, 90, 128)).astype(np.uint8)
    inputs = [image, None, None, np.array([1, 3, *sizes])]
    agrees("Resize", inputs, opset=19, known=[3], rtol=0, atol=1, native=NATIVE, mode="linear", antialias=1)


@pytest.mark.parametrize("coefficient", [-0.5, -0.75])
def test_cubic_without_outside(coefficient: float) -> None:
    for scales in FACTORS:
        inputs = [floats(1, 1, 4, 5), None, factors(1, 1, *scales)]
        resized(inputs, known=[2], mode="cubic", exclude_outside=1, cubic_coeff_a=coefficient)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("dynamic", [True, False])
def test_axes_and_policies(policy: str, dynamic: bool) -> None:
    for axes in ([2, 3], [3, 2], [-2, -1])[: 3 if policy == "stretch" else 2]:
        for mode in ("nearest", "linear"):
            inputs = [floats(1, 2, 5, 7), None, None, np.array([7, 8], np.int64)]
            where: dict[str, Any] = {"axes": axes, "keep_aspect_ratio_policy": policy, "mode": mode}
            resized(inputs, known=[3], dynamic=dynamic, opset=18, **where)


@pytest.mark.parametrize("shape", [(7,), (2, 7), (1, 2, 7), (1, 1, 4, 5, 6)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_ranks(shape: tuple[int, ...], mode: str) -> None:
    scales = factors(*[1.0] * (len(shape) - 3), *[1.6, 0.7, 2.0][-min(3, len(shape)) :])
    resized([floats(*shape), None, scales], known=[2], mode=mode, opset=13)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_integers(dtype: Any) -> None:
    x = RANDOM.integers(0, 120, (1, 1, 6, 7)).astype(dtype)
    x[..., :3] = 99
    for scales in ((2.0, 3.0), (1.7, 0.6), (0.5, 0.4)):
        for mode in ("nearest", "linear"):
            for coordinate in COORDINATES[:4]:
                where: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinate}
                agrees("Resize", [x, None, factors(1, 1, *scales)], opset=13, known=[2], native=NATIVE, atol=0, **where)
    whole = [np.array([[[[0, 100, 7, 51], [13, 127, 120, 1]]]]).astype(dtype), None, factors(1, 1, 1.7, 1.7)]
    resized(whole, known=[2], mode="cubic", opset=13)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.int16])
def test_other_dtypes(dtype: Any) -> None:
    x = RANDOM.integers(0, 2, (1, 1, 4, 5)).astype(dtype)
    scales = factors(1, 1, 1.5, 0.7)
    resized([x, None, scales], known=[2], opset=13)
    if np.dtype(dtype).kind == "f":
        for mode in ("linear", "cubic"):
            agrees("Resize", [x, None, scales], opset=13, known=[2], rtol=2e-3, native=NATIVE, mode=mode)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_opset_10(mode: str, dynamic: bool) -> None:
    for scales in FACTORS:
        inputs = [floats(1, 1, 6, 7), factors(1, 1, *scales)]
        agrees("Resize", inputs, opset=10, known=[1], dynamic=dynamic, native=NATIVE, rtol=1e-4, mode=mode)
    inputs = [floats(1, 1, 6, 7), factors(1, 1, 0.6, 2)]
    agrees("Resize", inputs, opset=10, native=NATIVE, rtol=1e-4, mode=mode)


def test_opset_11_with_empty_inputs() -> None:
    empty = np.zeros(0, np.float32)
    sizes = np.array([1, 1, 3, 9], np.int64)
    resized([floats(1, 1, 6, 7), empty, empty, sizes], known=[1, 2, 3], opset=11, mode="linear")
    where: dict[str, Any] = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    resized([floats(1, 1, 6, 7), empty, factors(1, 1, 0.6, 1.6)], known=[1, 2], opset=11, **where)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    x = floats(1, 2, 3, 4)
    scales = [1.0, 1.0, 2.0, 1.5]
    agrees("Upsample", [x, factors(*scales)], opset=9, known=[1], native=NATIVE, rtol=1e-4, mode=mode)
    agrees("Upsample", [x, factors(*scales)], opset=9, native=NATIVE, rtol=1e-4, mode=mode)
    agrees("Upsample", [x], opset=7, dynamic=True, native=NATIVE, rtol=1e-4, mode=mode, scales=scales)
    want = reference(node_model("Upsample", [x], opset=7, mode=mode, scales=scales), {"in0": x})
    named: dict[str, Any] = {"height_scale": 2.0, "width_scale": 1.5}
    old = "bilinear" if mode == "linear" else mode
    agrees("Upsample", [x], opset=1, expected=want, native=NATIVE, rtol=1e-4, mode=old, **named)


def test_infinities_do_not_leak_where_scales_are_unknown() -> None:
    x = floats(2, 1, 3, 3)
    known = reference(node_model("Resize", [x, None, factors(1, 1, 2, 2)], opset=13, mode="linear"), feeds(x))
    x[1] = np.inf
    for mode in ("linear", "cubic"):
        model = node_model("Resize", [x, None, factors(1, 1, 2, 2)], opset=13, mode=mode)
        converted = convert(read(model))
        first = eager(converted, list(feeds(x).values()))[0][0]
        assert np.isfinite(first).all()
        if mode == "linear":
            np.testing.assert_allclose(first, known[0][0], rtol=1e-4)


def feeds(x: Any) -> dict[str, Any]:
    return {"in0": x, "in2": factors(1, 1, 2, 2)}


REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "mode": ([floats(1, 1, 2, 2), None, factors(1, 1, 2, 2)], {"mode": "area"}, "O2M-C005"),
    "coordinates": (
        [floats(1, 1, 2, 2), None, factors(1, 1, 2, 2)],
        {"coordinate_transformation_mode": "corners"},
        "O2M-C005",
    ),
    "rounding": ([floats(1, 1, 2, 2), None, factors(1, 1, 2, 2)], {"nearest_mode": "round"}, "O2M-C005"),
    "no region": (
        [floats(1, 1, 2, 2), None, factors(1, 1, 2, 2)],
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "O2M-C005",
    ),
    "count": ([floats(1, 1, 2, 2), None, factors(2, 2)], {}, "O2M-C006"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    inputs, attributes, code = REFUSED[case]
    with pytest.raises(Refusal) as refusal:
        convert(read(node_model("Resize", inputs, opset=19, known=[2], **attributes)))
    assert [finding.code for finding in refusal.value.findings] == [code]


def test_axes_that_keep_their_size_at_run_time_are_not_resized() -> None:
    x = np.random.default_rng(0).integers(-100, 100, (4, 4, 5, 2)).astype(np.int32)
    agrees("Resize", [x, factors(1, 1, 3, 2)], opset=10, mode="linear", native=NATIVE)
