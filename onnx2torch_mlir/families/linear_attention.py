"""LinearAttention and CausalConvWithState: sequences whose past is a state of fixed size."""

from __future__ import annotations

from typing import TypedDict

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import floor_div, product, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import scan
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.broadcast import spread

WRITTEN_OUT = 16
"""A kernel of known size up to this is a sum of that many products."""

_GATED, _DELTA = {"gated", "gated_delta"}, {"delta", "gated_delta"}


class _KeyHeads(TypedDict):
    kv_num_heads: int


class KeyAttributes(_KeyHeads, total=False):
    """The attributes of LinearAttention that say how keys are read."""

    chunk_size: int
    scale: float


def linear_attention(
    g: ProgramBuilder,
    query: Value,
    key: Value,
    value: Value,
    past_state: Value | None = None,
    decay: Value | None = None,
    beta: Value | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Value, Value]:
    """[B, T, q_heads * dv], and the state [B, heads, dk, dv] after the last step: one step of the recurrence at a time.

    Computed in float32. ``chunk_size`` is a hint. Source: ONNX LinearAttention and its reference implementation.

    Raises:
        Refusal: O2M-C005 for numbers of heads that do not fit, an unknown rule, or inputs that the rule does not take.
    """
    _check(update_rule, q_num_heads, kv_num_heads, decay, beta)
    if not query.rank == key.rank == value.rank == 3:
        raise refuse("O2M-C005", f"query, key and value of ranks {query.rank}, {key.rank} and {value.rank}", case="rank")
    heads, group = kv_num_heads, q_num_heads // kv_num_heads
    batch, steps = query.shape[:2]
    keys, values = floor_div(key.shape[2], heads), floor_div(value.shape[2], heads)
    g.require_equal(query.shape[2], to_dim(keys * q_num_heads), "sizes of the heads of query and key")
    wide = [g.cast(item, torch.float32) for item in (query, key, value)]
    sequences = [
        g.reshape(wide[0], [batch, steps, heads, group, keys]),
        g.reshape(wide[1], [batch, steps, heads, keys, 1]),
        g.reshape(wide[2], [batch, steps, heads, 1, values]),
    ]
    if decay is not None:
        each = floor_div(decay.shape[2], heads)
        rates = g.reshape(g.unary("exp", g.cast(decay, torch.float32)), [batch, steps, heads, each])
        sequences.append(g.unsqueeze(spread(g, rates, -1, keys), rates.rank))
    if beta is not None:
        rates = spread(g, g.cast(beta, torch.float32), -1, heads)
        sequences.append(g.reshape(rates, [batch, steps, rates.shape[-1], 1, 1]))
    state = g.full([batch, heads, keys, values], 0.0, torch.float32)
    if past_state is not None:
        for size, own in zip(past_state.shape, state.shape, strict=True):
            g.require_equal(size, own, "sizes of past_state")
        state = g.reshape(g.cast(past_state, torch.float32), state.shape)

    def step(b: ProgramBuilder, items: list[Value]) -> list[Value]:
        state, q, k, v, *rates = items
        if decay is not None:
            state = b.mul(state, rates[0])
        if beta is not None:
            retrieved = b.call("aten.sum.dim_IntList", b.mul(state, k), [2], True)
            v = b.mul(b.sub(v, retrieved), rates[-1])
        state = b.add(state, b.mul(k, v))
        return [state, b.matmul(q, state)]

    by_step = [g.permute(item, [1, 0, *range(2, item.rank)]) for item in sequences]
    (state,), (read,) = scan(g, step, [state], by_step, steps)
    factor = scale or g.unary("rsqrt", g.size_value(keys, torch.float32))
    output = g.reshape(g.permute(g.mul(read, factor), [1, 0, 2, 3, 4]), [batch, steps, to_dim(values * q_num_heads)])
    return g.cast(output, query.dtype), g.cast(state, query.dtype if past_state is None else past_state.dtype)


def _check(rule: str, q_heads: int, kv_heads: int, decay: Value | None, beta: Value | None) -> None:
    if rule not in _GATED | _DELTA | {"linear"}:
        raise refuse("O2M-C005", f"there is no update rule {rule!r}", case=f"update_rule={rule}")
    if q_heads <= 0 or kv_heads <= 0 or q_heads % kv_heads:
        raise refuse("O2M-C005", f"{q_heads} heads of queries for {kv_heads} heads of keys", case="q_num_heads")
    for name, given, wanted in (("decay", decay, rule in _GATED), ("beta", beta, rule in _DELTA)):
        if (given is not None) != wanted:
            raise refuse("O2M-C005", f"the update rule {rule!r} {'needs' if wanted else 'takes no'} {name}", case=name)


def causal_conv_with_state(
    g: ProgramBuilder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    past_state: Value | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
) -> tuple[Value, Value]:
    """Each channel of [B, C, L] convolved with its own kernel of ``weight`` [C, 1, k], and the last d (k - 1) inputs.

    Before the input come ``past_state`` [B, C, d (k - 1)] or zeros; d is the ``dilation``. With ``channels_last`` input and
    states are [B, L, …], where all axes from the third on are channels. Computed in float32. Source: ONNX and com.microsoft
    CausalConvWithState.

    Raises:
        Refusal: O2M-C005 for an unknown activation or other ranks.
    """
    if activation not in ("none", "silu", "swish"):
        raise refuse("O2M-C005", f"there is no activation {activation!r}", case=f"activation={activation}")
    if channels_last and input.rank > 2:
        shape = input.shape
        first = [None if item is None else _channels_first(g, item) for item in (input, past_state)]
        assert first[0] is not None
        results = causal_conv_with_state(g, first[0], weight, bias, first[1], activation=activation, dilation=dilation)
        output, state = (g.permute(item, [0, 2, 1]) for item in results)
        return g.reshape(output, shape), g.reshape(state, [*state.shape[:2], *shape[2:]])
    if input.rank != 3 or weight.rank != 3:
        raise refuse("O2M-C005", f"an input of rank {input.rank} and a weight of rank {weight.rank}, not 3", case="rank")
    batch, channels, length = input.shape
    size = weight.shape[2]
    g.require_equal(weight.shape[0], channels, "channels of the input and the weight")
    g.require_equal(weight.shape[1], 1, "inner channels of the weight")
    if dilation < 1:
        raise refuse("O2M-C005", f"a dilation of {dilation}", case=f"dilation={dilation}")
    before = to_dim((size - 1) * dilation)
    if past_state is None:
        past_state = g.full([batch, channels, before], 0, input.dtype)
    padded = g.cat([past_state, input], 2)
    kernel = g.reshape(g.cast(weight, torch.float32), [channels, size])
    total = _windowed(g, g.cast(padded, torch.float32), kernel, length, dilation)
    if bias is not None:
        total = g.add(total, g.reshape(g.cast(bias, torch.float32), [channels, 1]))
    output = g.cast(total, input.dtype)
    if activation != "none":
        total = g.cast(output, torch.float32)
        output = g.cast(g.mul(total, g.unary("sigmoid", total)), input.dtype)
    return output, g.slice(padded, 2, length, to_dim(length + before))


def _channels_first(g: ProgramBuilder, x: Value) -> Value:
    """[B, L, …] as [B, C, L]."""
    return g.permute(g.reshape(x, [*x.shape[:2], product(x.shape[2:])]), [0, 2, 1])


def _windowed(g: ProgramBuilder, x: Value, kernel: Value, length: Dim, dilation: int) -> Value:
    """Sums over the windows that begin at each of the first ``length`` places of ``x``, ``dilation`` places apart."""
    channels, size = kernel.shape
    if isinstance(size, int) and size <= WRITTEN_OUT:
        total = g.full([x.shape[0], channels, length], 0.0, torch.float32)
        for tap in range(size):
            start = tap * dilation
            part = g.slice(x, 2, start, to_dim(length + start))
            total = g.add(total, g.mul(part, g.slice(kernel, 1, tap, tap + 1)))
        return total
    taps = g.mul(g.arange(0, size), dilation)
    places = g.add(g.unsqueeze(g.arange(0, length), 1), g.unsqueeze(taps, 0))
    flat = g.call("aten.index_select.default", x, 2, g.reshape(places, [to_dim(length * size)]))
    windows = g.reshape(flat, [x.shape[0], channels, length, size])
    result: Value = g.call("aten.sum.dim_IntList", g.mul(windows, g.unsqueeze(kernel, 1)), [3], False)
    return result
