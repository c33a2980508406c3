"""DynamicQuantizeLSTM: an LSTM whose products are of 8-bit weights and of rows that are quantized where they arise."""

from __future__ import annotations

from typing import Unpack

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.domains.com_microsoft.quantized_products import dynamic_quantize_matmul
from onnx2torch_mlir.families.recurrent import LSTM, Product, RecurrentAttributes, recurrent


def lstm(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    p: Value | None,
    w_scale: Value,
    w_zero_point: Value,
    r_scale: Value,
    r_zero_point: Value,
    *,
    input_forget: int = 0,
    **layer: Unpack[RecurrentAttributes],
) -> tuple[Value, ...]:
    """ONNX LSTM: Y, Y_h, Y_c; ``w`` [D, I, 4*H] and ``r`` [D, H, 4*H] are quantized, with parameters [D] or [D, 4*H].

    The input is quantized over all steps at once, the hidden state of the whole batch at each step: so does onnxruntime
    with one thread (with more it cuts the batch into parts, each with a scale of its own). As there the zero points of a
    direction are all the same. Source:
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM.
    """
    if sequence_lens is not None:
        x = _within(g, x, sequence_lens)
    products = [
        (_product(g, w_scale, w_zero_point, index), _product(g, r_scale, r_zero_point, index))
        for index in range(2 if layer.get("direction") == "bidirectional" else 1)
    ]
    return recurrent(
        g, LSTM, x, g.permute(w, [0, 2, 1]), g.permute(r, [0, 2, 1]), b, sequence_lens, [initial_h, initial_c], p,
        flag=bool(input_forget), products=products, **layer,
    )  # fmt: skip


def _product(g: ProgramBuilder, scales: Value, zero_points: Value, index: int) -> Product:
    scale, zero_point = g.select(scales, 0, index), g.select(zero_points, 0, index)
    if zero_point.rank:
        zero_point = g.select(zero_point, 0, 0)
    return lambda g, x, weights: dynamic_quantize_matmul(g, x, weights, scale, zero_point)


def _within(g: ProgramBuilder, x: Value, sequence_lens: Value) -> Value:
    """``x`` with zeros in the steps that are beyond all sequences: they have no part in its range."""
    steps = g.reshape(g.arange(0, x.shape[0], dtype=sequence_lens.dtype), [x.shape[0], 1, 1])
    return g.where(g.binary("lt", steps, g.amax(sequence_lens, [0])), x, 0.0)
