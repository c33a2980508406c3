"""Convolutions and pools that onnxruntime has beside ONNX's: with pads as input, with a mask, over the letters of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Unpack

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.convolution import convolve, transpose
from onnx2torch_mlir.families.gathering import gather
from onnx2torch_mlir.families.indexing import count_along, elements
from onnx2torch_mlir.families.windows import (
    ConvAttributes,
    PoolAttributes,
    pad_spatial,
    places,
    pool_window,
    slide_along,
)


def conv_transpose_with_dynamic_pads(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    pads: Value | None = None,
    b: Value | None = None,
    *,
    output_padding: Sequence[int] | None = None,
    **window: Unpack[ConvAttributes],
) -> Value:
    """ConvTranspose with its pads as an input, which onnxruntime heeds also where ``auto_pad`` is VALID.

    Source: com.microsoft ConvTransposeWithDynamicPads.
    """
    if window.get("auto_pad") == "VALID":
        window["auto_pad"] = "NOTSET"
    return transpose(
        g,
        x,
        w,
        b,
        output_padding=output_padding,
        pads=None if pads is None else elements(g, g.reshape(pads, [2 * (x.rank - 2)]), "Pads"),
        **window,
    )


def maxpool_with_mask(
    g: ProgramBuilder,
    x: Value,
    mask: Value,
    *,
    storage_order: int = 0,
    **pool: Unpack[PoolAttributes],
) -> Value:
    """The largest element of each window, of whose rows those are left out that lie at or after a ``mask`` of 0.

    With more than one spatial axis the very first element of a plane counts as if its mask were not 0.
    Source: com.microsoft MaxpoolWithMask, onnxruntime's ``maxpool_with_mask.h``.

    Raises:
        Refusal: O2M-C003 for a mask of more than one plane, of which onnxruntime reads elements that lie elsewhere.
    """
    window = pool_window(x, **pool)
    if mask.rank != x.rank:
        raise refuse("O2M-C006", f"a mask of rank {mask.rank} for rank {x.rank}", case="M")
    if mask.shape[:2] != (1, 1):
        reason = "a mask of several planes, of which onnxruntime reads elements that lie elsewhere"
        raise refuse("O2M-C003", reason, case=f"M={list(mask.shape)}")
    for own, other in zip(x.shape[2:], mask.shape[2:], strict=True):
        g.require_equal(own, other, "sizes of an image and its mask")
    shown = g.binary("ne", mask, 0)
    if window.rank > 1:
        axes = [count_along(g, mask.shape, axis) for axis in range(2, mask.rank)]
        shown = g.call("aten.logical_or.default", shown, g.binary("eq", reduce(g.add, axes), 0))
    bottom = torch.finfo(x.dtype).min
    last = window.rank - 1
    alive: Value | None = None
    result: Value | None = None
    rows = pad_spatial(g, shown, window, True)
    for here, element in zip(
        places(g, rows, window, last), places(g, pad_spatial(g, x, window, bottom), window, last), strict=True
    ):
        alive = here if alive is None else g.call("aten.logical_and.default", alive, here)
        left = g.where(alive, element, bottom)
        result = left if result is None else g.maximum(result, left)
    assert result is not None
    for axis in range(last):
        result = slide_along(g, result, window, axis, "maximum")
    return result


def word_conv_embedding(
    g: ProgramBuilder,
    sequence: Value,
    w: Value,
    b: Value,
    embedding: Value,
    *,
    char_embedding_size: int | None = None,
    conv_window_size: int | None = None,
    embedding_size: int | None = None,
) -> Value:
    """Words of letters [S, L] as the largest responses of filters [M, 1, K, E] to their letters' embeddings: [S, M].

    A word has as many letters as there are numbers above 0, and none if the first is not; what it then becomes nothing
    says (zeros, here). Source: com.microsoft WordConvEmbedding, onnxruntime's ``word_conv_embedding.cc``.
    """
    if sequence.rank != 2 or w.rank != 4 or embedding.rank != 2:
        raise refuse("O2M-C006", f"words of rank {sequence.rank}, filters of rank {w.rank}", case="rank")
    stated = (char_embedding_size, conv_window_size, embedding_size)
    for wanted, size in zip(stated, (embedding.shape[1], w.shape[2], w.shape[0]), strict=True):
        if wanted is not None and wanted >= 0:
            g.require_equal(size, wanted, "a size of the embedding and the attribute that states it")
    letters = g.unsqueeze(gather(g, embedding, g.maximum(sequence, 0)), 1)
    found = convolve(g, letters, w, b)
    found = g.unary("tanh", g.reshape(found, found.shape[:3]))
    present = g.cast(g.binary("gt", sequence, 0), torch.int64)
    length = g.mul(g.sum(present, [1], True), g.slice(present, 1, 0, 1))
    width = w.shape[2]
    last = g.maximum(g.sub(length, g.size_value(width)), 0)
    positions = g.unsqueeze(g.arange(0, to_dim(sequence.shape[1] - width + 1)), 0)
    inside = g.unsqueeze(g.binary("le", positions, last), 1)
    largest = g.amax(g.where(inside, found, -1e12), [2])
    return g.where(g.binary("gt", length, 0), largest, 0.0)


