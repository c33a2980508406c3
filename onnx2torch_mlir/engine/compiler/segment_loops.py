"""Loops around and inside of simple tiles, as text: down rows, and over the segments of a sum (contraction_kinds.py)."""

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


def down_rows(heights: Sequence[int], count: str, tile: Callable[[int], str]) -> list[str]:
    """Tiles of these ``heights``, of which the last is 1, down so many rows, as many of each as fit.

    The entry of a tile's first ``%row`` in the table ``%rows`` is ``%row_place``; ``%none`` and ``%one`` are there.
    """

    def tiles(rows: int, first: str, number: str, end: str) -> list[str]:
        return [
            f"scf.for %row = {first} to {end} step %height{rows} : i64 {{",
            *_place("%row_", "%row"),
            tile(rows),
            "}",
        ]

    return _by_height(heights, count, tiles)


def runs_down_rows(heights: Sequence[int], count: str, run: Callable[[int, str, str], str]) -> list[str]:
    """The same for tiles that go down a run of rows by themselves: ``run`` of a height, the place of the entry of its first row
    in the table ``%rows``, and how many tiles of that height there are, which may be none."""

    def tiles(rows: int, first: str, number: str, end: str) -> list[str]:
        return [*_place(f"%run{rows}_", first), run(rows, f"%run{rows}_place", number)]

    return _by_height(heights, count, tiles)


def _by_height(heights: Sequence[int], count: str, tiles: Callable[[int, str, str, str], list[str]]) -> list[str]:
    """What ``tiles`` makes of a height, the first of the rows for it, how many tiles fit into those that are left, and where
    these end; for each height after the other, of which the last is 1."""
    lines, first = list[str](), "%none"
    for rows in heights:
        end, number = count, f"%left{rows}"
        lines += [f"%height{rows} = arith.constant {rows} : i64", f"%left{rows} = arith.subi {count}, {first} : i64"]
        if rows != heights[-1]:
            end, number = f"%end{rows}", f"%fit{rows}"
            lines += [
                f"%past{rows} = arith.remui %left{rows}, %height{rows} : i64",
                f"{number} = arith.divui %left{rows}, %height{rows} : i64",
                f"{end} = arith.subi {count}, %past{rows} : i64",
            ]
        lines += tiles(rows, first, number, end)
        first = end
    return lines


def _place(name: str, row: str) -> list[str]:
    """The place of a row's entry in the table ``%rows``, by a name that begins so."""
    return [
        f"{name}entry = arith.addi {row}, {row} : i64",
        f"{name}place = llvm.getelementptr %rows[{name}entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
    ]
