"""LinearAttention and what computes its gates, as onnxruntime has them."""

from __future__ import annotations

from typing import Unpack

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import floor_div, to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import linear_attention as family


def linear_attention(
    g: ProgramBuilder,
    query: Value,
    key: Value,
    value: Value,
    past_state: Value | None = None,
    decay: Value | None = None,
    beta: Value | None = None,
    *,
    q_num_heads: int,
    update_rule: str = "gated_delta",
    **attributes: Unpack[family.KeyAttributes],
) -> tuple[Value, Value]:
    """`families.linear_attention`, where several heads of keys may share one of queries, and a rule ignores what it
    does not take.

    Source: com.microsoft LinearAttention.

    Raises:
        Refusal: O2M-C005 as there.
    """
    kv_num_heads = attributes["kv_num_heads"]
    if q_num_heads > 0 and kv_num_heads > q_num_heads and kv_num_heads % q_num_heads == 0 and query.rank == 3:
        batch, steps, hidden = query.shape
        size, times = floor_div(hidden, q_num_heads), kv_num_heads // q_num_heads
        heads = g.reshape(query, [batch, steps, q_num_heads, 1, size])
        repeated = g.expand(heads, [batch, steps, q_num_heads, times, size])
        query = g.reshape(repeated, [batch, steps, to_dim(kv_num_heads * size)])
        q_num_heads = kv_num_heads
    return family.linear_attention(
        g, query, key, value, past_state,
        decay if update_rule in ("gated", "gated_delta") else None,
        beta if update_rule in ("delta", "gated_delta") else None,
        q_num_heads=q_num_heads, update_rule=update_rule, **attributes,
    )  # fmt: skip


def linear_attention_gate(
    g: ProgramBuilder, a: Value, dt_bias: Value, decay_scale: Value, b: Value | None = None, *, wanted: tuple[bool, ...]
) -> tuple[Value, Value | None]:
    """``decay_scale`` * softplus(``a`` + ``dt_bias``), and sigmoid(``b``); computed in float32.

    Source: com.microsoft LinearAttentionGate.

    Raises:
        Refusal: O2M-C005 where the second output is asked for without ``b``, O2M-C006 for sizes that do not fit.
    """
    if not (a.rank and dt_bias.rank == decay_scale.rank == 1):
        raise refuse("O2M-C005", "a of rank 0, or dt_bias or decay_scale not of rank 1", case="a")
    for vector in (dt_bias, decay_scale):
        g.require_equal(vector.shape[-1], a.shape[-1], "heads of the gate")
    x = g.add(g.cast(a, torch.float32), dt_bias)
    soft = g.add(g.maximum(x, 0.0), g.unary("log1p", g.unary("exp", g.unary("neg", g.unary("abs", x)))))
    decay = g.cast(g.mul(soft, decay_scale), a.dtype)
    if b is None:
        if wanted[1:2] == (True,):
            raise refuse("O2M-C005", "the output beta needs the input b", case="beta")
        return decay, None
    return decay, g.cast(g.unary("sigmoid", g.cast(b, torch.float32)), b.dtype)
