"""RotaryEmbedding and MRotaryEmbedding of onnxruntime, which read their angles from tables."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import floor_div, to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.rotary import rotated, rows_at


def rotary_embedding(
    g: ProgramBuilder,
    input: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """The heads of ``input``, [B, S, heads * size] or [B, heads, S, size], turned by the angles of their positions.

    ``position_ids`` are [B, S], or the position of the first step. The tables [M, c] turn the first 2 c elements of a head,
    which are all of them where ``rotary_embedding_dim`` is 0. Source: com.microsoft RotaryEmbedding.

    Raises:
        Refusal: O2M-C005 for other ranks, O2M-C006 for sizes that do not fit.
    """
    check_tables(g, cos_cache, sin_cache)
    if input.rank not in (3, 4):
        raise refuse("O2M-C005", f"an input of rank {input.rank}, not 3 or 4", case="input")
    x = _with_heads(g, input, to_dim(cos_cache.shape[1] * 2), num_heads, rotary_embedding_dim)
    steps_at = 2 if input.rank == 4 else 1
    batch, steps = x.shape[0], x.shape[steps_at]
    g.require(sympy.Le(steps, cos_cache.shape[0]), f"{steps} steps need as many rows in cos_cache")
    if position_ids.rank == 2:
        g.require_equal(position_ids.shape[0], batch, "batch sizes of input and position_ids")
        g.require_equal(position_ids.shape[1], steps, "steps of input and position_ids")
    elif position_ids.rank < 2:
        first = g.reshape(position_ids, [1])
        position_ids = g.unsqueeze(g.add(first, g.arange(0, steps)), 0)
    else:
        raise refuse("O2M-C005", f"position_ids of rank {position_ids.rank}, not 0, 1 or 2", case="position_ids")
    angles = [g.unsqueeze(rows_at(g, table, position_ids), 3 - steps_at) for table in (cos_cache, sin_cache)]
    result = rotated(g, x, angles[0], angles[1], interleaved=bool(interleaved))
    return g.reshape(result, input.shape)


def mrotary_embedding(
    g: ProgramBuilder,
    input: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    mrope_layout: int = 0,
    mrope_section: Sequence[int],
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """The same with three positions for every step, ``position_ids`` [3, B, S]: of time, height and width; what is turned
    is multiplied by ``scale``.

    ``mrope_section`` says how many angles each of them decides, one after the other, or with ``mrope_layout`` 1 in turns.
    Source: com.microsoft MRotaryEmbedding.

    Raises:
        Refusal: O2M-C005 for other ranks and sections, O2M-C006 for sizes that do not fit.
    """
    check_tables(g, cos_cache, sin_cache)
    if position_ids.rank != 3 or input.rank not in (3, 4) or (input.rank == 3 and not num_heads):
        raise refuse("O2M-C005", f"an input of rank {input.rank} and position_ids of rank {position_ids.rank}", case="input")
    if len(mrope_section) != 3 or min(mrope_section) < 0 or mrope_layout not in (0, 1):
        raise refuse("O2M-C005", f"sections {list(mrope_section)} of layout {mrope_layout}", case="mrope_section")
    half = sum(mrope_section)
    g.require_equal(cos_cache.shape[1], half, "angles of cos_cache, and of mrope_section")
    x = _with_heads(g, input, 2 * half, num_heads, rotary_embedding_dim)
    steps_at = 2 if input.rank == 4 else 1
    for axis, size in ((0, 3), (1, x.shape[0]), (2, x.shape[steps_at])):
        g.require_equal(position_ids.shape[axis], size, "three positions for every batch and step")
    parts = _sections(mrope_section, bool(mrope_layout))
    angles = []
    for table in (cos_cache, sin_cache):
        rows = [rows_at(g, table, g.select(position_ids, 0, part)) for part in range(3)]
        chosen = [g.slice(rows[part], 2, index, index + 1) for index, part in enumerate(parts)]
        if not mrope_layout:
            bounds = [sum(mrope_section[:part]) for part in range(4)]
            chosen = [g.slice(rows[part], 2, bounds[part], bounds[part + 1]) for part in range(3)]
        angles.append(g.unsqueeze(g.cat(chosen, 2), 3 - steps_at))
    if scale != 1.0:
        angles = [g.mul(angle, scale) for angle in angles]
    return g.reshape(rotated(g, x, angles[0], angles[1], interleaved=bool(interleaved)), input.shape)


def _sections(counts: Sequence[int], in_turns: bool) -> list[int]:
    """Which of the three positions decides each angle."""
    if not in_turns:
        return [part for part in range(3) for _ in range(counts[part])]
    half = sum(counts)
    parts = [0] * half
    for part in (1, 2):
        for index in range(part, min(3 * counts[part], half), 3):
            parts[index] = part
    return parts


def check_tables(g: ProgramBuilder, cos_cache: Value, sin_cache: Value) -> None:
    """Two matrices of the same sizes.

    Raises:
        Refusal: O2M-C005 for other ranks, O2M-C006 for sizes that differ.
    """
    if not cos_cache.rank == sin_cache.rank == 2:
        raise refuse("O2M-C005", f"tables of ranks {cos_cache.rank} and {sin_cache.rank}, not 2", case="cos_cache")
    for own, other in zip(cos_cache.shape, sin_cache.shape, strict=True):
        g.require_equal(own, other, "sizes of cos_cache and sin_cache")


def _with_heads(g: ProgramBuilder, x: Value, width: sympy.Expr | int, heads: int, turned: int) -> Value:
    """``x`` with an axis for the heads, of which ``width`` elements turn."""
    if turned and not heads:
        raise refuse("O2M-C005", "rotary_embedding_dim needs num_heads", case="num_heads")
    if turned:
        g.require_equal(width, turned, "elements that the tables turn, and rotary_embedding_dim")
    if x.rank == 4:
        if heads:
            g.require_equal(x.shape[1], heads, "heads of the input")
        if not turned:
            g.require_equal(x.shape[3], width, "size of a head, and elements that the tables turn")
        return x
    batch, steps, hidden = x.shape
    count = heads or floor_div(hidden, width)
    size = floor_div(hidden, heads) if turned else width
    g.require_equal(to_dim(count * size), hidden, "heads times their size, and hidden size")
    return g.reshape(x, [batch, steps, count, size])
