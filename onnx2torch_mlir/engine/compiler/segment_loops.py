"""Loops over the segments of a sum (contraction_kinds.py) as text, which carry vectors of partial sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx2torch_mlir.engine.compiler.code_text import bytes_behind

Inner = Callable[[Sequence[str], Sequence[str], str], tuple[list[str], str]]
"""Emits what the innermost segment adds: from the rows, the sums and the bytes of packed columns that are behind, the sums and
those bytes after it."""


def around(
    emit: Callable[..., None], outer: int, rows: Sequence[str], sums: Sequence[str], type_: str, inner: Inner
) -> list[str]:
    """The sums, of a type, over ``outer`` segments and the ``inner`` one.

    Segment i has ``%kni`` places, ``%kai`` bytes apart in the rows of the left operand. ``%none`` and ``%one`` are there.
    """
    return _loop(emit, 0, outer, rows, sums, "%none", type_, inner)[0]


def _loop(
    emit: Callable[..., None],
    depth: int,
    outer: int,
    rows: Sequence[str],
    sums: Sequence[str],
    at: str,
    type_: str,
    inner: Inner,
) -> tuple[list[str], str]:
    if depth == outer:
        return inner(rows, sums, at)
    held = [f"%h{depth}_{i}" for i in range(len(sums))]
    kinds = ", ".join([*[type_] * len(sums), "i64"])
    given = ", ".join(f"{h} = {s}" for h, s in zip([*held, f"%at{depth}"], [*sums, at], strict=True))
    loop = f"scf.for %i{depth} = %none to %kn{depth} step %one"
    emit(
        f"%r{depth}:{len(sums) + 1} = {loop} iter_args({given}) -> ({kinds}) : i64 {{",
        f"%far{depth} = arith.muli %i{depth}, %ka{depth} : i64",
    )
    moved = [f"%a{depth}_{number}" for number in range(len(rows))]
    emit(*(bytes_behind(to, row, f"%far{depth}") for to, row in zip(moved, rows, strict=True)))
    found, after = _loop(emit, depth + 1, outer, moved, held, f"%at{depth}", type_, inner)
    emit(f"scf.yield {', '.join([*found, after])} : {kinds}", "}")
    return [f"%r{depth}#{i}" for i in range(len(sums))], f"%r{depth}#{len(sums)}"


def places_of_rows(count: int) -> list[str]:
    """``%a0`` …, ``%c0`` …: where rows begin in the left operand and in the result, by the table ``%rows`` (row_tables.py)."""
    lines = []
    for row in range(count):
        for side, place in (("a", 2 * row), ("c", 2 * row + 1)):
            lines += [
                f"%{side}e{row} = llvm.getelementptr %rows[{place}] : (!llvm.ptr) -> !llvm.ptr, i64",
                f"%{side}o{row} = llvm.load %{side}e{row} : !llvm.ptr -> i64",
                bytes_behind(f"%{side}{row}", f"%{side}", f"%{side}o{row}"),
            ]
    return lines
