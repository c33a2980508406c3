"""Crop and ImageScaler, which ONNX had before its version 1.0."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def crop(g: ProgramBuilder, x: Value, *, border: Sequence[int], scale: Sequence[int] | None = None) -> Value:
    """``x`` [N, C, H, W] without its ``border`` (left, top, right, bottom), or ``scale`` (height, width) from its left top.

    Source: onnxruntime's Crop.

    Raises:
        Refusal: O2M-C005 for another number of axes or attributes, O2M-C006 where the image is smaller.
    """
    if x.rank != 4 or len(border) != 4 or len(scale or (0, 0)) != 2:
        raise refuse("O2M-C005", f"Crop of rank {x.rank} by {len(border)} borders", case="border")
    left, top, right, bottom = border
    for axis, first, last in ((2, top, bottom), (3, left, right)):
        size = x.shape[axis]
        end: Dim = to_dim(first + scale[axis - 2]) if scale else to_dim(size - last)
        for low, high in ((first, end), (end, size)):
            g.require(sympy.Le(low, high), "an image is smaller than what is cropped from it")
        x = g.slice(x, axis, first, end)
    return x


def image_scaler(g: ProgramBuilder, x: Value, *, bias: Sequence[float], scale: float = 1.0) -> Value:
    """scale * ``x`` [N, C, H, W] + the ``bias`` of each channel.

    Source: onnxruntime's ImageScaler.

    Raises:
        Refusal: O2M-C006 where the number of channels is another.
    """
    if x.rank != 4:
        raise refuse("O2M-C005", f"ImageScaler of rank {x.rank}", case="rank")
    g.require_equal(x.shape[1], len(bias), "channels of an image and their biases")
    addend = g.reshape(g.known(torch.tensor(list(bias), dtype=x.dtype)), [len(bias), 1, 1])
    return g.add(g.mul(x, scale), addend)
