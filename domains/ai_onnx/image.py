"""Rearrangements of planes: DepthToSpace, SpaceToDepth, CenterCropPad, Col2Im."""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Sizes
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def _check(x: Value, blocksize: int, mode: str) -> None:
    if x.rank != 4:
        raise refuse("O2M-C005", f"the input has rank {x.rank}, not 4", case="rank")
    if blocksize < 1:
        raise refuse("O2M-C005", "blocksize is below 1", case=f"blocksize={blocksize}")
    if mode not in ("DCR", "CRD"):
        raise refuse("O2M-C005", "mode is DCR or CRD", case=f"mode={mode}")


def depth_to_space(g: ProgramBuilder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """[N, C, H, W] as [N, C / b², H * b, W * b]. Source: ONNX DepthToSpace."""
    _check(x, blocksize, mode)
    batch, channels, height, width = x.shape
    depth = dims.floor_div(channels, blocksize * blocksize)
    g.require_equal(channels, to_dim(depth * blocksize * blocksize), "channels and blocksize squared times a whole")
    blocks = [blocksize, blocksize]
    if mode == "DCR":
        parts = g.permute(g.reshape(x, [batch, *blocks, depth, height, width]), [0, 3, 4, 1, 5, 2])
    else:
        parts = g.permute(g.reshape(x, [batch, depth, *blocks, height, width]), [0, 1, 4, 2, 5, 3])
    return g.reshape(parts, [batch, depth, to_dim(height * blocksize), to_dim(width * blocksize)])


def space_to_depth(g: ProgramBuilder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """[N, C, H, W] as [N, C * b², H / b, W / b]. Source: ONNX SpaceToDepth."""
    _check(x, blocksize, mode)
    batch, channels, height, width = x.shape
    rows, columns = dims.floor_div(height, blocksize), dims.floor_div(width, blocksize)
    for size, count in ((height, rows), (width, columns)):
        g.require_equal(size, to_dim(count * blocksize), "size and blocksize times a whole number")
    parts = g.reshape(x, [batch, channels, rows, blocksize, columns, blocksize])
    parts = g.permute(parts, [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4])
    return g.reshape(parts, [batch, to_dim(channels * blocksize * blocksize), rows, columns])


def center_crop_pad(g: ProgramBuilder, x: Value, shape: Sizes, *, axes: Sequence[int] | None = None) -> Value:
    """``x`` cropped or padded with zeros, evenly on both sides, to ``shape`` along ``axes`` (all by default).

    Source: ONNX CenterCropPad; of an odd number of elements, one more is taken away or added at the end.
    """
    chosen = [axis % x.rank for axis in axes] if axes is not None else list(range(x.rank))
    if len(shape) != len(chosen):
        raise refuse("O2M-C005", f"{len(shape)} sizes for {len(chosen)} axes", case="shape")
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    for axis, wanted in zip(chosen, shape, strict=True):
        size = x.shape[axis]
        cropped = dims.maximum(to_dim(size - wanted), 0)
        added = dims.maximum(to_dim(wanted - size), 0)
        low[axis] = to_dim(dims.floor_div(added, 2) - dims.floor_div(cropped, 2))
        high[axis] = to_dim(wanted - size - low[axis])
    return g.pad(x, low, high)


def col2im(
    g: ProgramBuilder,
    x: Value,
    image_shape: Sizes,
    block_shape: Sizes,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Columns [N, C * block, places] added up at the places they were taken from: [N, C, *image].

    Source: ONNX Col2Im.
    """
    rank = len(image_shape)
    steps, spread, pads = list(strides or [1] * rank), list(dilations or [1] * rank), list(pads or [0] * 2 * rank)
    if x.rank != 3 or len(block_shape) != rank or {len(steps), len(spread), len(pads) / 2} != {rank}:
        raise refuse("O2M-C005", "image_shape, block_shape, strides, dilations and pads do not fit each other")
    padded = [to_dim(size + pads[i] + pads[rank + i]) for i, size in enumerate(image_shape)]
    places = [
        to_dim(dims.floor_div(to_dim(padded[i] - spread[i] * (block_shape[i] - 1) - 1), steps[i]) + 1) for i in range(rank)
    ]
    block, count = dims.product(block_shape), dims.product(places)
    g.require_equal(x.shape[2], count, "number of columns and of blocks in the image")
    index: Value | None = None
    for i in range(rank):
        inner = [block_shape[i], *[1] * (rank - 1 - i), *[1] * rank]
        outer = [places[i], *[1] * (rank - 1 - i)]
        cells = g.reshape(g.mul(g.arange(0, block_shape[i]), spread[i]), inner)
        starts = g.reshape(g.mul(g.arange(0, places[i]), steps[i]), outer)
        along = g.add(cells, starts)
        index = along if index is None else g.add(g.mul(index, g.size_value(padded[i])), along)
    assert index is not None
    index = g.reshape(g.expand(index, [*block_shape, *places]), [1, dims.product([block, count])])
    channels = dims.floor_div(x.shape[1], block)
    rows = dims.product([x.shape[0], channels])
    columns = g.reshape(x, [rows, dims.product([block, count])])
    zeros = g.full([rows, dims.product(padded)], 0, x.dtype)
    added = g.call("aten.scatter_add.default", zeros, 1, g.expand(index, list(columns.shape)), columns)
    image = g.reshape(added, [x.shape[0], channels, *padded])
    return g.pad(image, [0, 0, *(-pad for pad in pads[:rank])], [0, 0, *(-pad for pad in pads[rank:])])
