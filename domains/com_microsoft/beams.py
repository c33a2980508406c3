"""Beams: the texts that a beam search goes on with, and the best ones that have ended.

Source: the description of BeamSearch in https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md and
onnxruntime's beam_search_scorer.cc, which follows transformers' BeamSearchScorer. Its loops over candidates are sorts here:
of equal scores the first candidate comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import product, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.domains.com_microsoft.next_words import RULED_OUT

UNLIKELY = -1e9
"""The score of all beams of a text but the first, before the first word: they are all the same."""


@dataclass(frozen=True)
class Search:
    """What stays the same: B texts of M beams with room for T words, what divides scores by length, when to stop, and how many
    texts come out.
    """

    batch: Dim
    beams: Dim
    room: Dim
    eos: int
    pad: int
    penalty: Value
    stops_early: bool
    count: Dim

    @property
    def rows(self) -> Dim:
        """Number of beams of all texts."""
        return to_dim(product([self.batch, self.beams]))

    def divided(self, g: ProgramBuilder, scores: Value, length: Value) -> Value:
        """Scores of texts of ``length`` (0-d) words, for comparison with others."""
        return g.div(scores, g.binary("pow", g.cast(length, torch.float32), self.penalty))

    def first_of(self, g: ProgramBuilder, texts: Value) -> Value:
        """[B, 1]: the number of the first beam of each text, among those of all."""
        return g.unsqueeze(g.mul(g.arange(0, self.batch), g.size_value(self.beams)), 1)


@dataclass(frozen=True)
class Ended:
    """The best texts that have ended: their scores [B, M], words [B, M, T] and lengths [B, M], and how many there are [B].

    The scores fall; that of a text that is not there is -inf.
    """

    scores: Value
    texts: Value
    lengths: Value
    count: Value

    @classmethod
    def none(cls, g: ProgramBuilder, search: Search) -> Ended:
        """Before the first one."""
        both = [search.batch, search.beams]
        return cls(
            g.full(both, float("-inf"), torch.float32),
            g.full([*both, search.room], 0, torch.int64),
            g.full(both, 0, torch.int64),
            g.full([search.batch], 0, torch.int64),
        )

    def parts(self) -> list[Value]:
        """The tensors, in order."""
        return [self.scores, self.texts, self.lengths, self.count]

    def with_more(self, g: ProgramBuilder, search: Search, scores: Value, texts: Value, length: Value, which: Value) -> Ended:
        """The best of these and of ``texts`` [B, M, T] of ``length`` words, with ``scores`` [B, M], where ``which`` [B, M]."""
        batch, beams, room = search.batch, search.beams, search.room
        new = g.where(which, g.maximum(scores, RULED_OUT), float("-inf"))
        _, order = g.call("aten.sort.stable", g.cat([self.scores, new], 1), stable=True, dim=1, descending=True)
        best = _columns(g, order, beams)
        twice = to_dim(2 * beams)
        starts = g.unsqueeze(g.mul(g.arange(0, batch), g.size_value(twice)), 1)
        rows = g.reshape(g.add(starts, best), [search.rows])
        all_texts = g.reshape(g.cat([self.texts, texts], 1), [product([batch, twice]), room])
        lengths = g.cat([self.lengths, g.expand(g.reshape(length, [1, 1]), [batch, beams])], 1)
        count = g.add(self.count, g.sum(g.cast(which, torch.int64), [1]))
        return Ended(
            g.call("aten.gather.default", g.cat([self.scores, new], 1), 1, best),
            g.reshape(g.call("aten.index_select.default", all_texts, 0, rows), [batch, beams, room]),
            g.call("aten.gather.default", lengths, 1, best),
            g.minimum(count, g.size_value(beams)),
        )


@dataclass(frozen=True)
class Beams:
    """The state between two words: ``length`` (0-d) words of ``texts`` [B*M, T], their scores [B*M], the texts that have ended,
    and which of the B searches are done.
    """

    length: Value
    texts: Value
    scores: Value
    done: Value
    ended: Ended

    @classmethod
    def start(cls, g: ProgramBuilder, search: Search, texts: Value, length: Value) -> Beams:
        """Before the first word."""
        own = g.where(g.binary("eq", g.arange(0, search.beams), 0), 0.0, g.known(torch.tensor(UNLIKELY), torch.float32))
        scores = g.reshape(g.expand(g.unsqueeze(own, 0), [search.batch, search.beams]), [search.rows])
        return cls(length, texts, scores, g.full([search.batch], False, torch.bool), Ended.none(g, search))

    def parts(self) -> list[Value]:
        """The tensors, in order."""
        return [self.length, self.texts, self.scores, self.done, *self.ended.parts()]

    @classmethod
    def of(cls, parts: list[Value]) -> Beams:
        """From its tensors."""
        length, texts, scores, done, *ended = parts[:8]
        return cls(length, texts, scores, done, Ended(*ended))

    def go_on(self, g: ProgramBuilder, search: Search) -> Value:
        """Whether there is room for a word, and a search that is not done (0-d bool)."""
        left = g.sum(g.cast(g.unary("logical_not", self.done), torch.int64), [0])
        return g.binary("logical_and", g.binary("gt", left, 0), g.binary("lt", self.length, g.size_value(search.room)))

    def next(self, g: ProgramBuilder, search: Search, scores: Value) -> tuple[Beams, Value]:
        """The beams with one word more, for the scores [B*M, V] of the texts with each word; and which beams [B*M] they go on.

        The candidates are the 2 M best; those that end a text count if they are among the M best.
        """
        batch, beams, words = search.batch, search.beams, scores.shape[1]
        flat = g.reshape(scores, [batch, product([beams, words])])
        values, order = g.call("aten.sort.stable", flat, stable=True, dim=1, descending=True)
        twice = to_dim(2 * beams)
        score, index = _columns(g, values, twice), _columns(g, order, twice)
        width = g.size_value(words)
        beam, word = g.floor_div(index, width), g.binary("remainder", index, width)
        row = g.add(search.first_of(g, self.texts), beam)
        ends = g.binary("eq", word, search.eos)
        done = g.unsqueeze(self.done, 1)
        open_ = g.unary("logical_not", done)

        texts = g.call("aten.index_select.default", self.texts, 0, g.reshape(_columns(g, row, beams), [search.rows]))
        which = g.binary("logical_and", _columns(g, ends, beams), g.expand(open_, [batch, beams]))
        divided = search.divided(g, _columns(g, score, beams), self.length)
        ended = self.ended.with_more(g, search, divided, g.reshape(texts, [batch, beams, search.room]), self.length, which)

        place = g.arange(0, twice)
        rank = g.where(ends, g.add(place, g.size_value(twice)), g.expand(g.unsqueeze(place, 0), ends.shape))
        chosen = _columns(g, g.call("aten.sort.stable", rank, stable=True, dim=1)[1], beams)
        score_, word_, row_ = (g.call("aten.gather.default", item, 1, chosen) for item in (score, word, row))
        next_scores = g.reshape(g.where(done, 0.0, score_), [search.rows])
        next_words = g.reshape(g.where(done, search.pad, word_), [search.rows, 1])
        next_rows = g.reshape(g.where(done, 0, row_), [search.rows])

        finished = g.binary("ge", ended.count, g.size_value(beams))
        if not search.stops_early:
            finished = g.binary("logical_and", finished, g.unary("logical_not", self._can_improve(g, search, score, ended)))
        longer = g.call("aten.index_select.default", self.texts, 0, next_rows)
        longer = g.where(g.binary("eq", g.arange(0, search.room), self.length), next_words, longer)
        done_ = g.binary("logical_or", self.done, finished)
        return Beams(g.add(self.length, 1), longer, next_scores, done_, ended), next_rows

    def _can_improve(self, g: ProgramBuilder, search: Search, score: Value, ended: Ended) -> Value:
        """[B]: whether the best candidate is better than the worst text that has ended.

        As in onnxruntime the 2 M candidates looked at are those that begin at number b M of all, not at 2 b M.
        """
        twice = to_dim(2 * search.beams)
        index = g.add(search.first_of(g, self.texts), g.arange(0, twice))
        count = to_dim(product([search.batch, twice]))
        flat = g.call("aten.index_select.default", g.reshape(score, [count]), 0, g.reshape(index, [count]))
        best = g.amax(g.reshape(flat, [search.batch, twice]), [1])
        worst = g.reshape(g.slice(ended.scores, 1, to_dim(search.beams - 1), search.beams), [search.batch])
        return g.binary("lt", worst, search.divided(g, best, self.length))

    def results(self, g: ProgramBuilder, search: Search) -> tuple[Value, Value]:
        """The best texts [B, count, T] (int32), padded, and their scores [B, count]."""
        batch, beams = search.batch, search.beams
        scores = g.reshape(self.scores, [batch, beams])
        open_ = g.expand(g.unsqueeze(g.unary("logical_not", self.done), 1), [batch, beams])
        texts = g.reshape(self.texts, [batch, beams, search.room])
        ended = self.ended.with_more(g, search, search.divided(g, scores, self.length), texts, self.length, open_)
        inside = g.binary("lt", g.arange(0, search.room), g.unsqueeze(ended.lengths, 2))
        padded = g.cast(g.where(inside, ended.texts, search.pad), torch.int32)
        return _columns(g, padded, search.count), _columns(g, ended.scores, search.count)


def _columns(g: ProgramBuilder, x: Value, count: Dim) -> Value:
    """The first ``count`` along the second axis."""
    result: Value = g.call("aten.index_select.default", x, 1, g.arange(0, count))
    return result
