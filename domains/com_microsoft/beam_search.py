"""BeamSearch: of each text the M best continuations so far are kept, and the best of those that have ended come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import SubGraph, while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.beams import Beams, Search
from onnx2torch_mlir.domains.com_microsoft.decoders import Decoder, Gpt, Prompt, repeated
from onnx2torch_mlir.domains.com_microsoft.encoder_decoders import EncoderDecoder, left_padding
from onnx2torch_mlir.domains.com_microsoft.next_words import Rules, scalar, vocabulary

STATE = 8
"""Number of tensors of `Beams`."""


class Model(Protocol):
    """What goes on with texts: graphs, and what they see beside the texts."""

    def start(self, g: ProgramBuilder) -> tuple[Value, list[Value]]:
        """The logits [R, V] of the first word, and the presents."""

    def step(self, g: ProgramBuilder, texts: Value, length: Value, pasts: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The logits [R, V] after the first ``length`` (0-d) words of ``texts`` [R, T], and the presents."""

    def picked(self, g: ProgramBuilder, presents: Sequence[Value], rows: Value) -> list[Value]:
        """The presents of the texts that are gone on with."""

    def past_types(self, g: ProgramBuilder) -> list[TensorType]:
        """The pasts at the start of a turn of a loop."""


def beam_search(
    g: ProgramBuilder,
    input_ids: Value,
    max_length: Size,
    min_length: Value | None,
    num_beams: Size,
    num_return_sequences: Size,
    length_penalty: Value | None = None,
    repetition_penalty: Value | None = None,
    vocab_mask: Value | None = None,
    prefix_vocab_mask: Value | None = None,
    attention_mask: Value | None = None,
    *,
    decoder: SubGraph,
    eos_token_id: int,
    pad_token_id: int,
    encoder: SubGraph | None = None,
    init_decoder: SubGraph | None = None,
    decoder_start_token_id: int = -1,
    early_stopping: int = 0,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    vocab_size: int = -1,
    wanted: tuple[bool, ...] = (True,),
) -> tuple[Value, Value, Value | None]:
    """Texts [B, R, max_length] (int32) that begin with ``input_ids`` [B, S], or in T5's form with the start word (S = 1), and
    are padded after their end; their scores [B, R]; and the scores of all words at each step [max_length - S, B, M, V], which
    are 0 after the last step.

    Raises:
        Refusal: O2M-C003 for a decoder of neither GPT-2's nor T5's form, O2M-C006 for ranks that do not fit.
    """
    if model_type not in (0, 1):
        raise refuse("O2M-C003", "beams of a decoder of neither GPT-2's nor T5's form", case="model_type")
    if input_ids.rank != 2:
        raise refuse("O2M-C006", f"ids of rank {input_ids.rank}, not 2", case="input_ids")
    batch = input_ids.shape[0]
    steps = 1 if model_type else input_ids.shape[1]
    search = searched(
        g, batch, steps, max_length, num_beams, num_return_sequences, length_penalty, eos_token_id, pad_token_id, early_stopping
    )
    room, beams = search.room, search.beams
    rules = Rules(
        eos_token_id,
        scalar(g, repetition_penalty, torch.float32),
        no_repeat_ngram_size,
        vocab_mask,
        None if prefix_vocab_mask is None else repeated(g, prefix_vocab_mask, beams),
        scalar(g, min_length, torch.int64),
    )
    model: Model
    if model_type == 0:
        prompt = Prompt.of(g, input_ids, attention_mask, pad_token_id, room, beams)
        model, texts = Gpt(Decoder.of(decoder, init_decoder), prompt), prompt.texts
    else:
        first = g.full([batch, 1], decoder_start_token_id, torch.int32)
        texts = with_room(g, first, search)
        mask = left_padding(g, input_ids, pad_token_id) if attention_mask is None else attention_mask
        model = EncoderDecoder.of(g, encoder, decoder, input_ids, mask, first, beams)
    keeps_scores = len(wanted) > 2 and wanted[2]
    return best_texts(g, model, search, rules, texts, steps, vocab_size, keeps_scores)


def searched(
    g: ProgramBuilder,
    batch: Dim,
    steps: Dim,
    max_length: Dim,
    num_beams: Dim,
    num_return_sequences: Dim,
    length_penalty: Value | None,
    eos: int,
    pad: int,
    early_stopping: int,
) -> Search:
    """What stays the same in a search, for texts of ``steps`` words at first."""
    room, beams, count = g.as_size(max_length), g.as_size(num_beams), g.as_size(num_return_sequences)
    _require_more(g, room, steps, "max_length has to be more than the words given")
    _require_more(g, to_dim(beams + 1), count, "num_return_sequences is at most num_beams")
    penalty = scalar(g, length_penalty, torch.float32)
    if penalty is None:
        penalty = g.known(torch.tensor(1.0), torch.float32)
    return Search(batch, beams, room, eos, pad, penalty, early_stopping == 1, count)


def with_room(g: ProgramBuilder, words: Value, search: Search) -> Value:
    """The texts [R, T] (int64) that begin with the words [B, S], for each beam."""
    wide = g.pad(g.cast(words, torch.int64), [0, 0], [0, to_dim(search.room - words.shape[1])])
    return repeated(g, wide, search.beams)


def best_texts(
    g: ProgramBuilder,
    model: Model,
    search: Search,
    rules: Rules,
    texts: Value,
    steps: Dim,
    vocab_size: int,
    keeps_scores: bool,
) -> tuple[Value, Value, Value | None]:
    """The texts that come out, their scores, and the scores of all words at each step if they are wanted."""
    batch, beams = search.batch, search.beams

    def scored(b: ProgramBuilder, logits: Value, now: Beams, *, first: bool) -> Value:
        """The scores [B*M, V] of the texts with each word."""
        scores = b.call("aten._log_softmax.default", logits, 1, False)
        scores = rules.apply(b, scores, now.texts, now.length, first=first)
        return b.add(scores, b.unsqueeze(now.scores, 1))

    def kept(b: ProgramBuilder, before: list[Value], length: Value, scores: Value) -> list[Value]:
        if not keeps_scores:
            return []
        place = b.reshape(b.sub(length, b.size_value(steps)), [1])
        row = b.reshape(scores, [1, batch, beams, scores.shape[1]])
        return [b.call("aten.index_put.default", before[0], [place], row)]

    def go_on(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        return [Beams.of(state).go_on(b, search)]

    def turn(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        now, rest = Beams.of(state), state[STATE:]
        before, pasts = rest[: int(keeps_scores)], rest[int(keeps_scores) :]
        with b.turn(now.length):
            logits, presents = model.step(b, now.texts, now.length, pasts)
        scores = scored(b, logits, now, first=False)
        later, rows = now.next(b, search, scores)
        return [*later.parts(), *kept(b, before, now.length, scores), *model.picked(b, presents, rows)]

    logits, presents = model.start(g)
    words = vocabulary(g.unsqueeze(logits, 1), vocab_size)
    now = Beams.start(g, search, texts, g.size_value(steps))
    scores = scored(g, logits, now, first=True)
    none = [g.full([to_dim(search.room - steps), batch, beams, words], 0, torch.float32)] if keeps_scores else []
    later, rows = now.next(g, search, scores)
    fixed = [*later.parts(), *kept(g, none, now.length, scores)]
    kinds = [TensorType(value.dtype, value.shape, value.element) for value in fixed]
    types, results = ([*kinds, *model.past_types(g)] for _ in range(2))
    last = while_loop(g, go_on, turn, [*fixed, *model.picked(g, presents, rows)], types, results)
    chosen, best = Beams.of(last).results(g, search)
    return chosen, best, last[STATE] if keeps_scores else None


def _require_more(g: ProgramBuilder, more: Dim, less: Dim, message: str) -> None:
    g.require(sympy.Gt(sympy.sympify(more), sympy.sympify(less)), message)
