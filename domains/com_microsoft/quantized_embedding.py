"""Embeddings of quantized tables.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.blocked_weights import unpacked
from onnx2torch_mlir.domains.com_microsoft.layer_normalization import first_positions, lengths_of
from onnx2torch_mlir.families.gathering import gather
from onnx2torch_mlir.families.indexing import axis_in, wrapped
from onnx2torch_mlir.families.normalization import layer_normalization
from onnx2torch_mlir.families.quantization import dequantize, dequantized


def gather_block_quantized(
    g: ProgramBuilder,
    data: Value,
    indices: Value,
    scales: Value,
    zero_points: Value | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Value:
    """Gather along ``gather_axis``, and what was gathered dequantized by blocks along ``quantize_axis``.

    In uint8 ``data`` holds codes of ``bits``, packed along its last axis, whose middle is the zero point where none is
    given. Small floats have no zero point; their scales may be of size 1 along other axes, and ``block_size`` 0 is one
    block. What an index out of range picks is 0.

    Raises:
        Refusal: O2M-C005 for axes out of range, or blocks along the axis of packed rows that are gathered.
    """
    gathered, blocked = axis_in(gather_axis, data.rank), axis_in(quantize_axis, data.rank)
    packed = data.dtype is torch.uint8 and not data.element
    if packed and (gathered or blocked != data.rank - 1 or gathered == blocked):
        raise refuse("O2M-C005", "packed bytes are gathered along axis 0 and quantized along the last one", case="gather_axis")
    size = data.shape[gathered]
    places, inside = _places(g, indices, size)
    rows = gather(g, data, places, axis=gathered)
    if packed:
        rows = unpacked(g, rows, bits)
        zero_points = _unpacked_points(g, zero_points, scales, bits)
    parameters = (scales, zero_points)
    if gathered == blocked:
        blocks = g.floor_div(places, block_size) if block_size else g.mul(places, 0)
        scale, offset = (None if item is None else gather(g, item, blocks, axis=gathered) for item in parameters)
        assert scale is not None
        numbers = dequantized(g, rows, scale, offset)
    else:
        along = blocked if blocked < gathered else blocked + indices.rank - 1
        chosen = [None if item is None else _chosen(g, item, places, rows, gathered, along) for item in parameters]
        scale, offset = chosen
        assert scale is not None
        if block_size:
            numbers = dequantize(g, rows, scale, offset, axis=along, block_size=block_size, dtype=torch.float32)
        else:
            numbers = dequantized(g, rows, scale, offset)
    shape = [1] * gathered + [*indices.shape] + [1] * (data.rank - gathered - 1)
    return g.cast(g.where(g.reshape(inside, shape), numbers, 0.0), scales.dtype)


def _places(g: ProgramBuilder, indices: Value, size: Dim) -> tuple[Value, Value]:
    """``indices`` from the front, within ``size``; and whether they were so."""
    places = wrapped(g, indices, size)
    last = g.size_value(size - 1, places.dtype)
    inside = g.binary("logical_and", g.binary("ge", places, 0), g.binary("le", places, last))
    return g.maximum(g.minimum(places, last), 0), inside


def _unpacked_points(g: ProgramBuilder, zero_points: Value | None, scales: Value, bits: int) -> Value:
    if zero_points is None:
        return g.full(scales.shape, 1 << (bits - 1), torch.uint8)
    return g.slice(unpacked(g, zero_points, bits), scales.rank - 1, 0, scales.shape[-1])


def _chosen(g: ProgramBuilder, parameter: Value, places: Value, rows: Value, gathered: int, along: int) -> Value:
    """The parameters of ``rows``: gathered as they were, and one for all made as many."""
    if parameter.shape[gathered] == 1:
        places = g.mul(places, 0)
    chosen = gather(g, parameter, places, axis=gathered)
    return g.expand(chosen, [*rows.shape[:along], chosen.shape[along], *rows.shape[along + 1 :]])


def embedding(
    g: ProgramBuilder,
    input_ids: Value,
    segment_ids: Value | None,
    word_table: Value,
    position_table: Value,
    segment_table: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None,
    word_scale: Value,
    position_scale: Value,
    segment_scale: Value | None,
    gamma_scale: Value,
    beta_scale: Value,
    word_zero_point: Value,
    position_zero_point: Value,
    segment_zero_point: Value | None,
    gamma_zero_point: Value,
    beta_zero_point: Value,
    *,
    epsilon: float = 1e-12,
) -> tuple[Value, ...]:
    """EmbedLayerNormalization of quantized tables: the normalized sum, and the lengths that the mask tells."""
    batch, length = input_ids.shape
    total = dequantize(g, gather(g, word_table, input_ids), word_scale, word_zero_point)
    positions = first_positions(g, position_table, length)
    total = g.add(total, dequantize(g, positions, position_scale, position_zero_point))
    if segment_ids is not None and segment_table is not None and segment_scale is not None:
        segments = gather(g, segment_table, segment_ids)
        total = g.add(total, dequantize(g, segments, segment_scale, segment_zero_point))
    factor = dequantize(g, gamma, gamma_scale, gamma_zero_point)
    shift = dequantize(g, beta, beta_scale, beta_zero_point)
    return layer_normalization(g, total, factor, shift, epsilon=epsilon)[0], lengths_of(g, mask, batch)
