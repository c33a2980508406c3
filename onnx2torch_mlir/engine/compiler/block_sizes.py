"""How large the blocks are into which a sum of products falls: of rows, of columns, and of columns that a thread packs."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import (
    coded_words,
    column_packing,
    columns_in_place,
    contraction_panels,
    tile_rows,
)
from onnx2torch_mlir.engine.compiler.code_text import header_word, product
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
"""Bytes of a packed panel from which on few blocks of columns are better halved, for more rows than a tile has."""
_COLUMNS_AT_ONCE = 1 << 20
"""Bytes of columns that a thread packs before they meet all rows."""


class BlockSizes:
    """The text that computes them, for one kind."""

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
        ``%items``: ``%pieces`` of each block, a tile's rows each (row_pieces.py).
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
            # Columns that become floats first, and parts of them that are done together, meet all rows of a block.
            f"%has_codes = arith.constant {'true' if self.kind.codes else 'false'}",
            "%meet_all = arith.ori %has_parts, %has_codes : i1",
            "%rows_of_piece = arith.select %meet_all, %block_rows, %one_tile : i64",
            "%pieces = arith.ceildivsi %block_rows, %rows_of_piece : i64",
            "%items = arith.muli %blocks, %pieces : i64",
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

    def first_tile_packs(self) -> list[str]:
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


def _are_dense(name: str, size: str) -> list[str]:
    """``name``: whether columns lie side by side, a number's ``size`` apart."""
    return [f"{size} = arith.constant {_BYTES} : i64", f"{name} = arith.cmpi eq, %nb, {size} : i64"]
