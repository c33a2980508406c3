"""What register tiles ask for before they need it: columns, rows and results that no processor has in time by itself.

Which of these pay depends on the processor (`VectorUnit.fetches_ahead`, `panel_askers`, `loses_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, asked, bytes_behind
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_LINE = LINE_BYTES // 4
"""Numbers of float32 in a line of the cache."""
STEPS_OF_LINE = _LINE
"""Steps along the sum for which a line of a row has the numbers."""
_AHEAD = 12
"""Steps along the sum for which packed columns are asked for in advance: they come from the second-level cache."""
_AHEAD_OF_ONE_ROW = 40
"""The same for a tile of one row, which meets each packed column once: they come from farther away."""
AHEAD_OF_FIRST = 24
"""The same for columns that lie apart, maybe in memory, for the first rows that meet them: no processor knows by itself where
the next ones are."""


def result(name: str, row: str, width: int) -> list[str]:
    """So many numbers of a row of the result, which may be far from the others: they come while the sums are computed, from
    memory or another cache (a product of 1024 by 128 by 1024: 2 to 3 % on Zen 4)."""
    return _lines_of(name, row, range(0, width, _LINE), writing=True)


def columns(name: str, here: str, by_step: str, width: int, *, one_row: bool) -> list[str]:
    """The ``width`` columns of a later step than the one whose columns are ``here``, each ``by_step`` bytes behind the one
    before."""
    lines = [
        f"%{name}ahead_by = arith.constant {_AHEAD_OF_ONE_ROW if one_row else _AHEAD} : i64",
        f"%{name}ahead_far = arith.muli %{name}ahead_by, {by_step} : i64",
        bytes_behind(f"%{name}ahead", here, f"%{name}ahead_far"),
    ]
    return lines + _lines_of(f"{name}ahead", f"%{name}ahead", range(0, width, _LINE))


def far_columns(name: str, here: str, width: int) -> list[str]:
    """The ``width`` columns that lie ``%later`` bytes behind those that are ``here``, each vector maybe across lines."""
    return [bytes_behind(f"%{name}later", here, "%later"), *_lines_of(f"{name}later", f"%{name}later", _across_lines(width))]


def to_columns_beside(unit: VectorUnit) -> list[str]:
    """``%beside``: how many bytes behind its own columns, where they lie apart, those are that tile ``%tile_of_panel`` asks for
    meanwhile. The second asks for the next panel's, whose first tile then has its own near (64 rows of 256 numbers times 3136
    columns: 4 to 6 % less time on Zen 4); the others ask for what they read. ``%one`` and ``%none`` have to be there."""
    return [
        "%is_second = arith.cmpi eq, %tile_of_panel, %one : i64",
        f"%bytes_of_columns = arith.constant {unit.columns * 4} : i64",
        "%beside = arith.select %is_second, %bytes_of_columns, %none : i64",
    ]


def columns_beside(name: str, here: str, width: int) -> list[str]:
    """The ``width`` columns that lie ``%beside`` bytes behind those that are ``here`` (`to_columns_beside`)."""
    lines = _lines_of(f"{name}beside", f"%{name}beside", _across_lines(width), level=2)
    return [bytes_behind(f"%{name}beside", here, "%beside"), *lines]


def _across_lines(width: int) -> list[int]:
    """Numbers among ``width``, one at least in each line that they may lie in, wherever they begin."""
    return [*range(0, width, _LINE), width - 1]


def to_next_panel(unit: VectorUnit) -> list[str]:
    """``%to_following``: how many bytes behind the panel ``%b`` the next one is; ``%most_asked``: the last tile that asks."""
    if not unit.panel_askers:
        return []
    return [
        "%at_following = llvm.ptrtoint %following : !llvm.ptr to i64",
        "%at_b = llvm.ptrtoint %b : !llvm.ptr to i64",
        "%to_following = arith.subi %at_following, %at_b : i64",
        f"%most_asked = arith.constant {unit.panel_askers - 1} : i64",
    ]


def part_of_next_panel(unit: VectorUnit, unrolled: int) -> list[str]:
    """``%to_asked``: how many bytes behind the steps of a turn the part of the next panel is that tile ``%tile_of_panel`` asks
    for meanwhile: of as many steps there, as many lines for each that asks."""
    if not unit.panel_askers:
        return []
    return [
        f"%part = arith.constant {unrolled * unit.columns * 4 // unit.panel_askers} : i64",
        "%asker = arith.minui %tile_of_panel, %most_asked : i64",
        "%parts_before = arith.muli %asker, %part : i64",
        "%to_asked = arith.addi %to_following, %parts_before : i64",
    ]


def next_panel(unit: VectorUnit, tag: str, unrolled: int) -> list[str]:
    """This tile's part of the next panel, ``%to_asked`` bytes behind a turn's first step: from there, that it
    takes no pointer of its own (a product of 128 rows: an eighth faster on Cascade Lake, where it had driven others out)."""
    if not unit.panel_askers:
        return []
    numbers = range(0, unrolled * unit.columns // unit.panel_askers, _LINE)
    return [bytes_behind(f"%{tag}next", f"%{tag}0at", "%to_asked"), *_lines_of(f"{tag}next", f"%{tag}next", numbers, level=2)]


def words_of_next_panel(unit: VectorUnit, panel: str, words: int) -> list[str]:
    """So many words that step ``%k`` meets in the panel behind ``panel``, of ``%steps`` steps of ``%width`` words each, as
    tiles of integers and of bfloat16 have them: as `next_panel`, each tile all of it, for it costs little where the processor
    has what is read in order by itself (16 rows of 1024 numbers times 1024 columns: 12 % faster on Zen 4; 64 rows: 5 %, of
    bfloat16 3 %). Elsewhere nothing (BERT of int8 on Cascade Lake: 9 % faster without)."""
    if not unit.fetches_ahead or not unit.panel_askers:
        return []
    lines = [
        "%in_next = arith.addi %k, %steps : i64",
        "%to_next = arith.muli %in_next, %width : i64",
        f"%next = llvm.getelementptr {panel}[%to_next] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
    ]
    return lines + _lines_of("next", "%next", range(0, words, _LINE), level=2)


def next_tile(rows: int) -> list[str]:
    """``%to_next``: how many numbers behind a tile's rows those of the next one are in the left operand, if all rows are as far
    apart as the first two are."""
    return [
        "%row_far = arith.subi %oa1, %oa0 : i64",
        f"%to_last = arith.subi %oa{rows - 1}, %oa0 : i64",
        "%bytes_to_next = arith.addi %to_last, %row_far : i64",
        "%to_next = arith.divsi %bytes_to_next, %number : i64",
    ]


def next_rows(tag: str, rows: int, here: str, *, level: int) -> list[str]:
    """The next tile's rows, `STEPS_OF_LINE` steps of them from step ``here`` on, a line of each, into the cache of this
    ``level``. They may come from beyond the second, each from elsewhere (16384 rows of 128 numbers times 64 columns: a tenth
    faster on Zen 4, 1.4 times as fast on Zen 3); or into the first, where few columns leave them room in it (convolutions
    of 16 channels a group, where each row is a line somewhere else: half a per cent of RegNet)."""
    lines = [f"%{tag}behind = arith.addi {here}, %to_next : i64"]
    for row in range(rows):
        place = f"%{tag}asked{row}"
        lines += [
            f"{place} = llvm.getelementptr %a{row}[%{tag}behind] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
            asked(place, level=level),
        ]
    return lines


def _lines_of(name: str, base: str, numbers: Sequence[int], *, level: int = 1, writing: bool = False) -> list[str]:
    """The lines of so many numbers of float32 behind ``base``."""
    found = []
    for number in numbers:
        place = f"%{name}_{number}"
        found += [
            f"{place} = llvm.getelementptr {base}[{number}] : (!llvm.ptr) -> !llvm.ptr, f32",
            asked(place, level=level, writing=writing),
        ]
    return found
