"""Encoders and decoders that are graph attributes of BeamSearch and WhisperBeamSearch, in T5's and Whisper's forms.

The encoder takes encoder_input_ids and encoder_attention_mask [B, S]. It gives for each layer the keys and values
[B, heads, S, size] that the decoder sees of the texts (all keys and values are pairs, key first); in an older form it takes
decoder_input_ids [B, 1] too, and gives the logits of the first word, its hidden states, and the decoder's own keys and values
before them. The decoder takes input_ids [R, 1] (all words so far where it declares another size), the mask, in an older form
the hidden states, its own pasts [R, heads, P, size] and those of the encoder; it gives logits and its own presents. Whisper's
form is the older one, with features instead of ids, no mask, and any number of first words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import SubGraph
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.decoders import fitting, last_logits, repeated


def left_padding(g: ProgramBuilder, ids: Value, pad: int) -> Value:
    """A mask [B, S] (int32) that is 0 for the padding before the first word only."""
    words = g.cast(g.binary("ne", ids, pad), torch.int64)
    return g.cast(g.binary("gt", g.call("aten.cumsum.default", words, 1, dtype=torch.int64), 0), torch.int32)


@dataclass(frozen=True)
class EncoderDecoder:
    """The decoder, what it sees of the encoder (for each beam), and the start: ``logits`` and own keys and values of the first
    word (for each text, to be repeated ``beams`` times) in the older form of the encoder, else ``start`` [R, 1] alone.
    """

    graph: SubGraph
    seen: tuple[Value, ...]
    others: tuple[Value, ...]
    beams: Dim
    start_word: Value
    logits: Value | None
    own: tuple[Value, ...]
    dtype: torch.dtype
    heads: int
    size: int

    @classmethod
    def of(
        cls,
        g: ProgramBuilder,
        encoder: SubGraph | None,
        decoder: SubGraph,
        given: Value,
        mask: Value | None,
        first_words: Value,
        beams: Dim,
    ) -> EncoderDecoder:
        """The decoder, and the encoder's results for what is ``given`` of each text, and for ``first_words`` [B, S] (int32).

        Raises:
            Refusal: O2M-C003 for a decoder whose past and present share a buffer, O2M-C005 for graphs of another form.
        """
        names = [formal.name for formal in decoder.formals]
        if "past_sequence_length" in names:
            raise refuse("O2M-C003", "a decoder whose past and present share a buffer", case="past_sequence_length")
        inputs = [given] if mask is None else [given, g.cast(mask, torch.int32)]
        hidden = "encoder_hidden_states" in names
        first = len(inputs) + hidden
        layers = (len(names) - first) // 4
        begin = ["input_ids", "encoder_attention_mask"][: len(inputs)]
        fits = names[: len(inputs)] == begin and len(names) == first + 4 * layers and layers > 0
        if encoder is None or not fits or decoder.outputs != 1 + 2 * layers:
            reason = f"a decoder with the inputs {', '.join(names)}, or its encoder, is of no known form"
            raise refuse("O2M-C005", reason, case="decoder")
        past = decoder.formals[first]
        sizes = past.shape or ()
        if len(sizes) != 4 or not isinstance(sizes[1], int) or not isinstance(sizes[3], int) or past.dtype is None:
            raise refuse("O2M-C005", f"{past.name} does not declare heads and size of a head", case="decoder")
        older = encoder.arity == len(inputs) + 1
        if encoder.outputs != (2 + 4 * layers if older else 2 * layers) or (not older and (hidden or mask is None)):
            raise refuse("O2M-C005", f"an encoder with {encoder.outputs} outputs is of no known form", case="encoder")
        results = encoder(g, [*inputs, first_words] if older else inputs)
        own, others = (results[2 : 2 + 2 * layers], results[2 + 2 * layers :]) if older else ([], results)
        seen = [*inputs[1:], *([results[1]] if hidden else [])]
        return cls(
            decoder,
            tuple(repeated(g, value, beams) for value in seen),
            tuple(repeated(g, value, beams) for value in others),
            beams,
            repeated(g, first_words, beams),
            results[0] if older else None,
            tuple(own),
            past.dtype,
            sizes[1],
            sizes[3],
        )

    def start(self, g: ProgramBuilder) -> tuple[Value, list[Value]]:
        """The logits [R, V] of the first word, and the presents."""
        if self.logits is None:
            rows = self.start_word.shape[0]
            empty = g.full([rows, self.heads, 0, self.size], 0, self.dtype)
            own = [empty] * ((self.graph.arity - len(self.seen) - 1) // 2)
            return last_logits(g, self.graph(g, [self.start_word, *self.seen, *own, *self.others]))
        logits, presents = last_logits(g, [self.logits, *self.own])
        return repeated(g, logits, self.beams), [repeated(g, present, self.beams) for present in presents]

    def step(self, g: ProgramBuilder, texts: Value, length: Value, pasts: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The logits [R, V] after the first ``length`` (0-d) words of ``texts`` [R, T], and the presents."""
        rows = texts.shape[0]
        before = g.item(g.sub(length, 1))
        declared = self.graph.formals[0].shape
        one = declared is not None and len(declared) == 2 and declared[1] == 1
        places = g.reshape(g.sub(length, 1), [1]) if one else g.arange(0, g.item(length))
        words = g.cast(g.call("aten.index_select.default", texts, 1, places), torch.int32)
        own = [fitting(g, past, [rows, self.heads, before, self.size]) for past in pasts]
        return last_logits(g, self.graph(g, [words, *self.seen, *own, *self.others]))

    def picked(self, g: ProgramBuilder, presents: Sequence[Value], rows: Value) -> list[Value]:
        """The presents of the texts that are gone on with."""
        return [g.call("aten.index_select.default", present, 0, rows) for present in presents]

    def past_types(self, g: ProgramBuilder) -> list[TensorType]:
        """The pasts at the start of a turn of a loop."""
        rows, count = self.start_word.shape[0], (self.graph.arity - len(self.seen) - 1) // 2
        steps = [g.table.new_symbol("steps of the past") for _ in range(count)]
        return [TensorType(self.dtype, (rows, self.heads, step, self.size)) for step in steps]
