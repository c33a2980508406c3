"""GreedySearch: a text goes on with the word of the highest score, until it ends or is as long as it may be."""

from __future__ import annotations

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.subprograms import SubGraph, while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.decoders import Decoder, Gpt, Prompt
from onnx2torch_mlir.domains.com_microsoft.next_words import Rules, scalar, vocabulary


def greedy_search(
    g: ProgramBuilder,
    input_ids: Value,
    max_length: Size,
    min_length: Value | None = None,
    repetition_penalty: Value | None = None,
    vocab_mask: Value | None = None,
    prefix_vocab_mask: Value | None = None,
    attention_mask: Value | None = None,
    *,
    decoder: SubGraph,
    eos_token_id: int,
    pad_token_id: int,
    init_decoder: SubGraph | None = None,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    vocab_size: int = -1,
) -> Value:
    """Texts [B, max_length] (int32) that begin with ``input_ids`` [B, S], padded after their end.

    Where all texts end before ``max_length``, onnxruntime leaves what comes after the last end unwritten.

    Raises:
        Refusal: O2M-C003 for a decoder that is not of GPT-2's form.
    """
    if model_type != 0:
        raise refuse("O2M-C003", "onnxruntime searches greedily with decoders of GPT-2's form only", case="model_type")
    if input_ids.rank != 2:
        raise refuse("O2M-C006", f"ids of rank {input_ids.rank}, not 2", case="input_ids")
    room = g.as_size(max_length)
    batch, steps = input_ids.shape
    text = f"max_length ({g.table.describe(room)}) has to be more than the words given ({g.table.describe(steps)})"
    g.require(sympy.Gt(sympy.sympify(room), sympy.sympify(steps)), text)
    prompt = Prompt.of(g, input_ids, attention_mask, pad_token_id, room, 1)
    model = Gpt(Decoder.of(decoder, init_decoder), prompt)
    rules = Rules(
        eos_token_id,
        scalar(g, repetition_penalty, torch.float32),
        no_repeat_ngram_size,
        vocab_mask,
        prefix_vocab_mask,
        scalar(g, min_length, torch.int64),
    )
    places = g.arange(0, room)

    def chosen(
        b: ProgramBuilder, logits: Value, texts: Value, length: Value, ended: Value, *, first: bool
    ) -> tuple[Value, Value]:
        """The texts with one more word, and which of them have ended."""
        scores = rules.apply(b, logits, texts, length, first=first)
        word = b.call("aten.argmax.default", scores, 1, False)
        ended = b.binary("logical_or", ended, b.binary("eq", word, eos_token_id))
        word = b.where(ended, pad_token_id, word)
        return b.where(b.binary("eq", places, length), b.unsqueeze(word, 1), texts), ended

    def go_on(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        length, _, ended, *_ = state
        open_texts = b.sum(b.cast(b.unary("logical_not", ended), torch.int64), [0])
        return [b.binary("logical_and", b.binary("gt", open_texts, 0), b.binary("lt", length, b.size_value(room)))]

    def turn(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        length, texts, ended, *pasts = state
        with b.turn(length):
            logits, presents = model.step(b, texts, length, pasts)
        texts, ended = chosen(b, logits, texts, length, ended, first=False)
        return [b.add(length, 1), texts, ended, *presents]

    logits, presents = model.start(g)
    vocabulary(g.unsqueeze(logits, 1), vocab_size)
    length = g.size_value(steps)
    texts, ended = chosen(g, logits, prompt.texts, length, g.full([batch], False, torch.bool), first=True)
    state = [g.add(length, 1), texts, ended, *presents]
    fixed = [TensorType(value.dtype, value.shape, value.element) for value in state[:3]]
    types, results = ([*fixed, *model.past_types(g)] for _ in range(2))
    length, texts, *_ = while_loop(g, go_on, turn, state, types, results)
    return g.cast(g.where(g.binary("lt", places, length), texts, pad_token_id), torch.int32)
