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
_PRODUCTS = 8
"""Products and sums that take as long as one operation on an element elsewhere (threads.py)."""


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
        blocks, batches = f"{kind.name}_blocks", f"{kind.name}_batches"
        texts = [self._blocks(blocks), threads.spread(blocks, [t for _, t in self._of_blocks()])]
        texts += [self._batches_function(batches, blocks), threads.spread(batches, [t for _, t in self._of_batches()])]
        return "\n".join([*texts, self._entry(blocks, batches)])

    def _of_blocks(self) -> list[tuple[str, str]]:
        """What blocks of one batch are computed from: names and types."""
        pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c", *self._header)]
        sizes = words(["ms", "n", *self._rows, *self._segments, "batch"])
        return [*pointers, ("%add", "i1"), *sizes, *zip(self._given, self._after, strict=True)]

    def _of_batches(self) -> list[tuple[str, str]]:
        """The same for all batches; the packed columns come last."""
        pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c", *self._header)]
        sizes = words(["ms", *self._columns, *self._rows, *self._segments, *self._batches])
        extra = [] if self._kind.packed else [("%packed", "!llvm.ptr")]
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

    def _batches_function(self, name: str, blocks: str) -> str:
        """Batches ``begin`` to ``end``, each one's columns packed before if they are not yet."""
        lines = [
            f"func.func private @{name}({declared(self._of_batches())}, {threads.RANGE}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *self._count_of_blocks(),
        ]
        if not self._kind.packed:
            lines += [
                "%size = arith.muli %far, %panels : i64",
                "%mine = arith.muli %worker, %size : i64",
                "%own = llvm.getelementptr %packed[%mine] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            ]
        lines += ["scf.for %batch = %begin to %end step %one : i64 {", *self._moved()]
        columns = "%b_"
        if not self._kind.packed:
            lines.append(self._pack("%own", "%b_"))
            columns = "%own"
        return "\n".join([*lines, self._call_blocks(blocks, columns, "%none, %blocks, %worker"), "}", "return", "}"])

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

    def _call_blocks(self, name: str, columns: str, extra: str, *, first: str = "") -> str:
        moved = {"%a": "%a_", "%b": columns, "%c": "%c_"}
        given = [moved.get(value, value) for value, _ in self._of_blocks()]
        types = [type_ for _, type_ in self._of_blocks()]
        if first:
            return f"func.call @{name}({first}, {', '.join(given)}) : (!llvm.ptr, i64, i64, {', '.join(types)}) -> ()"
        return f"func.call @{name}({', '.join([*given, extra])}) : ({', '.join([*types, 'i64', 'i64', 'i64'])}) -> ()"

    def _entry(self, blocks: str, batches: str) -> str:
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
                "%set = arith.muli %far, %panels : i64",
                "%sets = arith.select %several, %threads, %one : i64",
                "%room = arith.muli %set, %sets : i64",
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
        columns = "%b_"
        if not kind.packed:
            lines += ["%each = arith.muli %length, %width : i64", self._pack_on_all("%packed", "%b_")]
            columns = "%packed"
        lines += [
            self._call_blocks(threads.spread_name(blocks), columns, "", first="%ctx, %blocks, %share"),
            "}",
            "}",
        ]
        if not kind.packed:
            lines.append("func.call @o2m_free(%ctx, %packed) : (!llvm.ptr, !llvm.ptr) -> ()")
        return "\n".join([*lines, "return", "}"])

    def _pack_on_all(self, to: str, source: str) -> str:
        given = ["%ctx", "%panels", "%each", to, source, "%far", *(f"%{name}" for name in self._columns)]
        types = ["!llvm.ptr", "i64", "i64", "!llvm.ptr", "!llvm.ptr", "i64", *["i64"] * len(self._columns)]
        name = threads.spread_name(column_packing.part_name(self._kind.unpacked))
        return f"func.call @{name}({', '.join(given)}) : ({', '.join(types)}) -> ()"


def _own(name: str, size: int) -> list[str]:
    """``%name``: memory of the function's own."""
    return [
        f"%{name}_size = arith.constant {size} : i64",
        f"%{name} = llvm.alloca %{name}_size x i8 {{alignment = {LINE_BYTES} : i64}} : (i64) -> !llvm.ptr",
    ]
