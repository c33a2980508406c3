"""BeamSearch: of each text the M best continuations so far are kept, and the best of those that have ended come out."""

from __future__ import annotations

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
from onnx2torch_mlir.domains.com_microsoft.decoders import Decoder, Prompt, repeated
from onnx2torch_mlir.domains.com_microsoft.next_words import Rules, scalar, vocabulary

STATE = 8
"""Number of tensors of `Beams`."""


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
    init_decoder: SubGraph | None = None,
    early_stopping: int = 0,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    vocab_size: int = -1,
    wanted: tuple[bool, ...] = (True,),
) -> tuple[Value, Value, Value | None]:
    """Texts [B, R, max_length] (int32) that begin with ``input_ids`` [B, S], padded after their end; their scores [B, R]; and
    the scores of all words at each step [max_length - S, B, M, V], 0 after the last one.

    Raises:
        Refusal: O2M-C003 for a decoder that is not of GPT-2's form.
    """
    if model_type != 0:
        raise refuse("O2M-C003", "beams of a decoder that is not of GPT-2's form", case="model_type")
    if input_ids.rank != 2:
        raise refuse("O2M-C006", f"ids of rank {input_ids.rank}, not 2", case="input_ids")
    batch, steps = input_ids.shape
    room, beams, count = g.as_size(max_length), g.as_size(num_beams), g.as_size(num_return_sequences)
    _require_more(g, room, steps, "max_length has to be more than the words given")
    _require_more(g, to_dim(beams + 1), count, "num_return_sequences is at most num_beams")
    penalty = scalar(g, length_penalty, torch.float32)
    search = Search(
        batch,
        beams,
        room,
        eos_token_id,
        pad_token_id,
        g.known(torch.tensor(1.0), torch.float32) if penalty is None else penalty,
        bool(early_stopping),
    )
    rules = Rules(
        eos_token_id,
        scalar(g, repetition_penalty, torch.float32),
        no_repeat_ngram_size,
        vocab_mask,
        None if prefix_vocab_mask is None else repeated(g, prefix_vocab_mask, beams),
        scalar(g, min_length, torch.int64),
    )
    graphs = Decoder.of(decoder, init_decoder)
    prompt = Prompt.of(g, input_ids, attention_mask, pad_token_id, room, beams)
    keeps_scores = len(wanted) > 2 and wanted[2]

    def scored(b: ProgramBuilder, logits: Value, now: Beams, *, first: bool) -> Value:
        """The scores [B*M, V] of the texts with each word."""
        scores = b.call("aten._log_softmax.default", logits, 1, False)
        scores = rules.apply(b, scores, now.texts, now.length, first=first)
        return b.add(scores, b.unsqueeze(now.scores, 1))

    def kept(b: ProgramBuilder, before: list[Value], length: Value, scores: Value) -> list[Value]:
        """The scores of all steps, if they are wanted."""
        if not keeps_scores:
            return []
        place = b.reshape(b.sub(length, b.size_value(steps)), [1])
        row = b.reshape(scores, [1, batch, beams, scores.shape[1]])
        return [b.call("aten.index_put.default", before[0], [place], row)]

    def go_on(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        return [Beams.of(state).go_on(b, search)]

    def turn(b: ProgramBuilder, state: list[Value]) -> list[Value]:
        now, positions, rest = Beams.of(state), state[STATE], state[STATE + 1 :]
        before, pasts = rest[: int(keeps_scores)], rest[int(keeps_scores) :]
        with b.turn(now.length):
            last = b.reshape(b.sub(now.length, 1), [1])
            word = b.reshape(b.call("aten.index_select.default", now.texts, 1, last), [search.rows])
            logits, presents = graphs.step(b, word, positions, prompt.mask, now.length, pasts)
        scores = scored(b, logits, now, first=False)
        later, rows = now.next(b, search, scores)
        picked = graphs.picked(b, presents, rows)
        return [*later.parts(), b.add(positions, 1), *kept(b, before, now.length, scores), *picked]

    logits, presents = graphs.start(g, prompt)
    words = vocabulary(g.unsqueeze(logits, 1), vocab_size)
    now = Beams.start(g, search, prompt.texts, g.size_value(steps))
    scores = scored(g, logits, now, first=True)
    none = [g.full([to_dim(room - steps), batch, beams, words], 0, torch.float32)] if keeps_scores else []
    all_scores = kept(g, none, now.length, scores)
    later, rows = now.next(g, search, scores)
    fixed = [*later.parts(), prompt.lengths, *all_scores]
    state = [*fixed, *graphs.picked(g, presents, rows)]
    types, results = (
        [*(TensorType(value.dtype, value.shape, value.element) for value in fixed), *graphs.past_types(g, search.rows)]
        for _ in range(2)
    )
    last = while_loop(g, go_on, turn, state, types, results)
    texts, best = Beams.of(last).results(g, search, count)
    return texts, best, last[STATE + 1] if keeps_scores else None


def _require_more(g: ProgramBuilder, more: Dim, less: Dim, message: str) -> None:
    g.require(sympy.Gt(sympy.sympify(more), sympy.sympify(less)), message)
