"""DepthToSpace, SpaceToDepth, CenterCropPad and Col2Im against onnxruntime or ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.conversion import convert
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from tests.one_node import agrees, node_model

NATIVE = False
RANDOM = np.random.default_rng(4)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_to_space_and_back(block: int, dynamic: bool) -> None:
    deep, wide = floats(2, 2 * block * block, 3, 4), floats(2, 2, 3 * block, 2 * block)
    common: dict[str, Any] = {"blocksize": block, "dynamic": dynamic, "native": NATIVE}
    agrees("DepthToSpace", [deep], opset=10, **common)
    for mode in ("DCR", "CRD"):
        agrees("DepthToSpace", [deep], opset=13, mode=mode, **common)
    agrees("SpaceToDepth", [wide], opset=1, **common)
    agrees("SpaceToDepth", [wide.astype(np.int64)], opset=13, expected=None, **common)


def test_blocks_that_do_not_fit() -> None:
    for op, shape in (("DepthToSpace", (1, 6, 2, 2)), ("SpaceToDepth", (1, 1, 3, 4))):
        with pytest.raises(Refusal) as refusal:
            convert(read(node_model(op, [floats(*shape)], opset=13, blocksize=2)))
        assert [finding.code for finding in refusal.value.findings] == ["O2M-C006"]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("wanted", [(3, 4), (10, 7), (6, 6), (9, 2), (1, 20)])
def test_center_crop_pad(wanted: tuple[int, int], known: bool) -> None:
    shape = np.array(wanted, np.int64)
    positions = [1] if known else []
    agrees("CenterCropPad", [floats(8, 5), shape], opset=18, known=positions, native=NATIVE)
    agrees("CenterCropPad", [floats(2, 8, 5), shape], opset=18, known=positions, native=NATIVE, axes=[1, 2])
    agrees("CenterCropPad", [floats(8, 2, 5), shape], opset=18, known=positions, native=NATIVE, axes=[-1, 0])
    agrees("CenterCropPad", [floats(8, 5), shape], opset=18, known=[1], dynamic=True, native=NATIVE)


@pytest.mark.parametrize("known", [[], [1, 2]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_col2im(dynamic: bool, known: list[int]) -> None:
    if dynamic and not known:
        return
    cases: list[tuple[tuple[int, ...], list[int], list[int], dict[str, Any]]] = [
        ((1, 5, 5), [5, 5], [1, 5], {}),
        ((2, 9, 4), [6, 6], [3, 3], {"strides": [3, 3]}),
        ((1, 5, 15), [5, 5], [1, 5], {"pads": [0, 1, 0, 1]}),
        ((1, 4, 5), [6, 6], [2, 2], {"dilations": [1, 5], "strides": [1, 1]}),
        ((1, 10, 12), [3, 4, 5], [1, 1, 5], {}),
    ]
    for shape, image, block, attributes in cases:
        inputs = [floats(*shape), np.array(image, np.int64), np.array(block, np.int64)]
        agrees("Col2Im", inputs, opset=18, known=known, dynamic=dynamic, native=NATIVE, rtol=1e-4, **attributes)
