"""GridSample, AffineGrid, DeformConv, RoiAlign, MaxRoiPool against onnxruntime or ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.conversion import convert
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from tests.one_node import agrees, node_model

NATIVE = False
RANDOM = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def places(*shape: int) -> Any:
    return RANDOM.uniform(-1.8, 1.8, shape).astype(np.float32)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(padding: str, align: int, dynamic: bool) -> None:
    where: dict[str, Any] = {"padding_mode": padding, "align_corners": align, "dynamic": dynamic, "native": NATIVE}
    planes, grid = floats(2, 3, 4, 5), places(2, 3, 6, 2)
    for mode, opset in (("bilinear", 16), ("nearest", 16), ("bicubic", 16), ("linear", 20), ("cubic", 22)):
        agrees("GridSample", [planes, grid], opset=opset, rtol=1e-3, atol=1e-4, mode=mode, **where)
    volume, grid = floats(1, 2, 3, 4, 2), places(1, 2, 3, 2, 3)
    for mode in ("linear", "nearest"):
        agrees("GridSample", [volume, grid], opset=20, rtol=1e-3, atol=1e-4, mode=mode, **where)


def test_grid_sample_on_whole_numbers_and_planes_of_one_element() -> None:
    corners = np.array([[[[-1, -1], [1, 1], [0, 0], [-1, 1]]]], np.float32)
    for padding in ("zeros", "border", "reflection"):
        where: dict[str, Any] = {"padding_mode": padding, "align_corners": 1, "native": NATIVE}
        agrees("GridSample", [floats(1, 1, 3, 3), corners], opset=20, **where)
    one = floats(1, 1, 1, 1)
    agrees("GridSample", [one, corners], opset=20, padding_mode="border", native=NATIVE)
    whole: dict[str, Any] = {"padding_mode": "reflection", "align_corners": 1}
    agrees("GridSample", [one, corners], opset=20, expected=[np.tile(one, (1, 1, 1, 4))], native=NATIVE, **whole)


def test_grid_sample_of_integers() -> None:
    x = RANDOM.integers(0, 100, (1, 1, 4, 4)).astype(np.int32)
    grid = np.array([[[[-1, -1], [1, 1], [3, 0]]]], np.float32)
    want = np.array([[[[x[0, 0, 0, 0], x[0, 0, 3, 3], 0]]]], np.int32)
    where: dict[str, Any] = {"mode": "nearest", "align_corners": 1}
    agrees("GridSample", [x, grid], opset=20, expected=[want], native=NATIVE, **where)
    with pytest.raises(Refusal) as refusal:
        convert(read(node_model("GridSample", [x, grid], opset=20)))
    assert [finding.code for finding in refusal.value.findings] == ["O2M-C003"]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("align", [0, 1])
def test_affine_grid(align: int, known: bool) -> None:
    inputs = {2: [floats(2, 2, 3), np.array([2, 1, 4, 5], np.int64)]}
    inputs[3] = [floats(2, 3, 4), np.array([2, 1, 3, 4, 5], np.int64)]
    for pair in inputs.values():
        positions = [1] if known else []
        agrees("AffineGrid", pair, opset=20, known=positions, rtol=1e-4, native=NATIVE, align_corners=align)
        agrees("AffineGrid", pair, opset=20, known=[1], dynamic=True, rtol=1e-4, native=NATIVE, align_corners=align)


@pytest.mark.parametrize("dynamic", [False, True])
def test_deform_conv(dynamic: bool) -> None:
    x = floats(2, 4, 5, 6)
    cases: list[tuple[Any, ...]] = [
        ((3, 4, 2, 2), {}, (4, 5), 1),
        ((3, 4, 3, 2), {"pads": [1, 0, 1, 1], "strides": [2, 1]}, (3, 6), 1),
        ((4, 2, 2, 2), {"group": 2, "offset_group": 2, "dilations": [2, 1]}, (3, 5), 2),
    ]
    for kernel, attributes, out, groups in cases:
        cells = groups * kernel[2] * kernel[3]
        offset = floats(2, 2 * cells, *out)
        plain = [x, floats(*kernel), offset]
        more = [*plain, floats(kernel[0]), floats(2, cells, *out)]
        for inputs in (plain, more):
            known = [1]
            agrees(
                "DeformConv",
                inputs,
                opset=19,
                known=known,
                dynamic=dynamic,
                rtol=1e-3,
                atol=1e-4,
                native=NATIVE,
                **attributes,
            )


REGIONS = np.array([[0, 0, 7, 9], [2, 1.5, 5.5, 8], [-2, -3, 20, 20], [4, 4, 4, 4], [9, 9, 3, 3]], np.float32)
BATCHES = np.array([0, 1, 1, 0, 1], np.int64)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str, ratio: int, dynamic: bool) -> None:
    x = floats(2, 3, 10, 12)
    common: dict[str, Any] = {"mode": mode, "sampling_ratio": ratio, "output_height": 3, "output_width": 2}
    common |= {"dynamic": dynamic, "rtol": 1e-3, "atol": 1e-5, "native": NATIVE}
    well_formed = [x, REGIONS[:4], BATCHES[:4]]
    agrees("RoiAlign", [x, REGIONS, BATCHES], opset=10, spatial_scale=0.7, **common)
    agrees("RoiAlign", well_formed, opset=16, spatial_scale=0.5, **common)
    agrees("RoiAlign", well_formed, opset=22, coordinate_transformation_mode="output_half_pixel", **common)


def test_roi_align_without_regions() -> None:
    want = np.zeros((0, 3, 2, 2), np.float32)
    inputs = [floats(2, 3, 10, 12), REGIONS[:0], BATCHES[:0]]
    common: dict[str, Any] = {"output_height": 2, "output_width": 2, "dynamic": True, "native": NATIVE}
    agrees("RoiAlign", inputs, opset=16, expected=[want], **common)


@pytest.mark.parametrize("dynamic", [False, True])
def test_max_roi_pool(dynamic: bool) -> None:
    regions = np.array([[0, 0, 0, 7, 9], [1, 2, 1, 5, 8], [0, 3, 3, 20, 20], [1, 4, 4, 4, 4]], np.float32)
    for scale in (1.0, 0.6):
        agrees(
            "MaxRoiPool",
            [floats(2, 3, 10, 12), regions],
            opset=1,
            dynamic=dynamic,
            native=NATIVE,
            pooled_shape=[3, 2],
            spatial_scale=scale,
        )
