"""Sums of products of any shape: packed columns, blocks of rows and columns, and who computes which, on several threads.

The functions take every size and stride at run time (strides in bytes), so one of each kind (contraction_kinds.py) serves all
contractions of a program.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import (
    coded_columns,
    column_packing,
    contraction_panels,
    register_tile,
    row_tables,
    threads,
)
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, declared, header_word, product, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS, BLOCK_ROWS, FLAT_BLOCK_ROWS, Kind
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4

_COLUMNS_THAT_STAY = 512 << 10
"""Bytes of packed columns that stay in the second-level cache while one block of rows after the other meets them."""
_COLUMNS_AT_ONCE = 1 << 20
"""Bytes of columns that a thread packs before they meet all rows."""
_COLUMNS_FOR_EACH = 8
"""Blocks of columns for each thread, where threads share these: with fewer some would have much more to do than others."""
_PRODUCTS = 8
"""Products and sums that take as long as one operation on an element elsewhere (threads.py)."""


_OF_BATCH = {"%a": "%a_", "%b": "%b_", "%c": "%c_"}
"""The operands of the batch at hand (`_Contract._moved`)."""


def functions_for(unit: VectorUnit, kinds: set[Kind], halves: tuple[int, ...]) -> str:
    """The texts of the functions of ``kinds`` and of what they call, but for the tails.

    ``halves``: how many vectors of columns tiles have.
    """
    texts = [
        row_tables.rows(count, of_block=of_block)
        for count, of_block in sorted({(kind.rows, kind.tail is not None) for kind in kinds})
    ]
    texts += [
        register_tile.tile(unit, segments, rows, half)
        for segments in range(1, max(kind.segments for kind in kinds) + 1)
        for rows in range(1, unit.rows + 1)
        for half in halves
    ]
    texts += _panels_for(unit, kinds, halves)
    texts += [
        column_packing.functions_for(unit, count) for count in sorted({kind.unpacked for kind in kinds if not kind.packed})
    ]
    if any(kind.codes for kind in kinds):
        texts.append(coded_columns.functions(unit))
    for kind in sorted(kinds, key=lambda kind: kind.name):
        texts += [_Contract(unit, kind).text()]
    return "\n".join(texts)


def _panels_for(unit: VectorUnit, kinds: set[Kind], halves: tuple[int, ...]) -> list[str]:
    """The loops around tiles that the functions of ``kinds`` call."""
    texts = []
    wanted = {(kind.tail_of_tiles, kind.segments) for kind in kinds}
    for tail in sorted({tail for tail, _ in wanted}, key=str):
        counts = sorted({count for of, count in wanted if of == tail})
        for count in range(1, counts[-1] + 1):
            texts += [contraction_panels.tile_loop(unit, count, tail, halves), contraction_panels.panel(unit, count, tail)]
        texts += [contraction_panels.panels(unit, count, tail) for count in counts]
    return texts


class _Contract:
    """The functions of a kind: blocks of one batch, batches one after the other, and what shares these among threads."""

    def __init__(self, unit: VectorUnit, kind: Kind) -> None:
        self._unit = unit
        self._kind = kind
        self._after = () if kind.tail is None else kind.tail.types
        self._header = ["%header"] if kind.codes else []
        self._given = [f"%t{i}" for i in range(len(self._after))]
        self._segments = [
            name for i in range(kind.segments) for name in ([f"kn{i}", f"ka{i}"] if i < kind.segments - 1 else [f"kn{i}"])
        ]
        self._columns = ["n"] if kind.packed else ["n", "nb", *(f"r{x}{i}" for i in range(kind.unpacked) for x in ("n", "b"))]
        self._batches = [f"b{letter}{i}" for i in range(kind.batches) for letter in ("n", "a", "b", "c")]
        self._rows = [f"m{letter}{i}" for i in range(kind.rows) for letter in ("n", "a", "c")]

    def text(self) -> str:
        """All of them."""
        kind = self._kind
        blocks, columns, batches = (f"{kind.name}_{part}" for part in ("blocks", "columns", "batches"))
        texts = [self._blocks(blocks), threads.spread(blocks, [t for _, t in self._of_blocks()])]
        if not kind.packed:
            texts += [self._columns_function(columns, blocks), threads.spread(columns, [t for _, t in self._of_columns()])]
        texts += [self._batches_function(batches, blocks, columns)]
        texts += [threads.spread(batches, [t for _, t in self._of_batches()])]
        return "\n".join([*texts, self._entry(blocks, columns, batches)])

    def _of_blocks(self) -> list[tuple[str, str]]:
        """What blocks of one batch are computed from: names and types."""
        pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c", *self._header)]
        sizes = words(["ms", "n", *self._rows, *self._segments, "batch"])
        return [*pointers, ("%add", "i1"), *sizes, *zip(self._given, self._after, strict=True)]

    def _of_columns(self) -> list[tuple[str, str]]:
        """What blocks of columns are packed and computed from: the same, how columns lie in memory, and where they go."""
        return [*self._of_blocks(), *words(self._columns[1:]), ("%packed", "!llvm.ptr")]

    def _of_batches(self) -> list[tuple[str, str]]:
        """The same for all batches; the packed columns come last, and whether each batch's are packed block by block."""
        pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c", *self._header)]
        sizes = words(["ms", *self._columns, *self._rows, *self._segments, *self._batches])
        extra = [] if self._kind.packed else [("%packed", "!llvm.ptr"), ("%by_columns", "i1")]
        return [*pointers, ("%add", "i1"), *sizes, *zip(self._given, self._after, strict=True), *extra]

    def _panel_bytes(self) -> list[str]:
        """``%far``: the bytes of a panel of packed columns."""
        if self._kind.codes:
            return header_word("%far", "%header", coded_columns.PANEL)
        lines = [f"%panel = arith.constant {self._unit.columns * _BYTES} : i64"]
        return [*lines, product("far", ["%panel", *(f"%kn{i}" for i in range(self._kind.segments))])]

    def _blocks(self, name: str) -> str:
        """Blocks ``begin`` to ``end`` of the result of one batch."""
        kind, tail = self._kind, self._kind.tail
        of_tile = kind.tail_of_tiles
        types = [type_ for _, type_ in contraction_panels.panels_arguments(kind.segments, of_tile)]
        target = "%sums" if tail is not None else "%cj"
        given = ["%a", "%rows", "%mh", "%bj", "%nh", target, "%add", *(f"%{name}" for name in self._segments)]
        panels = contraction_panels.panels_name(kind.segments, of_tile)
        if of_tile is not None:
            given += ["%row", "%j", "%n", *self._given]
        if kind.codes:
            given, types, panels = ["%header", *given], ["!llvm.ptr", *types], "o2m_coded_panels"
        lines = [
            f"func.func private @{name}({declared(self._of_blocks())}, {threads.RANGE}) {{",
            "%one = arith.constant 1 : i64",
            *_own("rows", BLOCK_ROWS * row_tables.ENTRY_BYTES),
            *(_own("sums", BLOCK_ROWS * BLOCK_COLUMNS * _BYTES) if tail is not None else []),
            *self._count_of_blocks(),
            f"%panels_in = arith.constant {BLOCK_COLUMNS // self._unit.columns} : i64",
            "%step = arith.muli %far, %panels_in : i64",
            "%inner_count = arith.select %by_rows, %wide, %high : i64",
            "%before = arith.muli %batch, %ms : i64",
            "%no_row = arith.constant -1 : i64",
            "%last_row = scf.for %t = %begin to %end step %one iter_args(%known = %no_row) -> (i64) : i64 {",
            "%outer = arith.divui %t, %inner_count : i64",
            "%inner = arith.remui %t, %inner_count : i64",
            "%across = arith.select %by_rows, %inner, %outer : i64",
            "%down = arith.select %by_rows, %outer, %inner : i64",
            "%j = arith.muli %across, %block_columns : i64",
            "%i = arith.muli %down, %block_rows : i64",
            "%nleft = arith.subi %n, %j : i64",
            "%nh = arith.minsi %nleft, %block_columns : i64",
            "%mleft = arith.subi %ms, %i : i64",
            "%mh = arith.minsi %mleft, %block_rows : i64",
            "%others = arith.cmpi ne, %i, %known : i64",
            "scf.if %others {",
            row_tables.write("m", kind.rows, ("ma", "mc"), ("%rows", "%i", "%mh"), of_block=tail is not None),
            "}",
            "%fb = arith.muli %across, %step : i64",
            "%bj = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        ]
        if tail is None:
            lines.append("%cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32")
        if tail is not None:
            lines.append("%row = arith.addi %before, %i : i64")
        lines.append(f"func.call @{panels}({', '.join(given)}) : ({', '.join(types)}) -> ()")
        if tail is not None and of_tile is None:
            given = ["%sums", "%row", "%mh", "%j", "%nh", "%n", *self._given]
            types = ["!llvm.ptr", *["i64"] * 5, *tail.types]
            lines.append(f"func.call @{tail.name}({', '.join(given)}) : ({', '.join(types)}) -> ()")
        return "\n".join([*lines, "scf.yield %i : i64", "}", "return", "}"])

    def _count_of_blocks(self) -> list[str]:
        """``%blocks``, ``%high`` by ``%wide``: into which the result of one batch falls; ``%block_rows``, as even as they are.

        ``%by_rows``: whether blocks of the same rows follow each other, or those of the same columns. By rows the result is
        written along its rows; else it is the packed columns that stay in the second-level cache.
        """
        return [
            *self._panel_bytes(),
            f"%width = arith.constant {self._unit.columns} : i64",
            "%panels = arith.ceildivsi %n, %width : i64",
            "%bytes_of_all = arith.muli %far, %panels : i64",
            f"%staying = arith.constant {_COLUMNS_THAT_STAY} : i64",
            "%by_rows = arith.cmpi sle, %bytes_of_all, %staying : i64",
            f"%flat = arith.constant {FLAT_BLOCK_ROWS} : i64",
            f"%tall = arith.constant {BLOCK_ROWS} : i64",
            "%most_rows = arith.select %by_rows, %flat, %tall : i64",
            "%rows_or_one = arith.maxsi %ms, %one : i64",
            "%rows_of_blocks = arith.ceildivsi %rows_or_one, %most_rows : i64",
            "%block_rows = arith.ceildivsi %rows_or_one, %rows_of_blocks : i64",
            f"%block_columns = arith.constant {BLOCK_COLUMNS} : i64",
            "%high = arith.ceildivsi %ms, %block_rows : i64",
            "%wide = arith.ceildivsi %n, %block_columns : i64",
            "%blocks = arith.muli %high, %wide : i64",
        ]

    def _columns_function(self, name: str, blocks: str) -> str:
        """Blocks ``begin`` to ``end`` of columns of one batch: some are packed, and meet all rows while they are in the cache."""
        given = ["%there", "%b", "%far", *(f"%{name}" for name in self._columns), "%first", "%last", "%worker"]
        types = ["!llvm.ptr", "!llvm.ptr", *["i64"] * (len(given) - 2)]
        return "\n".join(
            [
                f"func.func private @{name}({declared(self._of_columns())}, {threads.RANGE}) {{",
                "%none = arith.constant 0 : i64",
                "%one = arith.constant 1 : i64",
                *self._count_of_blocks(),
                *self._columns_at_once(),
                "%mine = arith.muli %worker, %room_of_one : i64",
                "%own = llvm.getelementptr %packed[%mine] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                "scf.for %j = %begin to %end step %at_once : i64 {",
                "%next = arith.addi %j, %at_once : i64",
                "%after = arith.minsi %next, %end : i64",
                "%first = arith.muli %j, %panels_in : i64",
                "%behind = arith.muli %after, %panels_in : i64",
                "%last = arith.minsi %behind, %panels : i64",
                # As if the columns before were there too.
                "%gone = arith.muli %first, %far : i64",
                "%back = arith.subi %none, %gone : i64",
                "%there = llvm.getelementptr %own[%back] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                f"func.call @{column_packing.part_name(self._kind.unpacked)}({', '.join(given)}) : ({', '.join(types)}) -> ()",
                "%low = arith.muli %j, %high : i64",
                "%top = arith.muli %after, %high : i64",
                self._call_blocks(blocks, {"%b": "%there"}, "%low, %top, %worker"),
                "}",
                "return",
                "}",
            ]
        )

    def _columns_at_once(self) -> list[str]:
        """``%at_once``: how many blocks of columns a thread packs at a time; ``%room_of_one``: their bytes."""
        panels = BLOCK_COLUMNS // self._unit.columns
        return [
            f"%panels_in = arith.constant {panels} : i64",
            "%block_of_columns = arith.muli %far, %panels_in : i64",
            "%some_bytes = arith.maxsi %block_of_columns, %one : i64",
            f"%bytes_at_once = arith.constant {_COLUMNS_AT_ONCE} : i64",
            "%fitting = arith.divui %bytes_at_once, %some_bytes : i64",
            f"%most_at_once = arith.constant {max(column_packing.RUN // panels, 1)} : i64",
            "%few = arith.minsi %fitting, %most_at_once : i64",
            "%at_once = arith.maxsi %few, %one : i64",
            "%room_of_one = arith.muli %block_of_columns, %at_once : i64",
        ]

    def _batches_function(self, name: str, blocks: str, columns: str) -> str:
        """Batches ``begin`` to ``end``, each one's columns packed before if they are not yet."""
        lines = [
            f"func.func private @{name}({declared(self._of_batches())}, {threads.RANGE}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *self._count_of_blocks(),
            "scf.for %batch = %begin to %end step %one : i64 {",
            *self._moved(),
        ]
        if self._kind.packed:
            lines.append(self._call_blocks(blocks, _OF_BATCH, "%none, %blocks, %worker"))
        else:
            lines += [
                "scf.if %by_columns {",
                self._call_columns(columns, "%none, %wide, %worker"),
                "} else {",
                "%size = arith.muli %far, %panels : i64",
                "%mine = arith.muli %worker, %size : i64",
                "%own = llvm.getelementptr %packed[%mine] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                self._pack("%own", "%b_"),
                self._call_blocks(blocks, _OF_BATCH | {"%b": "%own"}, "%none, %blocks, %worker"),
                "}",
            ]
        return "\n".join([*lines, "}", "return", "}"])

    def _moved(self, right: str = "%b", step: str = "bb") -> list[str]:
        """``%a_``, ``%b_`` and ``%c_``: the operands of ``%batch``; the ``right`` one has batches ``%step0`` … apart."""
        lines, rest = list[str](), "%batch"
        places = {"a": "%a", "b": right, "c": "%c"}
        steps = {"a": "ba", "b": step, "c": "bc"}
        for i in reversed(range(self._kind.batches)):
            lines += [f"%i{i} = arith.remui {rest}, %bn{i} : i64", f"%rest{i} = arith.divui {rest}, %bn{i} : i64"]
            rest = f"%rest{i}"
            for letter in "abc":
                lines += [
                    f"%f{letter}{i} = arith.muli %i{i}, %{steps[letter]}{i} : i64",
                    f"%{letter}_{i} = llvm.getelementptr {places[letter]}[%f{letter}{i}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                ]
                places[letter] = f"%{letter}_{i}"
        return [*lines, *(f"%{x}_ = llvm.getelementptr {places[x]}[0] : (!llvm.ptr) -> !llvm.ptr, i8" for x in "abc")]

    def _pack(self, to: str, source: str) -> str:
        given = [to, source, *(f"%{name}" for name in self._columns)]
        types = ["!llvm.ptr"] * 2 + ["i64"] * len(self._columns)
        return f"func.call @{column_packing.name(self._kind.unpacked)}({', '.join(given)}) : ({', '.join(types)}) -> ()"

    def _call_blocks(self, name: str, moved: dict[str, str], extra: str, *, first: str = "") -> str:
        return _call(name, self._of_blocks(), moved, extra, first)

    def _call_columns(self, name: str, extra: str, *, first: str = "") -> str:
        return _call(name, self._of_columns(), _OF_BATCH, extra, first)

    def _entry(self, blocks: str, columns: str, batches: str) -> str:
        """The function that programs call: many batches go side by side, few one after the other, their blocks side by side."""
        kind = self._kind
        arguments = [*words(kind.arguments()), *zip(self._given, self._after, strict=True)]
        lines = [
            f"func.func private @{kind.name}(%ctx: !llvm.ptr, %a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %add: i1,"
            f" {declared(arguments)}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            "%threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64",
            product("ms", [f"%mn{i}" for i in range(kind.rows)]),
            product("total", [f"%bn{i}" for i in range(kind.batches)]),
            product("length", [f"%kn{i}" for i in range(kind.segments)]),
            *(["%header = llvm.getelementptr %b[0] : (!llvm.ptr) -> !llvm.ptr, i8"] if kind.codes else []),
            *self._count_of_blocks(),
            f"%eight = arith.constant {_PRODUCTS} : i64",
            # To read a packed number takes as long as that many products: with few rows all there is.
            "%rows_and_more = arith.addi %ms, %eight : i64",
            "%products = arith.muli %rows_and_more, %n : i64",
            "%all = arith.muli %products, %length : i64",
            "%work = arith.divui %all, %eight : i64",
            "%least = arith.maxsi %blocks, %one : i64",
            "%share = arith.divui %work, %least : i64",
            "%several = arith.cmpi sge, %total, %threads : i64",
        ]
        right, step = "%b", "bb"
        if kind.codes:
            right, step = "%coded", "cb"
            lines += [
                f"%coded = llvm.getelementptr %b[{coded_columns.HEADER_BYTES}] : (!llvm.ptr) -> !llvm.ptr, i8",
                *header_word("%batch_bytes", "%header", coded_columns.BATCH),
                *(f"%cb{i} = arith.muli %bb{i}, %batch_bytes : i64" for i in range(kind.batches)),
            ]
        if not kind.packed:
            lines += [
                *self._columns_at_once(),
                f"%for_each = arith.constant {_COLUMNS_FOR_EACH} : i64",
                "%for_all = arith.muli %threads, %for_each : i64",
                "%many_columns = arith.cmpi sge, %wide, %for_all : i64",
                "%may_share = arith.ori %many_columns, %several : i1",
                "%yes = arith.constant true",
                "%far_columns = arith.xori %by_rows, %yes : i1",
                "%by_columns = arith.andi %may_share, %far_columns : i1",
                "%set = arith.muli %far, %panels : i64",
                "%own_room = arith.select %by_columns, %room_of_one, %set : i64",
                "%by_each = arith.ori %by_columns, %several : i1",
                "%rooms = arith.select %by_each, %threads, %one : i64",
                "%room = arith.muli %own_room, %rooms : i64",
                "%packed = func.call @o2m_alloc(%ctx, %room) : (!llvm.ptr, i64) -> !llvm.ptr",
            ]
        moved = {"%b": right, **{f"%bb{i}": f"%{step}{i}" for i in range(kind.batches)}}
        given = ", ".join(["%ctx, %total, %work", *(moved.get(value, value) for value, _ in self._of_batches())])
        types = ", ".join(["!llvm.ptr, i64, i64", *(type_ for _, type_ in self._of_batches())])
        lines += [
            "scf.if %several {",
            f"func.call @{threads.spread_name(batches)}({given}) : ({types}) -> ()",
            "} else {",
            "scf.for %batch = %none to %total step %one : i64 {",
            *self._moved(right, step),
        ]
        of_all = {"first": "%ctx, %blocks, %share"}
        if kind.packed:
            lines.append(self._call_blocks(threads.spread_name(blocks), _OF_BATCH, "", **of_all))
        else:
            lines += [
                "scf.if %by_columns {",
                "%share_of_columns = arith.muli %share, %high : i64",
                self._call_columns(threads.spread_name(columns), "", first="%ctx, %wide, %share_of_columns"),
                "} else {",
                "%each = arith.muli %length, %width : i64",
                self._pack_on_all("%packed", "%b_"),
                self._call_blocks(threads.spread_name(blocks), _OF_BATCH | {"%b": "%packed"}, "", **of_all),
                "}",
            ]
        lines += ["}", "}"]
        if not kind.packed:
            lines.append("func.call @o2m_free(%ctx, %packed) : (!llvm.ptr, !llvm.ptr) -> ()")
        return "\n".join([*lines, "return", "}"])

    def _pack_on_all(self, to: str, source: str) -> str:
        given = ["%ctx", "%panels", "%each", to, source, "%far", *(f"%{name}" for name in self._columns)]
        types = ["!llvm.ptr", "i64", "i64", "!llvm.ptr", "!llvm.ptr", "i64", *["i64"] * len(self._columns)]
        name = threads.spread_name(column_packing.part_name(self._kind.unpacked))
        return f"func.call @{name}({', '.join(given)}) : ({', '.join(types)}) -> ()"


def _call(name: str, arguments: list[tuple[str, str]], moved: dict[str, str], extra: str, first: str) -> str:
    """A call for a range (``extra``), or of what shares all items among threads (``first``); arguments may be ``moved``."""
    given = ", ".join(moved.get(value, value) for value, _ in arguments)
    types = ", ".join(type_ for _, type_ in arguments)
    if first:
        return f"func.call @{name}({first}, {given}) : (!llvm.ptr, i64, i64, {types}) -> ()"
    return f"func.call @{name}({given}, {extra}) : ({types}, i64, i64, i64) -> ()"


def _own(name: str, size: int) -> list[str]:
    """``%name``: memory of the function's own."""
    return [
        f"%{name}_size = arith.constant {size} : i64",
        f"%{name} = llvm.alloca %{name}_size x i8 {{alignment = {LINE_BYTES} : i64}} : (i64) -> !llvm.ptr",
    ]
