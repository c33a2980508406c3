"""Blocks of a sum of products: of rows with packed columns, and of columns, which are packed before they meet all rows."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import (
    brain_products,
    coded_bytes,
    coded_columns,
    column_packing,
    contraction_panels,
    narrowed_rows,
    plain_tail_text,
    row_pieces,
    row_tables,
    tail_text,
    threads,
)
from onnx2torch_mlir.engine.compiler.block_sizes import BlockSizes
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, declared, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS

_BYTES = 4

FLAGS = (("%add", "i1"), ("%back", "i1"), ("%parts", "i64"), *contraction_panels.FEW)
"""Whether sums are added to what is there, whether blocks are walked from the last to the first (walking_back.py), and of how
many parts of the columns a panel each is done together: where there are several, the tail is what follows (column_parts.py),
and panels of the parts take turns (layout.py). How many columns are packed by themselves."""


class Blocks(BlockSizes):
    """The functions of blocks of one batch, for one kind."""

    def arguments(self) -> list[tuple[str, str]]:
        """What blocks of one batch are computed from: names and types."""
        pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c", *self.header)]
        sizes = words(["ms", "n", *self.row_sizes, *self.segments, "batch"])
        return [*pointers, *FLAGS, *sizes, *tail_text.ARGUMENTS]

    def arguments_of_blocks(self) -> list[tuple[str, str]]:
        """The same, and where columns are that the first rows are to pack."""
        return [*self.arguments(), *self.sources]

    def arguments_of_columns(self) -> list[tuple[str, str]]:
        """What blocks of columns are packed and computed from: the same, how columns lie in memory, and where they go."""
        return [*self.arguments(), *words(self.column_sizes[1:]), ("%packed", "!llvm.ptr")]

    def blocks(self, name: str) -> str:
        """Blocks ``begin`` to ``end`` of the result of one batch."""
        moved = {"%table": "%rows", "%m": "%mh", "%b": "%bj", "%n": "%nh", "%c": "%target", "%column": "%j", "%across": "%n"}
        moved |= {"%tail": "%tail_of_sums", "%tail_words": "%words_of_sums", "%meets": "%others"}
        moved |= contraction_panels.of_segments(self.kind.segments)
        moved |= {"%fresh": "%fresh_here", "%source": "%from"} if self.sources else contraction_panels.PACKED
        panels = [contraction_panels.call("panels", self.kind.segments, moved)]
        if self.kind.has_rows_alone:
            single = contraction_panels.call("row", self.kind.segments, moved)
            panels = ["%is_row = arith.cmpi eq, %mh, %one : i64", "scf.if %is_row {", single, "} else {", *panels, "}"]
        if self.kind.codes:
            of_block = tail_text.call("%sums", ["row", "mh", "j", "nh", "n"])
            moved["%k"] = "%kn0"
            panels = [coded_columns.call(moved)]
            if self.kind.narrow:
                multiplied = coded_bytes.call(moved) if self.kind.narrow == "bytes" else brain_products.call(self.unit, moved)
                panels = ["scf.if %are_narrow {", multiplied, "} else {", *panels, "}"]
            panels += ["scf.if %has_tail {", of_block, "}"]
        lines = [
            f"func.func private @{name}({declared(self.arguments_of_blocks())}, {threads.RANGE}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *([] if self.sources else ["%no = arith.constant false"]),
            *own("rows", (self.unit.block_rows + 1) * row_tables.ENTRY_BYTES),
            *own("sums", self.unit.block_rows * BLOCK_COLUMNS * _BYTES),
            *self.count(),
            "%nothing = llvm.mlir.zero : !llvm.ptr",
            "%tail_of_sums = arith.select %has_parts, %nothing, %tail : !llvm.ptr",
            "%words_of_sums = arith.select %has_parts, %nothing, %tail_words : !llvm.ptr",
            *tail_text.follows("%tail_of_sums", "%words_of_sums"),
            *tail_text.steps(self.kind.rows),
            *(narrowed_rows.are_narrow() if self.kind.narrow else []),
            "%step = arith.muli %far, %panels_in : i64",
            # Blocks of the same rows are side by side, and what follows is done for all of them at once.
            "%is_flat = arith.cmpi eq, %high, %one : i64",
            "%follows_all = arith.andi %has_parts, %is_flat : i1",
            "%follows_here = arith.xori %has_parts, %follows_all : i1",
            "%inner_count = arith.select %by_rows, %wide, %high : i64",
            "%before = arith.muli %batch, %ms : i64",
            *row_pieces.runs(self._rows_of_block(), self._block(panels), back=True),
            "scf.if %follows_all {",
            "%j_first = arith.muli %begin, %block_columns : i64",
            "%j_behind = arith.muli %end, %block_columns : i64",
            "%j_last = arith.minsi %j_behind, %n_each : i64",
            "%n_all = arith.subi %j_last, %j_first : i64",
            tail_text.call("%c", ["before", "ms", "j_first", "n_all", "n_each"]),
            "}",
            "return",
            "}",
        ]
        return "\n".join(lines)

    def _rows_of_block(self) -> list[str]:
        """``%nh`` columns of block ``%t``, the first of them ``%j_each`` of a part, and its rows from ``%i`` on."""
        return [
            "%outer = arith.divui %t, %inner_count : i64",
            "%inner = arith.remui %t, %inner_count : i64",
            "%across = arith.select %by_rows, %inner, %outer : i64",
            "%down = arith.select %by_rows, %outer, %inner : i64",
            "%j_each = arith.muli %across, %block_columns : i64",
            "%block_row = arith.muli %down, %block_rows : i64",
            "%nleft = arith.subi %n_each, %j_each : i64",
            "%nh = arith.minsi %nleft, %block_columns : i64",
            "%mleft = arith.subi %ms, %block_row : i64",
            "%m = arith.minsi %mleft, %block_rows : i64",
            *row_pieces.rows(self.unit),
        ]

    def _block(self, panels: list[str]) -> list[str]:
        """``%mh`` of its rows, of each part, by calls that multiply ``panels``."""
        return [
            "scf.if %others {",
            row_tables.write_for_tiles("m", self.kind.rows, ("ma", "mt"), ("%rows", "%i", "%mh")),
            *plain_tail_text.put_rows("%rows", "%i", "%mh", "%finish"),
            "}",
            "%row = arith.addi %before, %i : i64",
            "%parts_before = arith.muli %across, %parts : i64",
            "scf.for %part = %none to %parts step %one : i64 {",
            "%columns_before = arith.muli %part, %n_each : i64",
            "%j = arith.addi %j_each, %columns_before : i64",
            "%step_here = arith.addi %parts_before, %part : i64",
            "%fb = arith.muli %step_here, %step : i64",
            "%bj = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            *tail_text.target(),
            *self._source_of_block(),
            *panels,
            "}",
            "scf.if %follows_here {",
            tail_text.call("%c", ["row", "mh", "j_each", "nh", "n_each"]),
            "}",
        ]

    def columns(self, name: str, blocks: str) -> str:
        """Blocks ``begin`` to ``end`` of columns of one batch: some are packed, then meet all rows while in the cache; or the
        first tile that meets them packs them."""
        moved = {"%b": "%there"}
        step, begin, start = "%at_once", "%first", list[str]()
        if self.sources:
            step, begin = "%step", "%from"
            moved |= {"%fresh": "%packs", "%in_place": "%no", "%source": "%b", "%apart": "%rb0", "%back": "%back_here"}
            # What is left of a panel at the end is packed before.
            start = ["%whole = arith.minsi %full, %last : i64", "%from = arith.select %packs, %whole, %first : i64"]
        given = ["%there", "%b", "%far", *(f"%{name}" for name in self.column_sizes), begin, "%last", "%worker"]
        types = ["!llvm.ptr", "!llvm.ptr", *["i64"] * (len(given) - 2)]
        return "\n".join(
            [
                f"func.func private @{name}({declared(self.arguments_of_columns())}, {threads.RANGE}) {{",
                "%none = arith.constant 0 : i64",
                "%one = arith.constant 1 : i64",
                *self.count(),
                *self.columns_at_once(),
                *self.first_tile_packs(),
                "%mine = arith.muli %worker, %room_of_one : i64",
                "%own = llvm.getelementptr %packed[%mine] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                f"scf.for %j = %begin to %end step {step} : i64 {{",
                f"%next = arith.addi %j, {step} : i64",
                "%after = arith.minsi %next, %end : i64",
                "%first = arith.muli %j, %panels_in : i64",
                "%behind = arith.muli %after, %panels_in : i64",
                "%last = arith.minsi %behind, %panels : i64",
                # As if the columns before were there too.
                "%gone = arith.muli %first, %far : i64",
                "%less = arith.subi %none, %gone : i64",
                "%there = llvm.getelementptr %own[%less] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                *start,
                f"func.call @{column_packing.part_name(self.kind.unpacked)}({', '.join(given)}) : ({', '.join(types)}) -> ()",
                "%high_pieces = arith.muli %high, %pieces : i64",
                "%low = arith.muli %j, %high_pieces : i64",
                "%top = arith.muli %after, %high_pieces : i64",
                call_range(blocks, self.arguments_of_blocks(), moved, "%low, %top, %worker"),
                "}",
                "return",
                "}",
            ]
        )

    def _source_of_block(self) -> list[str]:
        """``%fresh_here``, ``%from``: whether the first rows meet columns that are not packed, and where the block's lie."""
        if not self.sources:
            return []
        return [
            "%is_first = arith.cmpi eq, %i, %none : i64",
            "%fresh_here = arith.andi %fresh, %is_first : i1",
            "%from = llvm.getelementptr %source[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        ]

def call_range(name: str, arguments: list[tuple[str, str]], moved: dict[str, str], items: str) -> str:
    """A call of a function for a range of ``items``: begin, end, worker; arguments may be ``moved``."""
    given = ", ".join(moved.get(value, value) for value, _ in arguments)
    return f"func.call @{name}({given}, {items}) : ({', '.join(type_ for _, type_ in arguments)}, i64, i64, i64) -> ()"


def call_all(name: str, arguments: list[tuple[str, str]], moved: dict[str, str], items: str) -> str:
    """The same of what shares all ``items`` (how many, work of one) among threads."""
    return threads.on_all(name, items, [(moved.get(value, value), type_) for value, type_ in arguments])


def own(name: str, size: int) -> list[str]:
    """``%name``: so many bytes of the function's own."""
    return [
        f"%{name}_size = arith.constant {size} : i64",
        f"%{name} = llvm.alloca %{name}_size x i8 {{alignment = {LINE_BYTES} : i64}} : (i64) -> !llvm.ptr",
    ]
