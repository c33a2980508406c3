"""Weights of 2, 4 or 8 bits, packed several to a byte, with a scale for each block of a row.

They stay packed in the program: rows are unpacked and dequantized where it computes.
Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.quantization import dequantize, dequantized

BITS = (2, 4, 8)


def unpacked(g: ProgramBuilder, packed: Value, bits: int) -> Value:
    """``packed`` [..., n] (uint8) as [..., n * 8 / bits] codes in uint8, the lowest bits of a byte first.

    Raises:
        Refusal: O2M-C005 for bits that are not 2, 4 or 8.
    """
    if bits not in BITS:
        raise refuse("O2M-C005", f"weights of {bits} bits; there are {', '.join(map(str, BITS))}", case=f"bits={bits}")
    if bits == 8:
        return packed
    shifts = g.known(torch.arange(0, 8, bits, dtype=torch.uint8), torch.uint8)
    parts = g.binary("bitwise_right_shift", g.unsqueeze(packed, packed.rank), shifts)
    codes = g.binary("bitwise_and", parts, (1 << bits) - 1)
    *lead, last = packed.shape
    return g.reshape(codes, [*lead, D.to_dim(last * (8 // bits))])


def matmul_n_bits(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    scales: Value,
    zero_points: Value | None = None,
    g_idx: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
) -> Value:
    """``a`` [..., K] times the transposed weights [N, K], plus ``bias`` [N]; computed in float32.

    ``b`` is [N, blocks, block_size * bits / 8], ``scales`` [N, blocks]. ``zero_points`` are packed as the weights are, or
    floats like the scales. ``g_idx`` [K] says of which block a column is; with it onnxruntime takes no notice of packed zero
    points, and so does this. ``accuracy_level`` 4 lets onnxruntime quantize
    ``a`` to 8 bits by blocks, where it has packed the weights: so here too.

    Raises:
        Refusal: O2M-C005 for another number of bits.
    """
    blocks = -(-K // block_size)
    codes = unpacked(g, g.reshape(b, [N, blocks * (block_size * bits // 8)]), bits)
    codes = g.slice(codes, 1, 0, K)
    scales = g.reshape(scales, [N, blocks])
    if g_idx is not None and zero_points is not None and zero_points.dtype is torch.uint8:
        zero_points = None
    offsets = _zero_points(g, zero_points, N, blocks, bits)
    if g_idx is None:
        weights = dequantize(g, codes, scales, offsets, axis=1, block_size=block_size, dtype=torch.float32)
    else:
        chosen = [g.call("aten.index_select.default", item, 1, g_idx) for item in (scales, offsets)]
        weights = dequantized(g, codes, *chosen)
    rows = g.cast(a, torch.float32)
    packs = b.is_known and g_idx is None and offsets.dtype is torch.uint8
    if accuracy_level == 4 and packs and (bits != 2 or block_size in (32, 64, 128)):
        rows = in_8_bits(g, rows, K, block_size)
    result = g.matmul(rows, g.transpose(weights, 0, 1))
    if bias is not None:
        result = g.add(result, g.cast(bias, torch.float32))
    return g.cast(result, a.dtype)


def _zero_points(g: ProgramBuilder, zero_points: Value | None, rows: int, blocks: int, bits: int) -> Value:
    """[rows, blocks], in uint8 or float; the middle of the range where they are absent."""
    if zero_points is None:
        return g.full([rows, blocks], 1 << (bits - 1), torch.uint8)
    if zero_points.dtype is not torch.uint8:
        return g.reshape(zero_points, [rows, blocks])
    whole = unpacked(g, g.reshape(zero_points, [rows, -(-blocks * bits // 8)]), bits)
    return g.slice(whole, 1, 0, blocks)


def in_8_bits(g: ProgramBuilder, x: Value, size: int, block_size: int) -> Value:
    """``x`` [..., size], each block rounded to 127 steps either way of its largest magnitude."""
    blocks = -(-size // block_size)
    lead = x.shape[:-1]
    padded = g.pad(x, [0] * x.rank, [*[0] * len(lead), blocks * block_size - size])
    parts = g.reshape(padded, [*lead, blocks, block_size])
    largest = g.amax(g.unary("abs", parts), [parts.rank - 1], True)
    steps = g.where(g.binary("eq", largest, 0.0), 0.0, g.div(127.0, largest))
    rounded = g.mul(g.unary("round", g.mul(parts, steps)), g.div(largest, 127.0))
    return g.slice(g.reshape(rounded, [*lead, blocks * block_size]), x.rank - 1, 0, size)
