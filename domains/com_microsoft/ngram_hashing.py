"""NGramHashMapping and VarlenNGramHashMapping: tokens and those before them, hashed to numbers below given sizes.

Source: their schemas, and onnxruntime's ``varlen_ngram_hash_mapping.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def ngram_hash_mapping(
    g: ProgramBuilder,
    input_ids: Value,
    multipliers: Value,
    vocab_sizes: Value,
    past_ids: Value | None = None,
    head_offsets: Value | None = None,
    eos_token_id: Value | None = None,
    segment_ids: Value | None = None,
    *,
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    reset_on_eos: int = 0,
) -> tuple[Value, Value]:
    """Hashes [B, T, heads] of ``input_ids`` [B, T] with up to ``max_ngram_size`` - 1 tokens before each; the last of those.

    Tokens before a boundary count as the end token: after that token with ``reset_on_eos``, and where segments change.
    """
    _check(input_ids, 2, max_ngram_size, n_head_per_ngram)
    batch, length = input_ids.shape
    state = max_ngram_size - 1
    fill = _fill(g, input_ids, eos_token_id, pad_id)
    history = past_ids if past_ids is not None else g.expand(g.reshape(fill, [1, 1]), [batch, state])
    tokens = g.cat([history, input_ids], 1)
    last: list[Value] = []
    if reset_on_eos and eos_token_id is not None:
        last.append(g.binary("eq", tokens, fill))
    if segment_ids is not None:
        ends = g.binary("ne", g.slice(segment_ids, 1, 1, length), g.slice(segment_ids, 1, 0, to_dim(length - 1)))
        last.append(g.pad(ends, [0, state], [0, 1], 0))

    def shifted(x: Value, count: int) -> Value:
        return g.slice(x, 1, state - count, to_dim(length + state - count))

    sources = [shifted(tokens, count) for count in range(max_ngram_size)]
    cuts = [_either(g, [shifted(item, count) for item in last]) for count in range(1, max_ngram_size)]
    hashes = _hashes(g, sources, cuts, fill, (multipliers, vocab_sizes, head_offsets), n_head_per_ngram)
    return hashes, g.slice(tokens, 1, length, to_dim(length + state))


def _check(input_ids: Value, rank: int, max_ngram_size: int, heads: int) -> None:
    if input_ids.rank != rank:
        raise refuse("O2M-C006", f"tokens of rank {input_ids.rank}, not {rank}", case="input_ids")
    if max_ngram_size < 2 or heads < 1:
        raise refuse("O2M-C005", f"{heads} hashes of up to {max_ngram_size} tokens", case="max_ngram_size")


def _fill(g: ProgramBuilder, ids: Value, eos_token_id: Value | None, pad_id: int) -> Value:
    """What stands for tokens that are not there."""
    return g.scalar(pad_id, ids.dtype) if eos_token_id is None else g.reshape(eos_token_id, [])


def _either(g: ProgramBuilder, items: Sequence[Value]) -> Value | None:
    """Where one of one or two conditions holds, or None."""
    return None if not items else items[0] if len(items) == 1 else g.call("aten.logical_or.default", *items)


def _hashes(
    g: ProgramBuilder,
    sources: Sequence[Value],
    cuts: Sequence[Value | None],
    fill: Value,
    parameters: tuple[Value, Value, Value | None],
    heads: int,
) -> Value:
    """The hashes [..., all heads] of each token with those before it.

    ``sources`` are the tokens 0, 1, 2 … places before each; ``cuts`` tell whether a boundary follows the one 1, 2 … before.
    """
    multipliers, vocab_sizes, head_offsets = parameters
    mix = g.mul(sources[0], g.select(multipliers, 0, 0))
    beyond: Value | None = None
    parts = []
    for count in range(1, len(sources)):
        cut = cuts[count - 1]
        if cut is not None:
            beyond = cut if beyond is None else g.call("aten.logical_or.default", beyond, cut)
        token = sources[count] if beyond is None else g.where(beyond, fill, sources[count])
        mix = g.binary("bitwise_xor", mix, g.mul(token, g.select(multipliers, 0, count)))
        first = (count - 1) * heads
        parts.append(g.binary("remainder", g.unsqueeze(mix, mix.rank), g.slice(vocab_sizes, 0, first, first + heads)))
    result = g.cat(parts, mix.rank)
    return result if head_offsets is None else g.add(result, head_offsets)


def varlen_ngram_hash_mapping(
    g: ProgramBuilder,
    input_ids: Value,
    multipliers: Value,
    vocab_sizes: Value,
    cumulative_sequence_length: Value,
    past_ids: Value | None = None,
    head_offsets: Value | None = None,
    eos_token_id: Value | None = None,
    segment_ids: Value | None = None,
    past_segment_ids: Value | None = None,
    capture_count: Value | None = None,
    *,
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    reset_on_eos: int = 0,
    state_update_capacity: int = 0,
    wanted: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    """The same of sequences one after the other in ``input_ids`` [T]; the last tokens, segments, and those of beginnings.

    ``cumulative_sequence_length`` [B + 1] says where each begins and ends.
    """
    _check(input_ids, 1, max_ngram_size, n_head_per_ngram)
    bounds = g.cast(cumulative_sequence_length, torch.int64)
    packed = _Packed(g, bounds, input_ids.shape[0], max_ngram_size - 1)
    fill = _fill(g, input_ids, eos_token_id, pad_id)
    history = past_ids if past_ids is not None else g.expand(g.reshape(fill, [1, 1]), [packed.count, packed.state])
    sources = [packed.before(input_ids, history, count) for count in range(max_ngram_size)]
    cuts: list[Value | None] = []
    segments: list[Value] = []
    past_segments = past_segment_ids
    if segment_ids is not None:
        if past_segments is None:
            past_segments = g.expand(g.unsqueeze(packed.first(segment_ids), 1), [packed.count, packed.state])
        segments = [packed.before(segment_ids, past_segments, count) for count in range(max_ngram_size)]
    for count in range(1, max_ngram_size):
        ends = []
        if reset_on_eos and eos_token_id is not None:
            ends.append(g.binary("eq", sources[count], fill))
        if segments:
            ends.append(g.binary("ne", segments[count], segments[count - 1]))
        cuts.append(_either(g, ends))
    hashes = _hashes(g, sources, cuts, fill, (multipliers, vocab_sizes, head_offsets), n_head_per_ngram)
    present = packed.last(input_ids, history, packed.lengths)
    kept = None if segment_ids is None or past_segments is None else packed.last(segment_ids, past_segments, packed.lengths)
    if wanted[3:4] != (True,):
        return hashes, present, kept
    if capture_count is None or state_update_capacity < 1:
        raise refuse("O2M-C005", "input capture_count is missing", case="capture_count")
    states = []
    for index in range(state_update_capacity):
        taken = g.minimum(g.cast(capture_count, torch.int64), packed.lengths)
        after = packed.last(input_ids, history, g.minimum(packed.lengths, index + 1))
        present_here = g.unsqueeze(g.binary("gt", taken, index), 1)
        states.append(g.unsqueeze(g.where(present_here, after, g.scalar(pad_id, input_ids.dtype)), 1))
    return hashes, present, kept, g.cat(states, 1)


class _Packed:
    """Sequences one after the other, and ``state`` elements of history before each."""

    def __init__(self, g: ProgramBuilder, bounds: Value, total: Dim, state: int) -> None:
        self.g, self.state = g, state
        self.count = to_dim(bounds.shape[0] - 1)
        starts, ends = g.slice(bounds, 0, 0, self.count), g.slice(bounds, 0, 1, bounds.shape[0])
        self.starts, self.lengths = starts, g.sub(ends, starts)
        self.places = g.arange(0, total)
        passed = g.binary("le", g.unsqueeze(ends, 0), g.unsqueeze(self.places, 1))
        self.owner = g.sum(g.cast(passed, torch.int64), [1])
        self.within = g.sub(self.places, g.call("aten.index_select.default", starts, 0, self.owner))

    def before(self, x: Value, history: Value, count: int) -> Value:
        """For each element of ``x`` [T] the one ``count`` before it in its sequence, or in ``history`` [B, state]."""
        g = self.g
        if not count:
            return x
        here = g.call("aten.index_select.default", x, 0, g.maximum(g.sub(self.places, count), 0))
        slot = g.minimum(g.add(self.within, self.state - count), self.state - 1)
        flat = g.reshape(history, [to_dim(self.count * self.state)])
        index = g.add(g.mul(self.owner, self.state), slot)
        past = g.call("aten.index_select.default", flat, 0, index)
        return g.where(g.binary("ge", self.within, count), here, past)

    def first(self, x: Value) -> Value:
        """The first element of each sequence: [B]."""
        return self.g.call("aten.index_select.default", x, 0, self.starts)

    def last(self, x: Value, history: Value, lengths: Value) -> Value:
        """The last ``state`` elements of the first ``lengths`` [B] of each sequence and of what is before: [B, state]."""
        g = self.g
        slots = g.unsqueeze(g.arange(0, self.state), 0)
        place = g.add(g.unsqueeze(g.sub(lengths, self.state), 1), slots)
        index = g.maximum(g.add(g.unsqueeze(self.starts, 1), place), 0)
        flat = g.reshape(index, [to_dim(self.count * self.state)])
        here = g.reshape(g.call("aten.index_select.default", x, 0, flat), [self.count, self.state])
        slot = g.minimum(g.maximum(g.add(place, self.state), 0), self.state - 1)
        past = g.call("aten.gather.default", history, 1, slot)
        return g.where(g.binary("ge", place, 0), here, past)
