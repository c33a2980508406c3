"""What the text of a driver and of tiles does about a plain tail (plain_tails.py), which is words without a function.

Tiles do it on their sums. Where the rows of the result lie in lines, as those in the middle of a padded image do, the table of
rows says where (`FUNCTION`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onnx2torch_mlir.engine.compiler import row_tables
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, constants, header_word, masked_load

BIAS, BOUNDS, LEAST, MOST, OTHER, LINE, STEP, JUMP, BY_ROWS = range(9)
"""The words: where the numbers for the columns or the rows are, or null; how many bounds there are, and both, infinite if not
there: one is the least alone; how many bytes behind its place in the result another array's element is, 0 where there is none;
how many rows are in a line, 0 where they are as the driver's words say; and how many bytes are from row to row, and from the
last of a line to the next; and 1 where the numbers are those of the rows, else 0."""


def by_rows(words: str) -> list[str]:
    """``%by_rows``: 1 where ``words``, which may be null, say that a number is added for each row, else 0; ``%is_by_rows``.

    ``%no_tail``, a null pointer, and ``%none`` are there.
    """
    return [
        f'%tiles_finish = llvm.icmp "ne" {words}, %no_tail : !llvm.ptr',
        "%by_rows = scf.if %tiles_finish -> (i64) {",
        *header_word("%rows_word", words, BY_ROWS),
        "scf.yield %rows_word : i64",
        "} else {",
        "scf.yield %none : i64",
        "}",
        "%is_by_rows = arith.cmpi ne, %by_rows, %none : i64",
    ]


def put_rows(table: str, first: str, count: str, words: str) -> list[str]:
    """Where so many rows lie, from number ``first`` on, is put into a table of them, if they lie in lines; ``words`` may be
    null. ``%nothing``, a null pointer, is there."""
    return [
        f'%finishes_here = llvm.icmp "ne" {words}, %nothing : !llvm.ptr',
        "scf.if %finishes_here {",
        f"func.call @o2m_lines({table}, {first}, {count}, {words}) : (!llvm.ptr, i64, i64, !llvm.ptr) -> ()",
        "}",
    ]


FUNCTION = "\n".join(
    [
        "func.func private @o2m_lines(%table: !llvm.ptr, %first: i64, %count: i64, %words: !llvm.ptr) {",
        *constants(none=0, one=1),
        *header_word("%line", "%words", LINE),
        *header_word("%step", "%words", STEP),
        *header_word("%jump", "%words", JUMP),
        "%in_lines = arith.cmpi ne, %line, %none : i64",
        "scf.if %in_lines {",
        "%lines_before = arith.divui %first, %line : i64",
        "%place = arith.remui %first, %line : i64",
        "%more = arith.subi %line, %one : i64",
        "%inside = arith.muli %more, %step : i64",
        "%whole = arith.addi %inside, %jump : i64",
        "%to_line = arith.muli %lines_before, %whole : i64",
        "%to_place = arith.muli %place, %step : i64",
        "%begin = arith.addi %to_line, %to_place : i64",
        "%over_the_edge = arith.subi %jump, %step : i64",
        *row_tables.run_start("%step", "%step"),
        *row_tables.in_runs(
            "%count",
            [("%at", "%begin"), ("%p", "%place")],
            [
                *row_tables.run(None, "%at"),
                "%far = arith.muli %many, %step : i64",
                "%along = arith.addi %at, %far : i64",
                "%moved = arith.addi %p, %many : i64",
                "%ends = arith.cmpi eq, %moved, %line : i64",
                "%by = arith.select %ends, %over_the_edge, %none : i64",
                "%after = arith.addi %along, %by : i64",
                "%p_after = arith.select %ends, %none, %moved : i64",
            ],
            ["%after", "%p_after"],
            ("%line", "%p"),
        ),
        # The last row may be there twice (`row_tables.write_for_tiles`).
        "%behind = arith.muli %count, %two : i64",
        "%behind_second = arith.addi %behind, %one : i64",
        "%again = llvm.getelementptr %table[%behind_second] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%last_at = llvm.getelementptr %again[-2] : (!llvm.ptr) -> !llvm.ptr, i64",
        "%last = llvm.load %last_at : !llvm.ptr -> i64",
        "llvm.store %last, %again : i64, !llvm.ptr",
        "}",
        "return",
        "}",
    ]
)
"""@o2m_lines(table, first, count, words), which `put_rows` calls."""


def finished(
    emit: Callable[..., None],
    lanes: int,
    cells: Sequence[tuple[int, int]],
    sums: Sequence[str],
    place: Callable[[int, int, str], str],
) -> list[str]:
    """What becomes of a tile's ``sums``, of so many ``lanes`` each: as they are, if ``%finish`` is null.

    ``place`` writes where a cell's sums go, with a tag before its names. Whatever a tile has by its name is there.
    """
    vector = f"vector<{lanes}xf32>"
    kinds, halves = ", ".join([vector] * len(sums)), sorted({half for _, half in cells})
    emit(
        "%nothing = llvm.mlir.zero : !llvm.ptr",
        '%finishes = llvm.icmp "ne" %finish, %nothing : !llvm.ptr',
        f"%done:{len(sums)} = scf.if %finishes -> ({kinds}) {{",
        *header_word("%behind", "%finish", OTHER),
        "%joins = arith.cmpi ne, %behind, %none : i64",
        "%bias_at = llvm.load %finish : !llvm.ptr -> !llvm.ptr",
        "%bias = llvm.getelementptr %bias_at[%term] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        *header_word("%rows_word", "%finish", BY_ROWS),
        "%is_by_rows = arith.cmpi ne, %rows_word, %none : i64",
        f"%terms:{len(sums)} = scf.if %is_by_rows -> ({kinds}) {{",
    )
    last = max(row for row, _ in cells)
    lasts = [place(row, 0, "t") for row in (last - 1, last)] if last else []
    of_rows = _plus_rows(emit, vector, zip([row for row, _ in cells], sums, strict=True), lasts)
    emit(
        f"scf.yield {', '.join(of_rows)} : {kinds}",
        "} else {",
        '%has_bias = llvm.icmp "ne" %bias_at, %nothing : !llvm.ptr',
        # What changes no number, not even a zero's sign.
        f"%no_bias = arith.constant dense<-0.0> : {vector}",
    )
    of_columns = [f"%bias{half}" for half in halves]
    kinds_of_columns = ", ".join([vector] * len(halves))
    places = [f"%bias{half}_at" for half in halves]
    emit(
        *(
            f"{place} = llvm.getelementptr %bias[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32"
            for half, place in zip(halves, places, strict=True)
        ),
        f"%column_terms:{len(halves)} = scf.if %has_bias -> ({kinds_of_columns}) {{",
        # Masks take as long as a step of the sums.
        f"%whole_terms:{len(halves)} = scf.if %full -> ({kinds_of_columns}) {{",
        *(
            f"{name} = llvm.load {place} {{alignment = 4 : i64}} : !llvm.ptr -> {vector}"
            for name, place in zip(of_columns, places, strict=True)
        ),
        f"scf.yield {', '.join(of_columns)} : {kinds_of_columns}",
        "} else {",
        *(
            masked_load(f"%part_of{half}", place, f"%m{half}", lanes, off="%no_bias")
            for half, place in zip(halves, places, strict=True)
        ),
        f"scf.yield {', '.join(f'%part_of{half}' for half in halves)} : {kinds_of_columns}",
        "}",
        f"scf.yield {', '.join(f'%whole_terms#{half}' for half in halves)} : {kinds_of_columns}",
        "} else {",
        f"scf.yield {', '.join(['%no_bias'] * len(halves))} : {kinds_of_columns}",
        "}",
    )
    added = [f"%added{row}_{half}" for row, half in cells]
    for (_, half), value, name in zip(cells, sums, added, strict=True):
        emit(f"{name} = arith.addf {value}, %column_terms#{half} : {vector}")
    emit(f"scf.yield {', '.join(added)} : {kinds}", "}")
    added = [f"%terms#{i}" for i in range(len(sums))]
    emit(f"%all:{len(sums)} = scf.if %joins -> ({kinds}) {{")
    joined = [f"%joined{row}_{half}" for row, half in cells]
    for (row, half), value, name in zip(cells, added, joined, strict=True):
        emit(
            bytes_behind(f"%other{row}_{half}_at", place(row, half, "o"), "%behind"),
            masked_load(f"%other{row}_{half}", f"%other{row}_{half}_at", f"%m{half}", lanes),
            f"{name} = arith.addf {value}, %other{row}_{half} : {vector}",
        )
    emit(f"scf.yield {', '.join(joined)} : {kinds}", "} else {", f"scf.yield {', '.join(added)} : {kinds}", "}")
    every = [f"%all#{i}" for i in range(len(sums))]
    emit(*header_word("%bounds", "%finish", BOUNDS))
    inside = _bounded(emit, vector, lanes, every, ("least", LEAST, "%none"))
    inside = _bounded(emit, vector, lanes, inside, ("most", MOST, "%one"))
    emit(f"scf.yield {', '.join(inside)} : {kinds}", "} else {", f"scf.yield {', '.join(sums)} : {kinds}", "}")
    return [f"%done#{i}" for i in range(len(sums))]


def _plus_rows(emit: Callable[..., None], vector: str, sums: Iterable[tuple[int, str]], lasts: Sequence[str]) -> list[str]:
    """The ``sums`` of rows, to each the number at ``%bias`` for its row. The last row may be the one before once more:
    ``lasts`` are the places of both, if there are two."""
    cells = list(sums)
    last = max(row for row, _ in cells)
    if lasts:
        emit(
            f'%is_again = llvm.icmp "eq" {", ".join(lasts)} : !llvm.ptr',
            f"%last_row = arith.constant {last} : i64",
            "%row_before = arith.subi %last_row, %one : i64",
            "%row_of_last = arith.select %is_again, %row_before, %last_row : i64",
        )
    for row in range(last + 1):
        at = "[%row_of_last] : (!llvm.ptr, i64)" if row == last and lasts else f"[{row}] : (!llvm.ptr)"
        emit(
            f"%row_term{row}_at = llvm.getelementptr %bias{at} -> !llvm.ptr, f32",
            f"%row_term{row}_number = llvm.load %row_term{row}_at : !llvm.ptr -> f32",
            f"%row_term{row} = vector.broadcast %row_term{row}_number : f32 to {vector}",
        )
    found = [f"%plus_row{number}" for number in range(len(cells))]
    for (row, value), name in zip(cells, found, strict=True):
        # Frozen, so that LLVM does not see the same addition where columns have the numbers, and hand on one for each of the
        # sums: that would be through memory (16 numbers summed up for each: 6 % of the time on Zen 3).
        emit(
            f"{name}_seen = arith.addf {value}, %row_term{row} : {vector}",
            f"{name} = llvm.freeze {name}_seen : {vector}",
        )
    return found


def _bounded(
    emit: Callable[..., None], vector: str, lanes: int, values: Sequence[str], bound: tuple[str, int, str]
) -> list[str]:
    """The ``values`` that one bound takes the place of: its name, its word, and how many bounds there are at most where
    it is not there."""
    name, number, fewer = bound
    kinds = ", ".join([vector] * len(values))
    emit(
        f"%has_{name} = arith.cmpi sgt, %bounds, {fewer} : i64",
        f"%within_{name}:{len(values)} = scf.if %has_{name} -> ({kinds}) {{",
        f"%{name}_at = llvm.getelementptr %finish[{number}] : (!llvm.ptr) -> !llvm.ptr, i64",
        f"%{name}_number = llvm.load %{name}_at : !llvm.ptr -> f32",
        f"%{name} = vector.broadcast %{name}_number : f32 to {vector}",
    )
    found = [f"%{name}_or{i}" for i in range(len(values))]
    for i, (value, inside) in enumerate(zip(values, found, strict=True)):
        order = (f"%{name}", value) if number == LEAST else (value, f"%{name}")
        emit(
            f"%beyond_{name}{i} = arith.cmpf ogt, {order[0]}, {order[1]} : {vector}",
            f"{inside} = arith.select %beyond_{name}{i}, %{name}, {value} : vector<{lanes}xi1>, {vector}",
        )
    emit(f"scf.yield {', '.join(found)} : {kinds}", "} else {", f"scf.yield {', '.join(values)} : {kinds}", "}")
    return [f"%within_{name}#{i}" for i in range(len(values))]
