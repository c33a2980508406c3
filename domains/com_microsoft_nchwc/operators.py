"""The operators on blocked tensors: those on plain ones, between `unblocked` and `blocked`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft_nchwc.blocks import Surroundings, block_of
from onnx2torch_mlir.domains.com_microsoft_nchwc.layout import (
    blocked,
    checked,
    padded_channels,
    plain_filters,
    unblocked,
)
from onnx2torch_mlir.families.fused_activation import activated_convolution
from onnx2torch_mlir.families.pooling import average, average_of_all_cells, global_pool, maximum
from onnx2torch_mlir.families.resize import resize
from onnx2torch_mlir.families.windows import PaddedConvAttributes, PoolAttributes

_TO_LAST, _FROM_LAST = [0, 2, 3, 1], [0, 3, 1, 2]


def reorder_input(g: ProgramBuilder, x: Value, *, channels_last: int = 0, enclosing: Surroundings) -> Value:
    """A plain ``x`` [N, C, H, W], or [N, H, W, C], in blocks, the last of them filled up with zeros."""
    if x.rank != 4:
        raise refuse("O2M-C006", f"ReorderInput of rank {x.rank}", case="rank")
    block = block_of(enclosing)
    return blocked(g, padded_channels(g, g.permute(x, _FROM_LAST) if channels_last else x, block), block)


def reorder_output(
    g: ProgramBuilder, x: Value, *, channels: int, channels_last: int = 0, enclosing: Surroundings
) -> Value:
    """The first ``channels`` of a blocked ``x``, plain, and with ``channels_last`` as [N, H, W, C]."""
    block = block_of(enclosing)
    if not checked(x, block) - block < channels <= checked(x, block):
        raise refuse("O2M-C006", f"{channels} channels of {x.shape} in blocks of {block}", case="channels")
    plain = g.slice(unblocked(g, x, block), 1, 0, channels)
    return g.permute(plain, _TO_LAST) if channels_last else plain


def conv(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    b: Value | None = None,
    addend: Value | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] = (),
    enclosing: Surroundings,
    **window: Unpack[PaddedConvAttributes],
) -> Value:
    """A convolution, a blocked ``addend``, and an activation; an ``x`` of less channels than a block has is plain."""
    block = block_of(enclosing)
    inner = w.shape[1] if w.rank == 4 else 0
    if not isinstance(inner, int):
        raise refuse("O2M-C004", "the number of channels is only known at run time", case="W")
    plain = window.get("group", 1) == 1 and inner < block
    result = activated_convolution(
        g,
        x if plain else unblocked(g, x, block),
        plain_filters(g, w, block, inputs_blocked=inner >= block),
        b,
        None if addend is None else unblocked(g, addend, block),
        activation=activation,
        activation_params=activation_params,
        **window,
    )
    return blocked(g, result, block)


def max_pool(g: ProgramBuilder, x: Value, *, enclosing: Surroundings, **pool: Unpack[PoolAttributes]) -> Value:
    """MaxPool; without positions, ``storage_order`` says nothing."""
    block = block_of(enclosing)
    largest = maximum(g, unblocked(g, x, block), **pool)
    assert isinstance(largest, Value)
    return blocked(g, largest, block)


def average_pool(
    g: ProgramBuilder,
    x: Value,
    *,
    count_include_pad: int = 0,
    enclosing: Surroundings,
    **pool: Unpack[PoolAttributes],
) -> Value:
    """AveragePool; with ``count_include_pad`` onnxruntime's blocked kernel counts what only ``ceil_mode`` reaches, too."""
    block = block_of(enclosing)
    mean = average_of_all_cells if count_include_pad else average
    return blocked(g, mean(g, unblocked(g, x, block), **pool), block)


def global_reduction(g: ProgramBuilder, x: Value, *, kind: str, enclosing: Surroundings) -> Value:
    """GlobalAveragePool and GlobalMaxPool."""
    block = block_of(enclosing)
    return blocked(g, global_pool(g, unblocked(g, x, block), kind=kind), block)


def upsample(
    g: ProgramBuilder,
    x: Value,
    *,
    scales: Sequence[int],
    coordinate_transformation_mode: str = "asymmetric",
    mode: str = "nearest",
    enclosing: Surroundings,
) -> Value:
    """Each element, or what lies between them, ``scales`` times along each axis."""
    block = block_of(enclosing)
    factors = g.known(torch.tensor(list(scales), dtype=torch.float32))
    larger = resize(
        g,
        unblocked(g, x, block),
        None,
        factors,
        coordinate_transformation_mode="asymmetric" if mode == "nearest" else coordinate_transformation_mode,
        mode=mode,
        nearest_mode="floor",
    )
    return blocked(g, larger, block)
