"""What the operators that generate texts do to the scores of the next word, before they choose one.

Source: the descriptions of GreedySearch, BeamSearch and Sampling in
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; a word that is ruled out gets the lowest float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

RULED_OUT = torch.finfo(torch.float32).min

Rule = Callable[[ProgramBuilder, Value, Value, Value], Value]
"""``rule(g, scores, texts, length)``: scores [R, V] after the first ``length`` (0-d) words of ``texts`` [R, T]."""


@dataclass(frozen=True)
class Rules:
    """The rules for the scores [R, V] of the next word of R texts.

    ``penalty`` (0-d float) is for words that a text has; ``repeated`` is the size of the n-grams that may not come again;
    ``words`` [V] and, for the first word only, ``first_words`` [R, V] are 0 for words that may not come; a text does not
    end (``eos``) before it has ``least`` (0-d) words; ``temperature`` divides; ``present`` [R, V] times ``presence`` is
    subtracted, as onnxruntime does it: all of it from the score of the first word of the first text. ``last`` is a rule of
    its own.
    """

    eos: int
    penalty: Value | None = None
    repeated: int = 0
    words: Value | None = None
    first_words: Value | None = None
    least: Value | None = None
    temperature: float | Value = 1.0
    present: Value | None = None
    presence: float = 0.0
    last: Rule | None = None

    def apply(self, g: ProgramBuilder, scores: Value, texts: Value, length: Value, *, first: bool) -> Value:
        """The scores after all rules; of ``texts`` [R, T] (int64) the first ``length`` (0-d) words are there."""
        if self.penalty is not None and self.penalty.known() != 1.0:
            places = g.arange(0, texts.shape[1])
            held = _hit(g, scores, texts, g.expand(g.binary("lt", places, length), texts.shape))
            dear = g.where(g.binary("lt", scores, 0.0), g.mul(scores, self.penalty), g.div(scores, self.penalty))
            scores = g.where(held, dear, scores)
        if self.repeated > 0:
            scores = g.where(self._repeating(g, scores, texts, length), RULED_OUT, scores)
        if self.words is not None:
            scores = g.where(g.binary("eq", g.unsqueeze(self.words, 0), 0), RULED_OUT, scores)
        if self.first_words is not None and first:
            scores = g.where(g.binary("eq", self.first_words, 0), RULED_OUT, scores)
        if self.least is not None and self.eos >= 0:
            is_end = g.binary("eq", g.arange(0, scores.shape[1]), self.eos)
            early = g.binary("logical_and", is_end, g.binary("lt", length, self.least))
            scores = g.where(early, RULED_OUT, scores)
        if isinstance(self.temperature, Value):
            scores = g.div(scores, g.where(g.binary("gt", self.temperature, 0.0), self.temperature, 1.0))
        elif self.temperature > 0 and self.temperature != 1.0:
            scores = g.div(scores, self.temperature)
        if self.present is not None and self.presence != 0.0:
            total = g.mul(g.sum(g.cast(self.present, torch.float32), [0, 1]), self.presence)
            row, word = (g.binary("eq", g.arange(0, size), 0) for size in scores.shape)
            first_score = g.binary("logical_and", g.unsqueeze(row, 1), word)
            scores = g.where(first_score, g.sub(scores, total), scores)
        return scores if self.last is None else self.last(g, scores, texts, length)

    def _repeating(self, g: ProgramBuilder, scores: Value, texts: Value, length: Value) -> Value:
        """[R, V]: the words that would complete an n-gram that the text already has."""
        room = texts.shape[1]
        places = g.arange(0, room)
        last = g.size_value(to_dim(room - 1))
        fits = g.binary("le", g.add(places, self.repeated), length)
        matches = g.expand(fits, texts.shape)
        for offset in range(self.repeated - 1):
            given = g.call("aten.index_select.default", texts, 1, g.minimum(g.add(places, offset), last))
            own = g.maximum(g.add(length, offset + 1 - self.repeated), 0)
            now = g.call("aten.index_select.default", texts, 1, g.reshape(own, [1]))
            matches = g.binary("logical_and", matches, g.binary("eq", given, now))
        closing = g.call("aten.index_select.default", texts, 1, g.minimum(g.add(places, self.repeated - 1), last))
        return _hit(g, scores, closing, matches)


def _hit(g: ProgramBuilder, scores: Value, words: Value, counts: Value) -> Value:
    """[R, V]: the words of [R, T] that count."""
    rows = g.expand(g.unsqueeze(g.arange(0, scores.shape[0]), 1), words.shape)
    hits = g.full(scores.shape, 0, torch.int64)
    known = g.where(counts, words, 0)
    hits = g.call("aten.index_put.default", hits, [rows, known], g.cast(counts, torch.int64), True)
    return g.binary("gt", hits, 0)


def scalar(g: ProgramBuilder, value: Value | None, dtype: torch.dtype) -> Value | None:
    """The only number of an input, 0-d."""
    if value is None:
        return None
    for size in value.shape:
        g.require_equal(size, 1, "a parameter of a generation is one number")
    return g.cast(g.reshape(value, []), dtype)


def vocabulary(logits: Value, stated: int) -> int:
    """The number of words that ``logits`` [R, S, V] are of; ``stated`` is the attribute vocab_size.

    Raises:
        Refusal: O2M-C006 for logits of another rank, O2M-C004 where their number is only known at run time, O2M-C003 for
            logits of more words than the vocabulary has.
    """
    if logits.rank != 3:
        raise refuse("O2M-C006", f"logits of rank {logits.rank}, not 3", case="decoder")
    size = logits.shape[2]
    if not isinstance(size, int):
        raise refuse("O2M-C004", "the number of words of the logits is only known at run time", case="decoder")
    if stated > 0 and stated != size:
        raise refuse("O2M-C003", f"logits of {size} words for a vocabulary of {stated}", case="vocab_size")
    return size
