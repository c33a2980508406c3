"""Blocks of a sum of products: of rows with packed columns, and of columns, which are packed before they meet all rows."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import (
    brain_products,
    coded_bytes,
    coded_columns,
    coded_words,
    column_packing,
    columns_in_place,
    contraction_panels,
    narrowed_rows,
    plain_tail_text,
    row_tables,
    tail_text,
    threads,
    tile_rows,
)
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, declared, header_word, product, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import (
    BLOCK_COLUMNS,
    COLUMNS_THAT_STAY,
    FEW_BLOCKS,
    FLAT_BLOCK_ROWS,
    HALF_OF_COLUMNS,
    Kind,
    segment_words,
)
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4

_LONG = 16 << 10
"""Bytes of a packed panel from which on that pays, for more rows than a tile has."""
_COLUMNS_AT_ONCE = 1 << 20
"""Bytes of columns that a thread packs before they meet all rows."""


FLAGS = (("%add", "i1"), ("%back", "i1"), ("%parts", "i64"), *contraction_panels.FEW)
"""Whether sums are added to what is there, whether blocks are walked from the last to the first (walking_back.py), and of how
many parts of the columns a panel each is done together: where there are several, the tail is what follows (column_parts.py),
and panels of the parts take turns (layout.py). How many columns are packed by themselves."""


class Blocks:
    """The functions of blocks of one batch, for one kind."""

    def __init__(self, unit: VectorUnit, kind: Kind, *, packing: bool) -> None:
        self.unit = unit
        self.kind = kind
        self.packing = packing
        self.sources = contraction_panels.SOURCE if kind.unpacked == 1 else []
        self.header = [*(["%header"] if kind.codes else []), *(["%narrow"] if kind.narrow else [])]
        self.segments = segment_words(kind.segments)
        unpacked = ["nb", *(f"r{letter}{i}" for i in range(kind.unpacked) for letter in ("n", "b"))]
        self.column_sizes = ["n", *([] if kind.packed else unpacked)]
        self.row_sizes = [f"m{letter}{i}" for i in range(kind.rows) for letter in ("n", "a", "c")]

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

    def _panel_bytes(self) -> list[str]:
        """``%far``: the bytes of a panel of packed columns."""
        if self.kind.codes:
            return header_word("%far", "%header", coded_words.PANEL)
        lines = [f"%panel = arith.constant {self.unit.columns * _BYTES} : i64"]
        return [*lines, product("far", ["%panel", *(f"%kn{i}" for i in range(self.kind.segments))])]

    def count(self) -> list[str]:
        """``%blocks``, ``%high`` by ``%wide``: into which the result of one batch falls; ``%block_rows``, as even as they are,
        and ``%panels_in`` one of ``%block_columns``.

        ``%by_rows``: whether blocks of the same rows follow each other, or those of the same columns. By rows the result is
        written along its rows; else it is the packed columns that stay in the second-level cache.
        """
        return [
            *self._panel_bytes(),
            f"%width = arith.constant {self.unit.columns} : i64",
            "%panels = arith.ceildivsi %n, %width : i64",
            "%bytes_of_all = arith.muli %far, %panels : i64",
            f"%staying = arith.constant {COLUMNS_THAT_STAY} : i64",
            "%by_rows = arith.cmpi sle, %bytes_of_all, %staying : i64",
            f"%flat = arith.constant {FLAT_BLOCK_ROWS} : i64",
            f"%tall = arith.constant {self.unit.block_rows} : i64",
            f"%few_blocks = arith.constant {FEW_BLOCKS} : i64",
            "%rows_or_one = arith.maxsi %ms, %one : i64",
            "%tall_blocks = arith.ceildivsi %rows_or_one, %tall : i64",
            "%are_few_rows = arith.cmpi slt, %tall_blocks, %few_blocks : i64",
            "%go_flat = arith.andi %by_rows, %are_few_rows : i1",
            "%most_rows = arith.select %go_flat, %flat, %tall : i64",
            # Codes become floats again for each block.
            f"%rows_of_blocks = arith.ceildivsi %rows_or_one, {'%tall' if self.kind.codes else '%most_rows'} : i64",
            "%rows_each = arith.ceildivsi %rows_or_one, %rows_of_blocks : i64",
            f"%row_step = arith.constant {tile_rows.STEP} : i64",
            "%steps_each = arith.ceildivsi %rows_each, %row_step : i64",
            "%block_rows = arith.muli %steps_each, %row_step : i64",
            "%high = arith.ceildivsi %ms, %block_rows : i64",
            f"%most_columns = arith.constant {BLOCK_COLUMNS} : i64",
            "%n_each = arith.divui %n, %parts : i64",
            "%widest = arith.ceildivsi %n_each, %most_columns : i64",
            "%fewest = arith.muli %high, %widest : i64",
            "%are_few = arith.cmpi slt, %fewest, %few_blocks : i64",
            f"%long = arith.constant {_LONG} : i64",
            "%are_long = arith.cmpi sge, %far, %long : i64",
            f"%one_tile = arith.constant {self.unit.rows} : i64",
            "%are_high = arith.cmpi sgt, %ms, %one_tile : i64",
            "%pay = arith.andi %are_long, %are_high : i1",
            "%halved = arith.andi %are_few, %pay : i1",
            f"%half_of_columns = arith.constant {HALF_OF_COLUMNS} : i64",
            "%usual = arith.select %halved, %half_of_columns, %most_columns : i64",
            # Of parts a panel each, as these follow each other in memory.
            "%has_parts = arith.cmpi sgt, %parts, %one : i64",
            "%block_columns = arith.select %has_parts, %width, %usual : i64",
            "%panels_in = arith.divui %block_columns, %width : i64",
            "%wide = arith.ceildivsi %n_each, %block_columns : i64",
            "%blocks = arith.muli %high, %wide : i64",
        ]

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
            "%no_row = arith.constant -1 : i64",
            "%both_ends = arith.addi %begin, %end : i64",
            "%mirror = arith.subi %both_ends, %one : i64",
            "%last_row = scf.for %turn = %begin to %end step %one iter_args(%known = %no_row) -> (i64) : i64 {",
            "%mirrored = arith.subi %mirror, %turn : i64",
            "%t = arith.select %back, %mirrored, %turn : i64",
            "%outer = arith.divui %t, %inner_count : i64",
            "%inner = arith.remui %t, %inner_count : i64",
            "%across = arith.select %by_rows, %inner, %outer : i64",
            "%down = arith.select %by_rows, %outer, %inner : i64",
            "%j_each = arith.muli %across, %block_columns : i64",
            "%i = arith.muli %down, %block_rows : i64",
            "%nleft = arith.subi %n_each, %j_each : i64",
            "%nh = arith.minsi %nleft, %block_columns : i64",
            "%mleft = arith.subi %ms, %i : i64",
            "%mh = arith.minsi %mleft, %block_rows : i64",
            "%others = arith.cmpi ne, %i, %known : i64",
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
            "scf.yield %i : i64",
            "}",
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
                *self._first_tile_packs(),
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
                "%low = arith.muli %j, %high : i64",
                "%top = arith.muli %after, %high : i64",
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

    def _first_tile_packs(self) -> list[str]:
        """``%packs``: whether the first tile packs columns as it reads them, for they are dense and it has as many rows as any;
        ``%step``: how many blocks of columns then are in the cache at a time, and ``%full``, panels."""
        if not self.sources:
            return []
        return [
            *_are_dense("%dense", "%bytes"),
            f"%can_pack = arith.constant {'true' if self.packing else 'false'}",
            "%m = arith.minsi %ms, %block_rows : i64",
            *tile_rows.first_is_full(self.unit),
            "%may_pack = arith.andi %dense, %is_full : i1",
            "%packs = arith.andi %may_pack, %can_pack : i1",
            "%full = arith.divui %n, %width : i64",
            "%step = arith.select %packs, %one, %at_once : i64",
            # The first rows come first.
            "%no = arith.constant false",
            "%back_here = arith.select %packs, %no, %back : i1",
        ]

    def in_place(self) -> list[str]:
        """``%in_place``: whether all rows read the columns where they lie, for they are dense, and so few or for so few rows
        that to pack them costs more than it saves; ``%to_pack``, how many panels are packed before all the same: the last if it
        is not whole; else all. ``%rest_from``: the first of these."""
        if not self.sources:
            return [
                "%in_place = arith.constant false",
                "%rest_from = arith.constant 0 : i64",
                "%to_pack = arith.maxsi %panels, %rest_from : i64",
            ]
        costs = "%few_or_near" if self.unit.leaves_columns else "%few_rows"
        return [
            *_are_dense("%is_dense", "%bytes_dense"),
            f"%most_in_place = arith.constant {columns_in_place.most_rows(self.unit)} : i64",
            "%few_rows = arith.cmpi sle, %ms, %most_in_place : i64",
            "%few_or_near = arith.ori %by_rows, %few_rows : i1",
            f"%in_place = arith.andi %is_dense, {costs} : i1",
            "%nothing_before = arith.constant 0 : i64",
            "%whole_panels = arith.divui %n, %width : i64",
            "%rest_from = arith.select %in_place, %whole_panels, %nothing_before : i64",
            "%to_pack = arith.subi %panels, %rest_from : i64",
        ]

    def columns_at_once(self) -> list[str]:
        """``%at_once``: how many blocks of columns a thread packs at a time; ``%room_of_one``: their bytes."""
        return [
            "%block_of_columns = arith.muli %far, %panels_in : i64",
            "%some_bytes = arith.maxsi %block_of_columns, %one : i64",
            f"%bytes_at_once = arith.constant {_COLUMNS_AT_ONCE} : i64",
            "%fitting = arith.divui %bytes_at_once, %some_bytes : i64",
            f"%run_of_panels = arith.constant {column_packing.RUN} : i64",
            "%most_at_once = arith.divui %run_of_panels, %panels_in : i64",
            "%some_blocks = arith.minsi %fitting, %most_at_once : i64",
            "%at_once = arith.maxsi %some_blocks, %one : i64",
            "%room_of_one = arith.muli %block_of_columns, %at_once : i64",
        ]


def _are_dense(name: str, size: str) -> list[str]:
    """``name``: whether columns lie side by side, a number's ``size`` apart."""
    return [f"{size} = arith.constant {_BYTES} : i64", f"{name} = arith.cmpi eq, %nb, {size} : i64"]


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
