"""Weights of 4 bits in layouts of their own: bitsandbytes' types, onnxruntime's first blobs, and tables to gather from.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import KnownInts
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.blocked_weights import unpacked
from onnx2torch_mlir.families.quantization import dequantize, spread

_FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334),
    *(-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
BNB4 = ((*_FP4, *(-number for number in _FP4)), _NF4)
"""The 16 numbers of FP4 and of NF4, by their codes (https://arxiv.org/abs/2305.14314)."""


def matmul_bnb4(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    absmax: Value,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Value:
    """``a`` [..., K] times the transposed weights [N, K].

    ``b`` holds the codes of FP4 or NF4 numbers, row by row, the higher half of a byte first; ``absmax`` has a factor for
    every ``block_size`` of them.

    Raises:
        Refusal: O2M-C003 for weights that are not transposed, O2M-C005 for another ``quant_type``.
    """
    if not transB:
        reason = "a product with weights as they are, of which onnxruntime's CPU kernel leaves most columns 0"
        raise refuse("O2M-C003", reason, case="transB=0")
    if quant_type not in (0, 1):
        raise refuse("O2M-C005", f"there is no quant_type {quant_type}", case="quant_type")
    pairs = g.reshape(unpacked(g, g.reshape(b, [-1]), 4), [-1, 2])
    codes = g.slice(g.reshape(g.call("aten.flip.default", pairs, [1]), [-1]), 0, 0, N * K)
    table = g.known(torch.tensor(BNB4[quant_type], dtype=torch.float32), torch.float32)
    numbers = g.call("aten.index_select.default", table, 0, g.cast(codes, torch.int32))
    factors = spread(g, g.cast(absmax, torch.float32), numbers, 0, block_size)
    weights = g.reshape(g.mul(numbers, factors), [N, K])
    result = g.matmul(g.cast(a, torch.float32), g.transpose(weights, 0, 1))
    return g.cast(result, a.dtype)


_BLOBS = {0: (32, 4), 1: (32, 5), 2: (64, 4), 4: (128, 4)}
"""By ``blk_quant_type``: weights in a block, and bytes before them: a float32 scale and, of 5, a zero point."""

_UNIT = 32
"""Of so many weights the first half lies in the lower halves of 16 bytes, the second one in the higher halves."""


def matmul_fp_q4(g: ProgramBuilder, a: Value, b: Value, b_shape: KnownInts, *, blk_quant_type: int = 1) -> Value:
    """``a`` [..., K] times weights [K, N] that lie column by column, block by block, in the bytes ``b``.

    onnxruntime has a kernel where a processor has AVX-512; the layout is that of its MlasQ4GemmPackB.

    Raises:
        Refusal: O2M-C005 for another ``blk_quant_type``.
    """
    if blk_quant_type not in _BLOBS:
        raise refuse("O2M-C005", f"there is no blk_quant_type {blk_quant_type}", case="blk_quant_type")
    (size, head), (rows, columns) = _BLOBS[blk_quant_type], b_shape
    blocks = -(-rows // size)
    blobs = g.reshape(b, [columns, blocks, head + size // 2])
    scale_bytes = g.cast(g.slice(blobs, 2, 0, 4), torch.int32)
    places = g.known(torch.tensor([0, 8, 16, 24], dtype=torch.int32), torch.int32)
    bits = g.sum(g.binary("bitwise_left_shift", scale_bytes, places), [2], dtype=torch.int32)
    scales = g.call("aten.view.dtype", bits, torch.float32)
    zero_points = g.full([columns, blocks], 8, torch.uint8) if head == 4 else g.select(blobs, 2, 4)
    halves = unpacked(g, g.slice(blobs, 2, head, head + size // 2), 4)
    units = g.reshape(halves, [columns, blocks * size // _UNIT, _UNIT // 2, 2])
    codes = g.slice(g.reshape(g.transpose(units, 2, 3), [columns, blocks * size]), 1, 0, rows)
    weights = dequantize(g, codes, scales, zero_points, axis=1, block_size=size)
    return g.matmul(a, g.transpose(weights, 0, 1))
