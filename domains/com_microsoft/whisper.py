"""WhisperBeamSearch: a beam search over what is said in a recording, with rules of its own for marks of time."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.subprograms import SubGraph
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.beam_search import best_texts, searched, with_room
from onnx2torch_mlir.domains.com_microsoft.decoders import repeated
from onnx2torch_mlir.domains.com_microsoft.encoder_decoders import EncoderDecoder
from onnx2torch_mlir.domains.com_microsoft.next_words import RULED_OUT, Rules, scalar

LATEST_BEGIN = 50
"""The first mark of a text is at most so many after the earliest one."""


def whisper_beam_search(
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
    decoder_input_ids: Value | None = None,
    logits_processor: Value | None = None,
    cross_qk_layer_head: Value | None = None,
    extra_decoding_ids: Value | None = None,
    temperature: Value | None = None,
    *,
    decoder: SubGraph,
    eos_token_id: int,
    pad_token_id: int,
    encoder: SubGraph | None = None,
    decoder_start_token_id: int = -1,
    early_stopping: int = 0,
    no_repeat_ngram_size: int = 0,
    vocab_size: int = -1,
    beginning_timestamp_token_id: int = -1,
    no_timestamps_token_id: int = -1,
    start_of_lm_token_id: int = -1,
    transcribe_token_id: int = -1,
    translate_token_id: int = -1,
    wanted: tuple[bool, ...] = (True,),
) -> tuple[Value, Value, Value | None]:
    """Texts [B, R, max_length] (int32) for features ``input_ids`` [B, F, S]; their scores [B, R]; and the scores of all words
    at each step. They begin with ``decoder_input_ids`` [B, W], or with the start word.

    ``logits_processor`` 1 asks for the rules of `Marks`. As on onnxruntime's CPU, ``attention_mask``, ``cross_qk_layer_head``
    and ``extra_decoding_ids`` have no effect.

    Raises:
        Refusal: O2M-C003 where attentions or probabilities of silence are asked for, O2M-C005 for graphs of another form.
    """
    if any(wanted[3:]):
        raise refuse("O2M-C003", "onnxruntime gives cross_qk and non_speech_probs with CUDA only", case="outputs")
    batch = input_ids.shape[0]
    words = decoder_input_ids
    if words is None:
        words = g.full([batch, 1], decoder_start_token_id, torch.int32)
    steps = words.shape[1]
    search = searched(
        g, batch, steps, max_length, num_beams, num_return_sequences, length_penalty, eos_token_id, pad_token_id, early_stopping
    )
    wants_marks = scalar(g, logits_processor, torch.int64)
    marks = None
    if wants_marks is not None:
        ruled_out = (decoder_start_token_id, translate_token_id, transcribe_token_id)
        never = (no_timestamps_token_id, start_of_lm_token_id)
        if beginning_timestamp_token_id < 1:
            raise refuse("O2M-C005", "rules for marks of time without the first of them", case="beginning_timestamp_token_id")
        marks = Marks(wants_marks, eos_token_id, beginning_timestamp_token_id, never, ruled_out)
    heat = scalar(g, temperature, torch.float32)
    rules = Rules(
        eos_token_id,
        scalar(g, repetition_penalty, torch.float32),
        no_repeat_ngram_size,
        vocab_mask,
        None if prefix_vocab_mask is None else repeated(g, prefix_vocab_mask, search.beams),
        scalar(g, min_length, torch.int64),
        1.0 if heat is None else heat,
        last=None if marks is None else marks.apply,
    )
    model = EncoderDecoder.of(g, encoder, decoder, input_ids, None, words, search.beams)
    keeps_scores = len(wanted) > 2 and wanted[2]
    return best_texts(g, model, search, rules, with_room(g, words, search), steps, vocab_size, keeps_scores)


@dataclass(frozen=True)
class Marks:
    """The rules for marks of time, the words from ``begin`` on: they come in pairs and do not fall.

    They hold where ``wanted`` (0-d) is 1. The words ``never`` do not come, and those ``later`` only before the first mark.
    """

    wanted: Value
    eos: int
    begin: int
    never: tuple[int, ...]
    later: tuple[int, ...]

    def apply(self, g: ProgramBuilder, scores: Value, texts: Value, length: Value) -> Value:
        """The scores [R, V] by these rules; of ``texts`` [R, T] the first ``length`` (0-d) words are there.

        Raises:
            Refusal: O2M-C005 where the marks are no words.
        """
        if self.begin >= scores.shape[1]:
            raise refuse("O2M-C005", f"word {self.begin} of {scores.shape[1]}", case="beginning_timestamp_token_id")
        places = g.arange(0, texts.shape[1])
        is_mark = g.binary("logical_and", g.binary("ge", texts, self.begin), g.binary("lt", places, length))
        end = g.sub(length, 1)
        first = g.add(g.minimum(g.amin(g.where(is_mark, places, end), [1], True), end), 1)
        begun = g.binary("lt", first, length)
        word = g.unsqueeze(g.arange(0, scores.shape[1]), 0)
        marks = g.binary("ge", word, self.begin)

        last = g.binary("ge", self._word(g, texts, end), self.begin)
        before = self._word(g, texts, g.maximum(g.sub(length, 2), 0))
        paired = g.binary("logical_or", g.unary("logical_not", begun), g.binary("ge", before, self.begin))
        single = g.binary("logical_and", last, g.unary("logical_not", paired))
        newest = g.amax(g.where(is_mark, places, -1), [1], True)
        mark = g.call("aten.gather.default", texts, 1, g.maximum(newest, 0))
        least = g.where(single, mark, g.add(mark, 1))

        out = [
            self._any(g, word, self.never),
            g.binary("logical_and", begun, self._any(g, word, self.later)),
            g.binary("logical_and", g.binary("logical_and", last, paired), marks),
            g.binary("logical_and", single, g.binary("lt", word, self.eos)),
            self._all(g, g.binary("ge", newest, 0), marks, g.binary("lt", word, least)),
            g.binary("logical_and", g.binary("eq", first, length), g.binary("gt", word, self.begin + LATEST_BEGIN)),
        ]
        ruled = scores
        for words in out:
            ruled = g.where(words, RULED_OUT, ruled)
        words, times = g.slice(ruled, 1, 0, self.begin), g.slice(ruled, 1, self.begin, scores.shape[1])
        ruled = g.where(
            g.binary("logical_and", self._likelier(g, times, words), g.unary("logical_not", marks)), RULED_OUT, ruled
        )
        return g.where(g.binary("eq", self.wanted, 1), ruled, scores)

    def _likelier(self, g: ProgramBuilder, times: Value, words: Value) -> Value:
        """[R, 1]: whether all marks together are likelier than any other word."""
        highest = g.amax(times, [1], True)
        powers = g.where(g.binary("gt", times, RULED_OUT), g.unary("exp", g.sub(times, highest)), 0.0)
        whole = g.sum(powers, [1], True)
        together = g.where(g.binary("gt", whole, 0.0), g.add(g.unary("log", whole), highest), RULED_OUT)
        return g.binary("gt", together, g.amax(words, [1], True))

    def _word(self, g: ProgramBuilder, texts: Value, place: Value) -> Value:
        result: Value = g.call("aten.index_select.default", texts, 1, g.reshape(place, [1]))
        return result

    def _any(self, g: ProgramBuilder, word: Value, words: tuple[int, ...]) -> Value:
        first, *others = (g.binary("eq", word, number) for number in words)
        for other in others:
            first = g.binary("logical_or", first, other)
        return first

    def _all(self, g: ProgramBuilder, first: Value, *others: Value) -> Value:
        for other in others:
            first = g.binary("logical_and", first, other)
        return first
