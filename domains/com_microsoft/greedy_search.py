"""GreedySearch: a text goes on with the word of the highest score, or one chosen otherwise, until it ends or has its length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import SubGraph, while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.decoders import Decoder, Gpt, Prompt
from onnx2torch_mlir.domains.com_microsoft.next_words import Rules, scalar, vocabulary

Choice = Callable[[ProgramBuilder, Value, list[Value]], tuple[Value, list[Value]]]
"""``choice(g, scores, state)``: a word for each row of scores [B, V], and a state of its own that is carried on."""


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
        Refusal: O2M-C003 for a decoder that is not of GPT-2's form, O2M-C006 for ranks or sizes that do not fit.
    """
    rules = Rules(
        eos_token_id,
        scalar(g, repetition_penalty, torch.float32),
        no_repeat_ngram_size,
        vocab_mask,
        prefix_vocab_mask,
        scalar(g, min_length, torch.int64),
    )
    if model_type != 0:
        raise refuse("O2M-C003", "onnxruntime searches greedily with decoders of GPT-2's form only", case="model_type")
    model = gpt(g, input_ids, max_length, attention_mask, pad_token_id, decoder, init_decoder)
    return generated(g, model, rules, _best, [], pad_token_id, vocab_size)


def _best(g: ProgramBuilder, scores: Value, state: list[Value]) -> tuple[Value, list[Value]]:
    return g.call("aten.argmax.default", scores, 1, False), state


def gpt(
    g: ProgramBuilder,
    ids: Value,
    max_length: Dim,
    mask: Value | None,
    pad: int,
    decoder: SubGraph,
    init_decoder: SubGraph | None,
) -> Gpt:
    """The decoder with the prompt ``ids`` [B, S], and with room for ``max_length`` words.

    Raises:
        Refusal: O2M-C003 and O2M-C005 for a decoder that is not of GPT-2's form, O2M-C006 for ids of another rank.
    """
    if ids.rank != 2:
        raise refuse("O2M-C006", f"ids of rank {ids.rank}, not 2", case="input_ids")
    room, steps = g.as_size(max_length), ids.shape[1]
    text = f"max_length ({g.table.describe(room)}) has to be more than the words given ({g.table.describe(steps)})"
    g.require(sympy.Gt(sympy.sympify(room), sympy.sympify(steps)), text)
    return Gpt(Decoder.of(decoder, init_decoder), Prompt.of(g, ids, mask, pad, room, 1))


def generated(
    g: ProgramBuilder, model: Gpt, rules: Rules, choice: Choice, initial: Sequence[Value], pad: int, vocab_size: int
) -> Value:
    """Texts [B, T] (int32): the prompts, and word after word by ``choice``, whose state is ``initial`` at first."""
    prompt = model.prompt
    batch, room = prompt.texts.shape
    places = g.arange(0, room)
    own = 3 + len(initial)

    def longer(b: ProgramBuilder, logits: Value, state: list[Value], *, first: bool) -> list[Value]:
        """The state with one more word."""
        length, texts, ended, *carried = state
        word, carried = choice(b, rules.apply(b, logits, texts, length, first=first), carried)
        ended = b.binary("logical_or", ended, b.binary("eq", word, rules.eos))
        word = b.where(ended, pad, word)
        texts = b.where(b.binary("eq", places, length), b.unsqueeze(word, 1), texts)
        return [b.add(length, 1), texts, ended, *carried]

    def go_on(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        length, _, ended, *_ = state
        open_texts = b.sum(b.cast(b.unary("logical_not", ended), torch.int64), [0])
        return [b.binary("logical_and", b.binary("gt", open_texts, 0), b.binary("lt", length, b.size_value(room)))]

    def turn(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        length, texts, *_ = state
        with b.turn(length):
            logits, presents = model.step(b, texts, length, state[own:])
        return [*longer(b, logits, state[:own], first=False), *presents]

    logits, presents = model.start(g)
    vocabulary(g.unsqueeze(logits, 1), vocab_size)
    start = [g.size_value(prompt.steps), prompt.texts, g.full([batch], False, torch.bool), *initial]
    fixed = longer(g, logits, start, first=True)
    kinds = [TensorType(value.dtype, value.shape, value.element) for value in fixed]
    types, results = ([*kinds, *model.past_types(g)] for _ in range(2))
    length, texts, *_ = while_loop(g, go_on, turn, [*fixed, *presents], types, results)
    return g.cast(g.where(g.binary("lt", places, length), texts, pad), torch.int32)
