"""Sampling: a text goes on with words drawn from those that are likely, by the numbers that onnxruntime draws.

onnxruntime draws with C++'s ``std::default_random_engine``, in libstdc++ ``minstd_rand0`` (x -> 16807 x mod 2^31 - 1), and
makes two of its numbers a double between 0 and 1 for each text and word.
"""

from __future__ import annotations

from functools import partial

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.subprograms import SubGraph, scan
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.greedy_search import generated, gpt
from onnx2torch_mlir.domains.com_microsoft.next_words import Rules, scalar

FACTOR, MODULUS = 16807, 2147483647


def sampling(
    g: ProgramBuilder,
    input_ids: Value,
    max_length: Size,
    min_length: Value | None = None,
    repetition_penalty: Value | None = None,
    vocab_mask: Value | None = None,
    prefix_vocab_mask: Value | None = None,
    attention_mask: Value | None = None,
    presence_mask: Value | None = None,
    seed: Value | None = None,
    *,
    decoder: SubGraph,
    eos_token_id: int,
    pad_token_id: int,
    init_decoder: SubGraph | None = None,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    vocab_size: int = -1,
    custom: int = 0,
    filter_value: float = -1e20,
    min_tokens_to_keep: int = 0,
    presence_penalty: float = 0.0,
    temperature: float = 1.0,
    top_p: float = 0.0,
    wanted: tuple[bool, ...] = (True,),
) -> Value:
    """Texts [B, max_length] (int32) that begin with ``input_ids`` [B, S], padded after their end.

    Where all texts end before ``max_length``, onnxruntime leaves what comes after the last end unwritten. Of words of equal
    scores it does not say which is left out.

    Raises:
        Refusal: O2M-C003 for a decoder that is not of GPT-2's form, or where the filtered logits are asked for.
    """
    if model_type != 0:
        raise refuse("O2M-C003", "onnxruntime samples with decoders of GPT-2's form only", case="model_type")
    if any(wanted[1:]):
        raise refuse("O2M-C003", "onnxruntime gives filtered_logits in debugging builds only", case="filtered_logits")
    rules = Rules(
        eos_token_id,
        scalar(g, repetition_penalty, torch.float32),
        no_repeat_ngram_size,
        vocab_mask,
        prefix_vocab_mask,
        scalar(g, min_length, torch.int64),
        temperature,
        presence_mask,
        presence_penalty,
    )
    model = gpt(g, input_ids, max_length, attention_mask, pad_token_id, decoder, init_decoder)
    likely = partial(_descending, share=top_p) if custom else partial(_ascending, share=top_p, least=min_tokens_to_keep)

    def drawn(b: ProgramBuilder, scores: Value, state: list[Value]) -> tuple[Value, list[Value]]:
        scores = b.where(likely(b, scores), filter_value, scores)
        numbers, state = _uniform(b, scores, state)
        return _multinomial(b, scores, numbers), state

    given = scalar(g, seed, torch.int64)
    first = g.scalar(0, torch.int64) if given is None else g.binary("remainder", given, MODULUS)
    first = g.where(g.binary("eq", first, 0), 1, first)
    return generated(g, model, rules, drawn, [first], pad_token_id, vocab_size)


def _shares(g: ProgramBuilder, scores: Value, *, descending: bool) -> tuple[Value, Value]:
    """The words of [B, V] in order of their scores, and the sum of the probabilities up to each."""
    ordered, order = g.call("aten.sort.stable", scores, stable=True, dim=1, descending=descending)
    return order, g.call("aten.cumsum.default", g.softmax(ordered, 1), 1, dtype=torch.float32)


def _unsorted(g: ProgramBuilder, order: Value, flags: Value) -> Value:
    """Flags of words in ``order``, by word."""
    places = g.call("aten.sort.stable", order, stable=True, dim=1)[1]
    return g.binary("gt", g.call("aten.gather.default", g.cast(flags, torch.int64), 1, places), 0)


def _ascending(g: ProgramBuilder, scores: Value, *, share: float, least: int) -> Value:
    """[B, V]: the least likely words that together have at most 1 - ``share``; but for the last ``least`` words."""
    order, shares = _shares(g, scores, descending=False)
    rest = float(torch.tensor(1.0) - torch.tensor(share))
    place = g.arange(0, scores.shape[1])
    end = g.size_value(to_dim(scores.shape[1] - least))
    left = g.binary("logical_or", g.binary("eq", place, 0), g.binary("lt", place, end))
    return _unsorted(g, order, g.binary("logical_and", g.binary("le", shares, rest), left))


def _descending(g: ProgramBuilder, scores: Value, *, share: float) -> Value:
    """[B, V]: the words after the most likely ones that together have more than ``share``."""
    order, shares = _shares(g, scores, descending=True)
    past = g.binary("gt", shares, share)
    none = g.full([scores.shape[0], 1], False, torch.bool)
    return _unsorted(g, order, g.cat([none, g.slice(past, 1, 0, to_dim(scores.shape[1] - 1))], 1))


def _uniform(g: ProgramBuilder, scores: Value, state: list[Value]) -> tuple[Value, list[Value]]:
    """A number [B] (float64) for each row of scores, by two numbers of the engine, and the engine's next state."""
    rows = scores.shape[0]

    def row(b: ProgramBuilder, items: list[Value]) -> list[Value]:
        one = b.binary("remainder", b.mul(items[0], FACTOR), MODULUS)
        other = b.binary("remainder", b.mul(one, FACTOR), MODULUS)
        return [other, one, other]

    after, pairs = scan(g, row, state, [g.arange(0, rows)], rows)
    low, high = (g.sub(g.cast(item, torch.float64), 1.0) for item in pairs)
    width = float(MODULUS - 1)
    return g.div(g.add(low, g.mul(high, width)), width * width), after


def _multinomial(g: ProgramBuilder, scores: Value, numbers: Value) -> Value:
    """The word [B] whose part of the probabilities [B, V] holds the number [B]."""
    finite = g.binary("lt", g.unary("abs", scores), float("inf"))
    lowest = torch.finfo(torch.float32).min
    highest = g.amax(g.where(finite, scores, lowest), [1], True)
    parts = g.unary("exp", g.sub(g.cast(scores, torch.float64), g.cast(highest, torch.float64)))
    ends = g.call("aten.cumsum.default", g.where(finite, parts, 0.0), 1, dtype=torch.float64)
    whole = g.select(ends, 1, to_dim(scores.shape[1] - 1))
    places = g.unsqueeze(g.mul(numbers, whole), 1)
    return g.sum(g.cast(g.binary("le", ends, places), torch.int64), [1])
