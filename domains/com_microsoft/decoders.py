"""Decoders that are graph attributes of the operators that generate texts, in GPT-2's form.

Inputs input_ids [R, S], position_ids [R, S], attention_mask [R, P + S] (int32) and one past [2, R, heads, P, size] for each
layer; outputs logits [R, S, V] and one present [2, R, heads, P + S, size] for each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import product, to_dim
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import SubGraph
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

PASTS = 3
"""The position of the first past."""


def repeated(g: ProgramBuilder, rows: Value, times: Dim) -> Value:
    """Each of the rows ``times`` times, one after the other."""
    if times == 1:
        return rows
    wide = g.expand(g.unsqueeze(rows, 1), [rows.shape[0], times, *rows.shape[1:]])
    return g.reshape(wide, [product([rows.shape[0], times]), *rows.shape[1:]])


@dataclass(frozen=True)
class Prompt:
    """The words before the first call, for R texts: ``texts`` [R, T] (int64) with room for those to come, which are 0.

    ``steps`` of them are there; ``mask`` [R, T] (int32) is 1 for those to come; ``positions`` [R, S] and ``lengths`` [R] count
    the words that are no padding.
    """

    texts: Value
    steps: Dim
    mask: Value
    positions: Value
    lengths: Value

    @classmethod
    def of(cls, g: ProgramBuilder, ids: Value, mask: Value | None, pad: int, room: Dim, beams: Dim) -> Prompt:
        """The prompt for ``ids`` [B, S], each row ``beams`` times; only padding is masked where there is no ``mask``."""
        steps = ids.shape[1]
        words = g.cast(g.binary("ne", ids, pad), torch.int64)
        counted = g.sub(g.call("aten.cumsum.default", words, 1, dtype=torch.int64), 1)
        positions = g.where(g.binary("gt", words, 0), counted, 0)
        seen = g.cast(words if mask is None else mask, torch.int32)
        more = to_dim(room - steps)
        return cls(
            repeated(g, g.pad(g.cast(ids, torch.int64), [0, 0], [0, more]), beams),
            steps,
            repeated(g, g.pad(seen, [0, 0], [0, more], 1), beams),
            repeated(g, positions, beams),
            repeated(g, g.sum(words, [1]), beams),
        )


@dataclass(frozen=True)
class Decoder:
    """The graphs of the first call and of the further ones, and the sizes of the pasts: heads and size of a head."""

    first: SubGraph
    graph: SubGraph
    dtype: torch.dtype
    heads: int
    size: int

    @classmethod
    def of(cls, decoder: SubGraph, init_decoder: SubGraph | None) -> Decoder:
        """The decoder of two graph attributes.

        Raises:
            Refusal: O2M-C003 for a graph that shares a buffer between past and present, O2M-C005 for one of another form.
        """
        graphs = [decoder, init_decoder or decoder]
        for graph in graphs:
            names = [formal.name for formal in graph.formals]
            if "past_sequence_length" in names:
                reason = "a decoder whose past and present share a buffer"
                raise refuse("O2M-C003", reason, case="past_sequence_length")
            if names[:PASTS] != ["input_ids", "position_ids", "attention_mask"] or len(names) != graph.outputs + PASTS - 1:
                raise refuse("O2M-C005", f"a decoder with the inputs {', '.join(names)} is not of GPT-2's form", case="decoder")
        past = decoder.formals[PASTS]
        sizes = past.shape or ()
        if len(sizes) != 5 or not isinstance(sizes[2], int) or not isinstance(sizes[4], int) or past.dtype is None:
            raise refuse("O2M-C005", f"{past.name} does not declare heads and size of a head", case="decoder")
        return cls(graphs[1], decoder, past.dtype, sizes[2], sizes[4])

    @property
    def layers(self) -> int:
        """Number of pasts."""
        return self.graph.arity - PASTS


@dataclass(frozen=True)
class Gpt:
    """A decoder and the prompt that it goes on with."""

    decoder: Decoder
    prompt: Prompt

    def start(self, g: ProgramBuilder) -> tuple[Value, list[Value]]:
        """The logits [R, V] after the prompt, and the presents."""
        prompt, decoder = self.prompt, self.decoder
        rows, steps = prompt.texts.shape[0], prompt.steps
        ids = g.cast(g.slice(prompt.texts, 1, 0, steps), torch.int32)
        mask = g.slice(prompt.mask, 1, 0, steps)
        empty = g.full([2, rows, decoder.heads, 0, decoder.size], 0, decoder.dtype)
        inputs = [ids, g.cast(prompt.positions, torch.int32), mask, *[empty] * decoder.layers]
        return last_logits(g, decoder.first(g, inputs))

    def step(self, g: ProgramBuilder, texts: Value, length: Value, pasts: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The logits [R, V] after the first ``length`` (0-d) words of ``texts`` [R, T], and the presents."""
        decoder, rows = self.decoder, texts.shape[0]
        before = g.item(g.sub(length, 1))
        word = g.call("aten.index_select.default", texts, 1, g.reshape(g.sub(length, 1), [1]))
        seen = g.call("aten.index_select.default", self.prompt.mask, 1, g.arange(0, to_dim(before + 1)))
        more = g.sub(g.sub(length, 1), g.size_value(self.prompt.steps))
        positions = g.unsqueeze(g.add(self.prompt.lengths, more), 1)
        pasts = [fitting(g, past, [2, rows, decoder.heads, before, decoder.size]) for past in pasts]
        inputs = [g.cast(word, torch.int32), g.cast(positions, torch.int32), seen, *pasts]
        return last_logits(g, decoder.graph(g, inputs))

    def picked(self, g: ProgramBuilder, presents: Sequence[Value], rows: Value) -> list[Value]:
        """The presents of the texts that are gone on with."""
        return [g.call("aten.index_select.default", present, 1, rows) for present in presents]

    def past_types(self, g: ProgramBuilder) -> list[TensorType]:
        """The pasts at the start of a turn of a loop."""
        decoder, rows = self.decoder, self.prompt.texts.shape[0]
        return [
            TensorType(decoder.dtype, (2, rows, decoder.heads, g.table.new_symbol("steps of the past"), decoder.size))
            for _ in range(decoder.layers)
        ]


def fitting(g: ProgramBuilder, past: Value, shape: Sequence[Dim]) -> Value:
    """A past that has ``shape``, which a loop does not know, and which is asserted."""
    for have, want in zip(past.shape, shape, strict=True):
        g.require_equal(have, want, "sizes of the past")
    return g.reshape(past, shape)


def last_logits(g: ProgramBuilder, outputs: Sequence[Value]) -> tuple[Value, list[Value]]:
    """The scores of the words after the last one of logits [R, S, V], in float32, and the other outputs."""
    logits, *presents = outputs
    if logits.rank != 3:
        raise refuse("O2M-C006", f"logits of rank {logits.rank}, not 3", case="decoder")
    return g.cast(g.select(logits, 1, to_dim(logits.shape[1] - 1)), torch.float32), presents
