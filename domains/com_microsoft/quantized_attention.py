"""QAttention: Attention whose projections are a product of 8-bit matrices."""

from __future__ import annotations

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.attention import Past, self_attention
from onnx2torch_mlir.domains.com_microsoft.multi_head import Extra
from onnx2torch_mlir.domains.com_microsoft.quantized_products import matmul_integer_to_float


def quantized_attention(
    g: ProgramBuilder,
    input: Value,
    weight: Value,
    bias: Value,
    input_scale: Value,
    weight_scale: Value,
    mask_index: Value | None = None,
    input_zero_point: Value | None = None,
    weight_zero_point: Value | None = None,
    past: Value | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
    wanted: tuple[bool, ...],
) -> tuple[Value, Value | None]:
    """As `attention`, with parameters of ``weight`` for the whole matrix or per column.

    Source: com.microsoft QAttention.

    Raises:
        Refusal: O2M-C003 for a past without a present, O2M-C005 for ranks, O2M-C006 for sizes that do not fit.
    """
    if input.rank != 3 or weight.rank != 2 or bias.rank != 1:
        raise refuse(
            "O2M-C005", f"input of rank {input.rank}, weight of rank {weight.rank}, or bias not of rank 1", case="input"
        )
    g.require_equal(bias.shape[0], weight.shape[1], "sizes of bias and weight")
    projected = matmul_integer_to_float(g, input, weight, input_scale, weight_scale, input_zero_point, weight_zero_point, bias)
    extra = Extra(mask_index, None, unidirectional == 1, mask_filter_value, starts=True)
    cache = Past(past, False, wanted[1:2] == (True,))
    output, present = self_attention(g, projected, (), num_heads, cache, scale or None, extra)
    return g.cast(output, bias.dtype), None if present is None else g.cast(present, bias.dtype)
