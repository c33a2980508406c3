"""Sums of products of any shape: packed columns, blocks of rows and columns, and who computes which, on several threads.

The functions take every size and stride at run time (strides in bytes), so one of each kind (contraction_kinds.py) serves all
contractions of a program.
"""

from __future__ import annotations

from collections.abc import Set

from onnx2torch_mlir.engine.compiler import (
    brain_products,
    brain_rows,
    byte_rows,
    call_memory,
    coded_bytes,
    coded_columns,
    coded_words,
    column_packing,
    contraction_panels,
    contraction_rows,
    dot_products,
    double_products,
    few_columns,
    plain_tail_text,
    register_tile,
    row_tables,
    tail_text,
    threads,
    tile_loops,
    winograd_code,
    winograd_forms,
)
from onnx2torch_mlir.engine.compiler.code_text import (
    bytes_behind,
    called,
    declared,
    header_word,
    moved_by_batch,
    product,
    words,
)
from onnx2torch_mlir.engine.compiler.contraction_blocks import FLAGS, Blocks, call_all, call_range
from onnx2torch_mlir.engine.compiler.contraction_kinds import PRODUCTS, Kind
from onnx2torch_mlir.engine.compiler.contraction_rows import RowsKind
from onnx2torch_mlir.engine.compiler.dot_products import DotKind
from onnx2torch_mlir.engine.compiler.double_products import DoubleKind
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_COLUMNS_FOR_EACH = 8
"""Blocks of columns for each thread, where threads share these: with fewer some would have much more to do than others."""

_OF_BATCH = {"%a": "%a_", "%b": "%b_", "%c": "%c_", **contraction_panels.PACKED}
"""The operands of the batch at hand (`_Contract._moved`)."""
_PACKED_BEFORE = {"%b": "%packed_here", "%fresh": "%in_place", "%in_place": "%in_place", "%source": "%b_", "%apart": "%rb0"}
"""Its columns, where they are packed before, or read where they lie (`_Contract._pack_before`)."""


def functions_for(
    unit: VectorUnit,
    kinds: set[Kind],
    of_rows: set[RowsKind],
    needed: Set[TileSize],
    codes: Set[str] = frozenset(),
    *,
    dots: Set[DotKind] = frozenset(),
    doubles: Set[DoubleKind] = frozenset(),
    with_winograd: bool = False,
) -> list[str]:
    """The texts of the functions of ``kinds``, ``of_rows``, ``dots`` and ``doubles``, of Winograd's algorithm where some
    convolution goes by it, and of what they call, but for tails and the packing of columns.

    ``needed``: the tiles that they need to be fast. ``codes``: what those are that kinds of coded columns read.
    """
    every: list[Kind | RowsKind] = [*kinds, *of_rows]
    loops = {(kind.rows, kind.segments) for kind in every} | ({winograd_code.LOOPS} if with_winograd else set())
    tables = {rows for rows, _ in loops} | {kind.rows for kind in dots} | {kind.rows for kind in doubles}
    texts = [row_tables.rows(count) for count in sorted(tables)]
    texts += [plain_tail_text.FUNCTION] if kinds else []
    texts += dot_products.functions_for(unit, sorted(dots, key=lambda kind: kind.name))
    texts += double_products.functions_for(unit, sorted(doubles, key=lambda kind: kind.name))
    segments = sorted({count for _, count in loops})
    if not segments:
        return texts
    # Tiles of one number of segments serve fewer, too.
    most = max([size.segments for size in needed], default=segments[-1])
    tiles = {size._replace(segments=most) for size in needed} | {contraction_panels.one_row(most)}
    few = [size for size in tiles if size.few]
    texts += [(few_columns if size.few else register_tile).tile(unit, size) for size in sorted(tiles)]
    packing = any(size.packs for size in tiles)
    texts += [tile_loops.tile_loop(unit, count, tiles) for count in range(1, most + 1)]
    texts += [contraction_panels.panel(unit, count, has_tiles=count <= most) for count in range(1, segments[-1] + 1)]
    texts += [contraction_panels.panels(unit, count, has_few=bool(few)) for count in segments]
    alone = {kind.segments for kind in kinds if kind.has_rows_alone}
    one_row = contraction_panels.one_row(most)
    texts += [tile_loops.row(unit, n, one_row, few) if n <= most else contraction_panels.row(n) for n in sorted(alone)]
    texts += [contraction_rows.function(kind) for kind in sorted(of_rows, key=lambda kind: kind.name)]
    if codes:
        texts.append(coded_columns.functions(unit, codes))
    if any(kind.narrow == "bytes" for kind in kinds):
        texts += [byte_rows.functions(unit), coded_bytes.functions(unit)]
    if any(kind.narrow == "pairs" for kind in kinds):
        texts += [brain_rows.functions(), brain_products.functions(unit)]
    if with_winograd:
        texts.append(winograd_code.functions(unit, winograd_forms.FLOATS))
    return texts + [contract(unit, kind, packing=packing) for kind in sorted(kinds, key=lambda kind: kind.name)]


def contract(unit: VectorUnit, kind: Kind, *, packing: bool = False) -> str:
    """The text of the functions of a kind alone; whether there is a tile that packs columns as it reads them."""
    return _Contract(unit, kind, packing=packing).text()


class _Contract:
    """The functions of a kind: blocks of one batch, batches one after the other, and what shares these among threads."""

    def __init__(self, unit: VectorUnit, kind: Kind, *, packing: bool) -> None:
        self._kind = kind
        self._of = Blocks(unit, kind, packing=packing)
        self._before = _OF_BATCH | (_PACKED_BEFORE if self._of.sources else {"%b": "%packed_here"})
        self._batch_sizes = [f"b{letter}{i}" for i in range(kind.batches) for letter in ("n", "a", "b", "c")]
        self._blocks, self._columns, self._batches = (f"{kind.name}_{part}" for part in ("blocks", "columns", "batches"))

    def text(self) -> str:
        """All of them."""
        of = self._of
        back = of.arguments().index(FLAGS[1])
        types = [type_ for _, type_ in of.arguments_of_blocks()]
        texts = [of.blocks(self._blocks), threads.spread(self._blocks, types, back=back, together=True)]
        if not self._kind.packed:
            texts.append(of.columns(self._columns, self._blocks))
            texts.append(threads.spread(self._columns, [t for _, t in of.arguments_of_columns()]))
        if self._kind.batches:
            texts += [self._batches_function(), threads.spread(self._batches, [t for _, t in self._of_batches()])]
        return "\n".join([*texts, self._entry()])

    def _of_batches(self) -> list[tuple[str, str]]:
        """The same for all batches; the packed columns come last, and whether each batch's are packed block by block."""
        of = self._of
        pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c", *of.header)]
        sizes = words(["ms", *of.column_sizes, *of.row_sizes, *of.segments, *self._batch_sizes])
        extra = [] if self._kind.packed else [("%packed", "!llvm.ptr"), ("%by_columns", "i1")]
        return [*pointers, *FLAGS, *sizes, *tail_text.ARGUMENTS, *extra]

    def _batches_function(self) -> str:
        """Batches ``begin`` to ``end``, each one's columns packed before if they are not yet."""
        lines = [
            f"func.func private @{self._batches}({declared(self._of_batches())}, {threads.RANGE}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *contraction_panels.NOTHING,
            *self._of.count(),
            "scf.for %batch = %begin to %end step %one : i64 {",
            *self._moved("%b", "bb"),
        ]
        if self._kind.packed:
            lines.append(call_range(self._blocks, self._of.arguments_of_blocks(), _OF_BATCH, "%none, %items, %worker"))
        else:
            lines += [
                "scf.if %by_columns {",
                call_range(self._columns, self._of.arguments_of_columns(), _OF_BATCH, "%none, %wide, %worker"),
                "} else {",
                *self._of.in_place(),
                "%size = arith.muli %far, %to_pack : i64",
                "%mine = arith.muli %worker, %size : i64",
                "%own = llvm.getelementptr %packed[%mine] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                *self._pack_before("%own", shared=False),
                call_range(self._blocks, self._of.arguments_of_blocks(), self._before, "%none, %items, %worker"),
                "}",
            ]
        return "\n".join([*lines, "}", "return", "}"])

    def _moved(self, right: str, step: str) -> list[str]:
        """``%a_``, ``%b_`` and ``%c_``: the operands of ``%batch``; the ``right`` one has batches ``%step0`` … apart."""
        return moved_by_batch(self._kind.batches, {"a": ("%a", "ba"), "b": (right, step), "c": ("%c", "bc")})

    def _pack_before(self, to: str, *, shared: bool) -> list[str]:
        """The columns of the batch at hand are packed to ``%packed_here``, or what is not a whole panel of those that are read
        where they lie, as if the panels before were there too; ``shared`` among threads if there are many."""
        sizes = words(self._of.column_sizes)
        pointers = [("%packed_here", "!llvm.ptr"), ("%b_", "!llvm.ptr")]
        part = column_packing.part_name(self._kind.unpacked)
        here = called(part, [*pointers, ("%far", "i64"), *sizes, *words(["rest_from", "panels", "none"])])
        lines = [
            "%not_packed = arith.muli %rest_from, %far : i64",
            "%before_rest = arith.subi %none, %not_packed : i64",
            bytes_behind("%packed_here", to, "%before_rest"),
        ]
        if not shared:
            return [*lines, here]
        head = [("%ctx", "!llvm.ptr"), *words(["panels", "each"])]
        on_all = called(threads.spread_name(part), [*head, *pointers, ("%far", "i64"), *sizes])
        return [*lines, "scf.if %in_place {", here, "} else {", "%each = arith.muli %length, %width : i64", on_all, "}"]

    def _entry(self) -> str:
        """The function that programs call: many batches go side by side, few one after the other, their blocks side by side."""
        kind = self._kind
        arguments = [*words(kind.arguments()), *tail_text.ARGUMENTS]
        lines = [
            f"func.func private @{kind.name}(%ctx: !llvm.ptr, %a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr,"
            f" {declared([*FLAGS, *arguments])}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *contraction_panels.NOTHING,
            "%threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64",
            product("ms", [f"%mn{i}" for i in range(kind.rows)]),
            product("total", [f"%bn{i}" for i in range(kind.batches)]),
            product("length", [f"%kn{i}" for i in range(kind.segments)]),
            *(["%header = llvm.getelementptr %b[0] : (!llvm.ptr) -> !llvm.ptr, i8"] if kind.codes else []),
            *self._of.count(),
            f"%eight = arith.constant {PRODUCTS} : i64",
            # To read a packed number takes as long as that many products: with few rows all there is.
            "%rows_and_more = arith.addi %ms, %eight : i64",
            "%products = arith.muli %rows_and_more, %n : i64",
            "%all = arith.muli %products, %length : i64",
            "%work = arith.divui %all, %eight : i64",
            "%least = arith.maxsi %items, %one : i64",
            "%share = arith.divui %work, %least : i64",
            "%several = arith.cmpi sge, %total, %threads : i64",
        ]
        right, step = "%b", "bb"
        if kind.codes:
            right, step = "%coded", "cb"
            lines += [
                f"%coded = llvm.getelementptr %b[{coded_columns.HEADER_BYTES}] : (!llvm.ptr) -> !llvm.ptr, i8",
                *header_word("%batch_bytes", "%header", coded_words.BATCH),
                *(f"%cb{i} = arith.muli %bb{i}, %batch_bytes : i64" for i in range(kind.batches)),
            ]
        if not kind.packed:
            lines += [
                *self._of.columns_at_once(),
                *self._of.in_place(),
                f"%for_each = arith.constant {_COLUMNS_FOR_EACH} : i64",
                "%for_all = arith.muli %threads, %for_each : i64",
                "%many_columns = arith.cmpi sge, %wide, %for_all : i64",
                # Where all threads have as many, none waits for columns that another packs.
                "%over = arith.remui %wide, %threads : i64",
                "%as_many = arith.cmpi eq, %over, %none : i64",
                "%may_share_columns = arith.ori %many_columns, %as_many : i1",
                "%may_share = arith.ori %may_share_columns, %several : i1",
                "%yes = arith.constant true",
                "%far_columns = arith.xori %by_rows, %yes : i1",
                "%are_packed = arith.xori %in_place, %yes : i1",
                "%too_many = arith.andi %far_columns, %are_packed : i1",
                "%by_columns = arith.andi %may_share, %too_many : i1",
                "%set = arith.muli %far, %to_pack : i64",
                "%own_room = arith.select %by_columns, %room_of_one, %set : i64",
                "%by_each = arith.ori %by_columns, %several : i1",
                "%rooms = arith.select %by_each, %threads, %one : i64",
                "%room = arith.muli %own_room, %rooms : i64",
                *call_memory.workspace("packed", "%room"),
            ]
        if kind.narrow:
            of_bytes = kind.narrow == "bytes"
            lines += byte_rows.made(self._of.unit, kind.rows) if of_bytes else brain_rows.made(kind.rows)
        moved = {"%b": right, **{f"%bb{i}": f"%{step}{i}" for i in range(kind.batches)}}
        if kind.batches:
            lines += ["scf.if %several {", call_all(self._batches, self._of_batches(), moved, "%total, %work"), "} else {"]
        lines += [
            "scf.for %batch = %none to %total step %one : i64 {",
            *self._moved(right, step),
        ]
        if kind.packed:
            lines.append(call_all(self._blocks, self._of.arguments_of_blocks(), _OF_BATCH, "%items, %pieces, %share"))
        else:
            lines += [
                "scf.if %by_columns {",
                "%pieces_of_columns = arith.muli %pieces, %high : i64",
                "%share_of_columns = arith.muli %share, %pieces_of_columns : i64",
                call_all(self._columns, self._of.arguments_of_columns(), _OF_BATCH, "%wide, %share_of_columns"),
                "} else {",
                *self._pack_before("%packed", shared=True),
                call_all(self._blocks, self._of.arguments_of_blocks(), self._before, "%items, %pieces, %share"),
                "}",
            ]
        lines += ["}", "}"] if kind.batches else ["}"]
        taken = ["%narrow"] if kind.narrow else [] if kind.packed else ["%packed"]
        lines += [f"func.call @o2m_free(%ctx, {each}) : (!llvm.ptr, !llvm.ptr) -> ()" for each in taken]
        return "\n".join([*lines, "return", "}"])
