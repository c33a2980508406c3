"""Where a cache [B, heads, room, H] of GroupQueryAttention holds which step of its batch.

A whole cache has step p in row p. A cache of a window has room for some of the latest steps only: it evicts the oldest
ones, several at a time, and its rows are the steps that are left, in order and from row 0 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.domains.com_microsoft.key_value_cache import Lengths, check, filled_up


class CacheLayout(Protocol):
    """Of which keys [B, heads, T, H] attention is, what of them is kept, and how a query relates to them."""

    def updated(self, g: ProgramBuilder, past: Value | None, new: Value) -> tuple[Value, Value]:
        """What attention is to, and the cache after this call; ``new`` is [B, heads, S, H]."""

    def seen(self, g: ProgramBuilder, window: int | None) -> Value:
        """[B, 1, S, T]: whether a step sees a key: of its batch, up to its own step, of the last ``window``."""

    def bias(self, g: ProgramBuilder, bias: Value) -> Value:
        """``bias`` [.., .., S, total steps] of scores, for the keys."""


@dataclass(frozen=True)
class Whole:
    """A cache with ``room`` for all steps, ``total`` at the most."""

    lengths: Lengths
    room: Dim
    total: Dim

    def updated(self, g: ProgramBuilder, past: Value | None, new: Value) -> tuple[Value, Value]:
        """The cache, twice."""
        present = filled_up(g, past, new, self.lengths, self.room)
        return present, present

    def seen(self, g: ProgramBuilder, window: int | None) -> Value:
        """As `Lengths.seen`."""
        return self.lengths.seen(g, self.room, window)

    def bias(self, g: ProgramBuilder, bias: Value) -> Value:
        """``bias``, and 0 for the rest of the room."""
        return g.pad(bias, [0] * 4, [0, 0, 0, to_dim(self.room - self.total)])


@dataclass(frozen=True)
class Windowed:
    """A cache of ``room`` rows, no fewer than ``window``; attention is to what it held before, and to what is new.

    After T steps it holds the last L(T): all while they fit in, else T - G * ceil((T - room) / G), for it evicts
    G = room - window + 1 at a time. Rows without a step are 0, where onnxruntime leaves what was in the memory.
    Source: com.microsoft GroupQueryAttention, "Windowed KV Cache".
    """

    lengths: Lengths
    room: Dim
    window: int

    @staticmethod
    def of(g: ProgramBuilder, lengths: Lengths, room: Dim, window: int) -> Windowed:
        """Raises `Refusal` (O2M-C006) for a room that is less than the window, where that is known."""
        g.require(sympy.Ge(room, window), f"a cache of {room} steps for a window of {window}")
        return Windowed(lengths, room, window)

    def _held(self, g: ProgramBuilder, steps: Value) -> Value:
        """[B, 1]: how many of ``steps`` [B] are in the cache."""
        chunk = g.size_value(to_dim(self.room - self.window + 1))
        over = g.maximum(g.sub(steps, g.size_value(self.room)), 0)
        chunks = g.floor_div(g.add(over, g.sub(chunk, 1)), chunk)
        return g.unsqueeze(g.sub(steps, g.mul(chunks, chunk)), 1)

    def _rows(self, g: ProgramBuilder, steps: Value) -> tuple[Value, Value]:
        """[B, room]: the step in each row after ``steps`` [B], and whether there is one."""
        held = self._held(g, steps)
        row = g.unsqueeze(g.arange(0, self.room), 0)
        return g.add(g.sub(g.unsqueeze(steps, 1), held), row), g.binary("lt", row, held)

    def _steps(self, g: ProgramBuilder) -> Value:
        """[B, room + S]: which step each key is of; -1 for none."""
        before, filled = self._rows(g, self.lengths.past)
        new = g.add(g.unsqueeze(self.lengths.past, 1), g.unsqueeze(g.arange(0, self.lengths.steps), 0))
        return g.cat([g.where(filled, before, -1), new], 1)

    def updated(self, g: ProgramBuilder, past: Value | None, new: Value) -> tuple[Value, Value]:
        """The past, with the new steps behind it, and what of both stays."""
        assert past is not None
        check(g, past, new)
        keys = g.cat([past, new], 2)
        batch, count = keys.shape[0], to_dim(self.room + self.lengths.steps)
        after, filled = self._rows(g, self.lengths.total)
        before = g.unsqueeze(self.lengths.past, 1)
        evicted = g.sub(before, self._held(g, self.lengths.past))
        ahead = g.sub(after, before)
        place = g.where(g.binary("lt", ahead, 0), g.sub(after, evicted), g.add(ahead, g.size_value(self.room)))
        place = g.minimum(g.maximum(place, 0), g.size_value(to_dim(count - 1)))
        row = g.unsqueeze(g.arange(0, batch), 1)
        moved = g.call("aten.index.Tensor", g.permute(keys, [0, 2, 1, 3]), [row, place])
        kept = g.reshape(filled, [batch, 1, self.room, 1])
        return keys, g.where(kept, g.permute(moved, [0, 2, 1, 3]), 0)

    def seen(self, g: ProgramBuilder, window: int | None) -> Value:
        """By the steps that the keys are of."""
        step = g.unsqueeze(g.unsqueeze(self._steps(g), 1), 1)
        first, last = self.lengths.bounds(g, window)
        inside = g.binary("logical_and", g.binary("lt", step, last), g.binary("ge", step, 0))
        return inside if first is None else g.binary("logical_and", inside, g.binary("ge", step, first))

    def bias(self, g: ProgramBuilder, bias: Value) -> Value:
        """The columns of the steps that the keys are of."""
        steps = g.unsqueeze(g.unsqueeze(g.maximum(self._steps(g), 0), 1), 1)
        batch, count = self.lengths.batch, to_dim(self.room + self.lengths.steps)
        heads = bias.shape[1]
        columns = g.expand(g.cast(steps, torch.int64), [batch, heads, self.lengths.steps, count])
        whole = g.expand(bias, [batch, heads, self.lengths.steps, bias.shape[3]])
        last = g.size_value(to_dim(bias.shape[3] - 1))
        return g.call("aten.gather.default", whole, 3, g.minimum(columns, last))
