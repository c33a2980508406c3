"""Keys and values of earlier steps, [B, heads, steps, size], and what a step adds to them."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import product, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def after_past(g: ProgramBuilder, past: Value, new: Value) -> Value:
    """``new`` behind ``past``."""
    check(g, past, new)
    return g.cat([past, new], 2)


def written_into(g: ProgramBuilder, past: Value, new: Value, filled: Dim) -> Value:
    """The buffer ``past`` with the one step of ``new`` at the place ``filled``.

    onnxruntime writes one step only, whatever it is given; so more are refused.
    """
    check(g, past, new)
    g.require_equal(new.shape[2], 1, "steps that are written into a shared buffer")
    g.require(sympy.Lt(filled, past.shape[2]), f"no room behind {filled} steps of a buffer of {past.shape[2]}")
    return g.cat([g.slice(past, 2, 0, filled), new, g.slice(past, 2, to_dim(filled + 1), past.shape[2])], 2)


def by_beam(g: ProgramBuilder, cache: Value, indirection: Value) -> Value:
    """Each step of ``cache`` [B W, heads, T, H] from the beam that ``indirection`` [B, W, M] names; the last is its own.

    Raises:
        Refusal: O2M-C005 for another rank, O2M-C006 for sizes that do not fit.
    """
    if indirection.rank != 3:
        raise refuse("O2M-C005", f"a cache_indirection of rank {indirection.rank}, not 3", case="cache_indirection")
    batch, beams, _ = indirection.shape
    rows, total = cache.shape[0], cache.shape[2]
    g.require_equal(rows, to_dim(batch * beams), "batches times beams of cache_indirection, and of the past")
    last = to_dim(total - 1)
    chosen = g.cast(g.slice(indirection, 2, 0, last), torch.int64)
    first = g.reshape(g.mul(g.arange(0, batch), g.size_value(beams)), [batch, 1, 1])
    source = g.reshape(g.add(chosen, first), [rows, last])
    own = g.unsqueeze(g.arange(0, rows), 1)
    step = g.unsqueeze(g.arange(0, total), 0)
    moved = g.call("aten.index.Tensor", g.permute(cache, [0, 2, 1, 3]), [g.cat([source, own], 1), step])
    return g.permute(moved, [0, 2, 1, 3])


def of_batches(g: ProgramBuilder, bias: Value, indirection: Value) -> Value:
    """``bias`` [B W or 1, ...] as onnxruntime reads it where there are beams: each beam has the row of its batch's number.

    ``indirection`` is [B, W, M].
    """
    batch, beams, _ = indirection.shape
    if bias.shape[0] == 1:
        return bias
    rows = g.reshape(g.expand(g.unsqueeze(g.arange(0, batch), 1), [batch, beams]), [to_dim(batch * beams)])
    return g.call("aten.index.Tensor", bias, [rows])


def check(g: ProgramBuilder, past: Value, new: Value) -> None:
    """The sizes of ``past`` are those of ``new``, but for its steps.

    Raises:
        Refusal: O2M-C005 for another rank, O2M-C006 for other sizes.
    """
    if past.rank != 4:
        raise refuse("O2M-C005", f"a past of rank {past.rank}, not 4", case="past")
    for axis in (0, 1, 3):
        g.require_equal(past.shape[axis], new.shape[axis], "batch, heads and sizes of the past and of what is new")


@dataclass(frozen=True)
class Lengths:
    """How many steps each batch has: ``past`` [B] before this call, ``total`` [B] after it.

    ``is_first`` (0-d) says that this call's ``steps`` are all there is room for: they stand at the start, and a batch may
    have fewer of them.
    """

    batch: Dim
    steps: Dim
    past: Value
    total: Value
    is_first: Value

    @staticmethod
    def of(g: ProgramBuilder, seqlens_k: Value, batch: Dim, steps: Dim, total: Dim) -> Lengths:
        """Of the last places ``seqlens_k`` of the batches, the ``total`` of the longest one, and the steps of this call."""
        g.require_equal(product(seqlens_k.shape), batch, "batches, and lengths of their keys")
        each = g.add(g.cast(g.reshape(seqlens_k, [batch]), torch.int64), 1)
        first = g.binary("eq", g.size_value(steps), g.size_value(total))
        return Lengths(batch, steps, g.where(first, 0, g.sub(each, g.size_value(steps))), each, first)

    def seen(self, g: ProgramBuilder, room: Dim, window: int | None) -> Value:
        """[B, 1, S, room]: whether a step sees a place: those of its batch up to its own, the last ``window`` of them."""
        place = g.reshape(g.arange(0, room), [1, 1, 1, room])
        first, end = self.bounds(g, window)
        seen = g.binary("lt", place, end)
        return seen if first is None else g.binary("logical_and", seen, g.binary("ge", place, first))

    def bounds(self, g: ProgramBuilder, window: int | None) -> tuple[Value | None, Value]:
        """[B, 1, S, 1]: from which place on a step sees, if not from the start, and the first one that it does not see."""
        own = g.reshape(g.add(g.unsqueeze(self.past, 1), g.arange(1, to_dim(self.steps + 1))), [self.batch, 1, self.steps, 1])
        end = g.minimum(own, g.reshape(self.total, [self.batch, 1, 1, 1]))
        return None if window is None else g.sub(end, window), end

    def filled(self, g: ProgramBuilder, room: Dim) -> Value:
        """[B, 1, 1, room]: whether a place is one of the batch's."""
        place = g.reshape(g.arange(0, room), [1, 1, 1, room])
        return g.binary("lt", place, g.reshape(self.total, [self.batch, 1, 1, 1]))


def filled_up(g: ProgramBuilder, past: Value | None, new: Value, lengths: Lengths, room: Dim, *, shared: bool = False) -> Value:
    """[B, heads, room, H]: the past of each batch, then the steps of ``new`` [B, heads, S, H], then 0.

    Without a past ``new`` fills all the room; without steps in ``new`` the past has them already. A ``shared`` past keeps
    what it holds behind the new steps.
    """
    if past is None:
        return new
    check(g, past, new)
    held, steps = past.shape[2], new.shape[2]
    before = g.unsqueeze(lengths.total if steps == 0 else lengths.past, 1)
    if not shared:
        past = g.where(_each_place(g, g.binary("lt", g.unsqueeze(g.arange(0, held), 0), before)), past, 0)
    old = g.pad(past, [0] * 4, [0, 0, to_dim(room - held), 0])
    if steps == 0:
        return old
    places = _each_place(g, g.add(before, g.unsqueeze(g.arange(0, steps), 0)))
    return g.call("aten.scatter.src", old, 2, g.expand(places, list(new.shape)), new)


def _each_place(g: ProgramBuilder, flags: Value) -> Value:
    batch, room = flags.shape
    return g.reshape(flags, [batch, 1, room, 1])
