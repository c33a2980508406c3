"""AttnLSTM: an LSTM that sees, beside each step's input, what an additive attention made of the state before.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.AttnLSTM; the attention is
Bahdanau's (https://arxiv.org/abs/1409.0473).
"""

from __future__ import annotations

from functools import partial
from typing import Unpack

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.recurrent import DIRECTIONS, LSTM, RecurrentAttributes, Wrapper, recurrent


def attn_lstm(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    query_weights: Value | None = None,
    memory_weights: Value | None = None,
    v: Value | None = None,
    memory: Value | None = None,
    memory_lens: Value | None = None,
    layer_weights: Value | None = None,
    *,
    input_forget: int = 0,
    **attributes: Unpack[RecurrentAttributes],
) -> tuple[Value, ...]:
    """Y [S, D, B, H], Y_h and Y_c [D, B, H] of ``x`` [S, B, I] and ``w`` [D, 4*H, I + N], N being what is seen.

    Of ``memory`` [B, M, K] are seen the rows' mean, weighted by a softmax over the first ``memory_lens`` [B] rows (N = K); with
    ``layer_weights`` [D, H + K, N] their product with the hidden state and that mean. ``query_weights`` [D, H, A],
    ``memory_weights`` [D, K, A] and ``v`` [D, A] give the scores of the rows.

    Raises:
        Refusal: O2M-C005 without memory, or for a direction that there is not; O2M-C006 for ranks or sizes that do not fit.
    """
    if query_weights is None or memory_weights is None or v is None or memory is None:
        raise refuse("O2M-C005", "AttnLSTM without a memory or its weights", case="M")
    ranks = [(x, 3), (w, 3), (r, 3), (query_weights, 3), (memory_weights, 3), (v, 2), (memory, 3)]
    ranks += [] if layer_weights is None else [(layer_weights, 3)]
    if any(value.rank != rank for value, rank in ranks):
        raise refuse("O2M-C006", "AttnLSTM of inputs of other ranks than its signature's", case="rank")
    g.require_equal(memory.shape[0], x.shape[1], "batch sizes of the input and of the memory")
    size = x.shape[2]
    inputs = g.slice(w, 2, 0, size)
    wrappers = []
    for index in range(len(DIRECTIONS.get(attributes.get("direction", "forward"), ()))):
        seen = g.permute(g.slice(g.select(w, 0, index), 1, size, w.shape[2]), [1, 0])
        look = partial(
            _look,
            query=g.select(query_weights, 0, index),
            keys=g.matmul(memory, g.select(memory_weights, 0, index)),
            v=g.select(v, 0, index),
            memory=memory,
            inside=None if memory_lens is None else _inside(g, memory, memory_lens),
            layer=None if layer_weights is None else g.select(layer_weights, 0, index),
        )
        wrappers.append(Wrapper(seen, look))
    return recurrent(
        g, LSTM, x, inputs, r, b, sequence_lens, [initial_h, initial_c], p,
        flag=bool(input_forget), wrappers=wrappers, **attributes,
    )  # fmt: skip


def _inside(g: ProgramBuilder, memory: Value, lens: Value) -> Value:
    """[B, M]: whether a row of the memory is one of its first ``lens`` [B]."""
    rows = g.arange(0, memory.shape[1], dtype=lens.dtype)
    return g.binary("lt", g.unsqueeze(rows, 0), g.unsqueeze(lens, 1))


def _look(
    g: ProgramBuilder,
    hidden: Value,
    *,
    query: Value,
    keys: Value,
    v: Value,
    memory: Value,
    inside: Value | None,
    layer: Value | None,
) -> Value:
    """What is seen [B, N] with the hidden state [B, H]: ``keys`` are [B, M, A]."""
    scores = g.matmul(g.unary("tanh", g.add(keys, g.unsqueeze(g.matmul(hidden, query), 1))), g.unsqueeze(v, 1))
    scores = g.reshape(scores, list(memory.shape[:2]))
    if inside is not None:
        scores = g.where(inside, scores, float("-inf"))
    weights = g.unsqueeze(g.softmax(scores, 1), 1)
    context = g.reshape(g.matmul(weights, memory), [memory.shape[0], memory.shape[2]])
    if layer is None:
        return context
    size = hidden.shape[1]
    both = to_dim(size + memory.shape[2])
    return g.add(g.matmul(hidden, g.slice(layer, 0, 0, size)), g.matmul(context, g.slice(layer, 0, size, both)))
