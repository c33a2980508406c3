"""Sums of products with few columns: dot products, with vectors along the sum rather than along the columns.

A vector of columns would be empty for the most part: an image of three channels is made of many at the end of most networks
whose results are images. Here a tile holds, for a few rows and all columns, a vector of partial sums each, which walk along
the innermost segment; only at the end are they added up. Each column is packed by itself, all of its segments side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler import row_tables, run_sums, segment_loops, tail_text, threads
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, called, constants, declared, masked_load, product, words
from onnx2torch_mlir.engine.compiler.contraction_blocks import call_all, own
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS, PRODUCTS, segment_words
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import Packing

_BYTES = 4
_HIGHEST = 8
_BLOCK = 3 * _HIGHEST
"""Rows of a block, which threads share."""
_LEAST_VECTORS = 4
"""Along the whole sum, for each partial sum: what adds them up at the end takes as long as two or three of them."""
_FULL = 0.7
"""What part of the vectors' numbers is to be used, for the innermost segment may not fill its last one."""


@dataclass(frozen=True)
class DotKind:
    """How many dims of rows, segments of the left operand and columns there are."""

    rows: int
    segments: int
    columns: int

    @property
    def name(self) -> str:
        """The function: @name(context, left operand, packed columns, result, words, what a tail is told)."""
        return f"o2m_dots_{self.rows}_{self.segments}_{self.columns}"

    @property
    def words(self) -> list[str]:
        """The names of its i64 arguments: for each dim of the rows its count and its steps, in bytes, in the left operand and
        in the result; for each segment its count and, but for the innermost, its step in the left operand."""
        found = [f"m{letter}{i}" for i in range(self.rows) for letter in "nac"]
        return found + segment_words(self.segments)


def kind_of(unit: VectorUnit, found: Contraction, packing: Packing | None) -> DotKind | None:
    """What a contraction is here, if that pays: its columns are packed as floats, and are few."""
    # More than half of a vector of columns is better than what adds up the lanes of each sum.
    if packing is None or packing.codes or found.batches or 2 * packing.columns[0] > unit.lanes:
        return None
    lengths = all_known(found.known_segments)
    if lengths is None or not lengths[-1]:
        return None
    vectors = -(-lengths[-1] // unit.lanes)
    every = vectors * (_length(packing) // lengths[-1])
    if every < _LEAST_VECTORS or lengths[-1] < _FULL * vectors * unit.lanes:
        return None
    return DotKind(len(found.rows), len(lengths), packing.columns[0])


def by_rows(found: Contraction) -> Contraction:
    """The same with a row for each column, where the left operand is the only thing that they meet: one column of a weight."""
    rows = sorted([*found.batches, *([] if found.column is None else [found.column])])
    left, right = found.operands[found.right], found.operands[found.left]
    dense = [dim for dim in found.segments if left.step(dim) == 1]
    if found.rows or not dense or any(right.moves(dim) for dim in rows):
        return found
    segments = [dim for dim in found.segments if dim != dense[-1]] + [dense[-1]]
    return replace(found, left=found.right, right=found.left, batches=[], rows=rows, column=None, segments=segments)


def packing_of(packing: Packing) -> Packing:
    """The weight of a match, each column by itself."""
    return replace(packing, width=1)


def call(found: Contraction, kind: DotKind, pointers: list[ir.Value], told: list[ir.Value]) -> None:
    """A call at the insertion point. ``pointers`` come before `DotKind.words`, what a tail is ``told`` behind them."""
    sizes, given = Sizes(found), list[ir.Value]()
    for dim in found.rows:
        given += [sizes.count(dim), sizes.step(found.left, dim), sizes.step(2, dim)]
    *outer, last = found.merged()
    for group in outer:
        given += [sizes.count_of(group), sizes.step(found.left, group[-1])]
    func.CallOp([], ir.FlatSymbolRefAttr.get(kind.name), [*pointers, *given, sizes.count_of(last), *told])


def _length(packing: Packing) -> int:
    """How many numbers a packed column has."""
    return math.prod(count for count, _ in packing.segments)


def functions_for(unit: VectorUnit, kinds: Sequence[DotKind]) -> list[str]:
    """Their texts; tables of rows (row_tables.py) have to be there."""
    tiles = {(kind.segments, rows, kind.columns) for kind in kinds for rows in _heights(unit, kind.columns)}
    return [_Tile(unit, *tile).text() for tile in sorted(tiles)] + [_driver(unit, kind) for kind in kinds]


def _heights(unit: VectorUnit, columns: int) -> list[int]:
    """Rows of tiles, the highest first: a power of two, whose sums with all columns fit into one vector, and partial sums into
    half of the registers; and one."""
    fitting = min(unit.lanes // columns, _HIGHEST)
    return sorted({1 << (fitting.bit_length() - 1), 1}, reverse=True)


def _tile_name(segments: int, rows: int, columns: int) -> str:
    return f"o2m_dot_tile_{segments}_{rows}_{columns}"


def _tile_arguments(segments: int) -> list[tuple[str, str]]:
    """The left operand, the table of rows from the tile's first, the packed columns and the bytes of one, and the result."""
    pointers = [(f"%{name}", "!llvm.ptr") for name in ("a", "rows", "b", "c")]
    return [*pointers, *words(["far", *segment_words(segments)])]


class _Tile:
    """The function of a tile."""

    def __init__(self, unit: VectorUnit, segments: int, rows: int, columns: int) -> None:
        self.lanes, self.segments, self.rows, self.columns = unit.lanes, segments, rows, columns
        self.vector = f"vector<{unit.lanes}xf32>"
        self.cells = [(row, column) for row in range(rows) for column in range(columns)]
        self.lines: list[str] = []

    def emit(self, *lines: str) -> None:
        self.lines.extend(lines)

    def text(self) -> str:
        self.emit(
            f"func.func private @{_tile_name(self.segments, self.rows, self.columns)}"
            f"({declared(_tile_arguments(self.segments))}) {{",
            *constants(none=0, one=1, bytes=_BYTES),
            f"%zero = arith.constant dense<0.0> : {self.vector}",
            *run_sums.end_of_run(self.lanes, f"%kn{self.segments - 1}"),
            f"%run = arith.muli %kn{self.segments - 1}, %bytes : i64",
        )
        self.emit(*segment_loops.places_of_rows(self.rows))
        for column in range(self.columns):
            before = f"%b{column - 1}" if column else "%b"
            self.emit(bytes_behind(f"%b{column}", before, "%far" if column else "%none"))
        rows = [f"%a{row}" for row in range(self.rows)]
        start = ["%zero"] * len(self.cells)
        sums = segment_loops.around(self.emit, self.segments - 1, rows, start, self.vector, self._dense)
        self._store(run_sums.added_up(self.emit, sums, self.lanes))
        self.emit("return", "}")
        return "\n".join(self.lines)

    def _dense(self, rows: Sequence[str], sums: Sequence[str], at: str) -> tuple[list[str], str]:
        """Vectors along the innermost segment, the last one masked."""
        columns = [f"%w{column}" for column in range(self.columns)]
        self.emit(*(bytes_behind(name, f"%b{column}", at) for column, name in enumerate(columns)))

        def step(tag: str, place: str, before: Sequence[str], masked: bool) -> list[str]:
            return self._step(tag, place, rows, columns, before, masked=masked)

        found = run_sums.along_run(self.emit, self.lanes, sums, step)
        self.emit(f"%after = arith.addi {at}, %run : i64")
        return found, "%after"

    def _step(
        self, tag: str, place: str, rows: Sequence[str], columns: Sequence[str], sums: Sequence[str], *, masked: bool
    ) -> list[str]:
        """The products of a vector of each row by one of each column, added to the ``sums``."""
        for name, sources in (("x", rows), ("y", columns)):
            for number, source in enumerate(sources):
                found = f"%{tag}{name}{number}"
                self.emit(f"{found}p = llvm.getelementptr {source}[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, f32")
                self.emit(
                    masked_load(found, f"{found}p", "%mask", self.lanes)
                    if masked
                    else f"{found} = llvm.load {found}p {{alignment = 4 : i64}} : !llvm.ptr -> {self.vector}"
                )
        after = []
        for (row, column), total in zip(self.cells, sums, strict=True):
            after.append(f"%{tag}s{row}_{column}")
            self.emit(f"{after[-1]} = math.fma %{tag}x{row}, %{tag}y{column}, {total} : {self.vector}")
        return after

    def _store(self, total: str) -> None:
        """The sums of each row, side by side."""
        part = f"vector<{self.columns}xf32>"
        for row in range(self.rows):
            lanes = list(range(row * self.columns, (row + 1) * self.columns))
            self.emit(
                f"%sums{row} = vector.shuffle {total}, {total} {lanes} : {self.vector}, {self.vector}",
                f"llvm.store %sums{row}, %c{row} {{alignment = 4 : i64}} : {part}, !llvm.ptr",
            )


def _driver(unit: VectorUnit, kind: DotKind) -> str:
    """The function that programs call, and the one that does some blocks of rows."""
    blocks = f"{kind.name}_blocks"
    pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c")]
    arguments = [*pointers, *words(["ms", "length", *kind.words]), *tail_text.ARGUMENTS]

    def tile(rows: int) -> str:
        moved = {"%rows": "%row_place", "%c": "%target"}
        typed = [(moved.get(name, name), type_) for name, type_ in _tile_arguments(kind.segments)]
        return called(_tile_name(kind.segments, rows, kind.columns), typed)

    of_blocks = [
        f"func.func private @{blocks}({declared(arguments)}, {threads.RANGE}) {{",
        *constants(none=0, one=1, block=_BLOCK, j=0, n=kind.columns, bytes=_BYTES),
        *own("rows", _BLOCK * row_tables.ENTRY_BYTES),
        *own("sums", _BLOCK * BLOCK_COLUMNS * _BYTES),
        *tail_text.follows(),
        *tail_text.steps(kind.rows),
        "%far = arith.muli %length, %bytes : i64",
        "scf.for %t = %begin to %end step %one : i64 {",
        "%i = arith.muli %t, %block : i64",
        "%left = arith.subi %ms, %i : i64",
        "%mh = arith.minsi %left, %block : i64",
        row_tables.write("m", kind.rows, ("ma", "mt"), ("%rows", "%i", "%mh")),
        *tail_text.target(),
        *segment_loops.down_rows(_heights(unit, kind.columns), "%mh", tile),
        "scf.if %has_tail {",
        tail_text.call("%sums", ["i", "mh", "j", "n", "n"]),
        "}",
        "}",
        "return",
        "}",
    ]
    given = declared([*pointers, *words(kind.words), *tail_text.ARGUMENTS])
    entry = [
        f"func.func private @{kind.name}(%ctx: !llvm.ptr, {given}) {{",
        *constants(one=1, block=_BLOCK, most=PRODUCTS, columns=kind.columns),
        product("ms", [f"%mn{i}" for i in range(kind.rows)]),
        product("length", [f"%kn{i}" for i in range(kind.segments)]),
        "%blocks = arith.ceildivsi %ms, %block : i64",
        product("all", ["%length", "%columns", "%block"]),
        "%work = arith.divui %all, %most : i64",
        call_all(blocks, arguments, {}, "%blocks, %work"),
        "return",
        "}",
    ]
    return "\n".join([*of_blocks, threads.spread(blocks, [type_ for _, type_ in arguments]), *entry])
