"""Convolutions with windows of 3 by 3 through Winograd's F(2x2, 3x3): 16 products for 4 results, where there are 36.

(A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.) The image falls into *tiles* of 4 by 4 pixels
that share 2 with each neighbour; each makes 2 by 2 results. A tile is transformed by additions, so are the weights, once
(packed_weights.py). Then 16 contractions, one for each place in a tile, and additions that make results of their sums.

Tiles go in blocks, so that all of this stays in the second-level cache; where there are few, their columns go in groups.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import (
    call_memory,
    contraction_panels,
    integer_products,
    row_pieces,
    row_tables,
    tail_text,
    threads,
    tile_rows,
    winograd_transforms,
)
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, called, constants, declared, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.compiler.winograd_forms import Form
from onnx2torch_mlir.engine.compiler.winograd_transforms import ROW_BYTES, SIDE
from onnx2torch_mlir.engine.layout import TILE_PLACES

LOOPS = (1, 1)
"""How many dims of rows and segments the contractions have that it consists of."""

_MOST_TILES = 64
"""Of a block; with fewer the weights are read too often, with more the tiles come from farther away."""
_ITEMS_FOR_EACH = 4
_TILES_OF_PIECE = 2
"""Register tiles of a piece (row_pieces.py): weights are read for each, which take as long to come as some pixels' products."""
_BYTES = 4
_PAGE, _APART = 4096, 320
"""Places of a tile lie a page and 5 lines apart: at the same place of each page they would share few lines of the cache."""

SIZES = ("n", "h", "w", "an", "ay", "ax", "cn", "cy", "cx", "depth", "across")
"""Its i64 arguments, after the context, the image, the packed weights and the result: sizes of the result, strides in bytes of
the image and of the result, and how many channels they have. Behind them come those of a form (winograd_forms.py): of floats,
how many columns are packed by themselves (few_columns.py)."""
_SHARED = (*SIZES, "tiles_high", "tiles_wide", "tiles", "size", "groups", "plane", "sums_plane", "room", "pieces")
_ITEMS = "o2m_winograd_items"
_POINTERS = [(f"%{pointer}", "!llvm.ptr") for pointer in ("a", "u", "c", "rooms")]


def name(form: Form) -> str:
    """The function that programs call."""
    return f"o2m_winograd{form.suffix}"


def functions(unit: VectorUnit, form: Form) -> str:
    """The text of @o2m_winograd, and of what only it calls."""
    shared = threads.spread(f"{_ITEMS}{form.suffix}", [type_ for _, type_ in _of_items(form)], together=True)
    transforms = [winograd_transforms.tiles(unit, form), winograd_transforms.results(unit, form)]
    return "\n".join([*transforms, _items(unit, form), shared, _entry(unit, form)])


def _of_items(form: Form) -> list[tuple[str, str]]:
    """What items are computed from: names and types."""
    return [*_POINTERS, *words(_SHARED), *form.more, *tail_text.ARGUMENTS]


def tiles_of_blocks(images: int, height: int, width: int) -> set[int]:
    """How many tiles the blocks have into which images of results fall; see `_entry`."""
    return tile_rows.even_parts(images * -(-height // 2) * -(-width // 2), _MOST_TILES)


def _entry(unit: VectorUnit, form: Form) -> str:
    """The function that programs call."""
    pointers = [(f"%{pointer}", "!llvm.ptr") for pointer in ("ctx", "a", "u", "c")]
    return "\n".join(
        [
            f"func.func private @{name(form)}({declared([*pointers, *words(SIZES), *form.more, *tail_text.ARGUMENTS])}) {{",
            *constants(one=1, two=2, most=_MOST_TILES, row=ROW_BYTES, more=_LINES_OF_ROOM, entry=row_tables.ENTRY_BYTES),
            *constants(wide=BLOCK_COLUMNS, page=_PAGE, apart=_APART, places=TILE_PLACES, each=_ITEMS_FOR_EACH),
            "%threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64",
            "%tiles_high = arith.ceildivsi %h, %two : i64",
            "%tiles_wide = arith.ceildivsi %w, %two : i64",
            "%high_of_all = arith.muli %n, %tiles_high : i64",
            "%tiles = arith.muli %high_of_all, %tiles_wide : i64",
            "%tiles_or_one = arith.maxsi %tiles, %one : i64",
            "%blocks = arith.ceildivsi %tiles_or_one, %most : i64",
            "%size = arith.ceildivsi %tiles_or_one, %blocks : i64",
            "%blocks_wide = arith.ceildivsi %across, %wide : i64",
            "%wanted = arith.muli %threads, %each : i64",
            "%lacking = arith.divui %wanted, %blocks : i64",
            "%alone = arith.cmpi eq, %threads, %one : i64",
            "%others = arith.select %alone, %one, %lacking : i64",
            "%not_more = arith.minsi %others, %blocks_wide : i64",
            "%groups = arith.maxsi %not_more, %one : i64",
            *_rows_of_piece(unit),
            "%pieces = arith.ceildivsi %size, %rows_of_piece : i64",
            "%blocks_of_columns = arith.muli %blocks, %groups : i64",
            "%items = arith.muli %blocks_of_columns, %pieces : i64",
            *winograd_transforms.tile_row("%tile_row", form),
            *_plane("plane", "%tile_row"),
            *_plane("sums_plane", "%row"),
            "%both = arith.addi %plane, %sums_plane : i64",
            "%all_planes = arith.muli %both, %places : i64",
            # Zeros, then for each tile its row in the table and its results; the last row twice.
            "%for_tiles = arith.muli %size, %more : i64",
            "%for_all_tiles = arith.addi %for_tiles, %entry : i64",
            "%small = arith.addi %tile_row, %for_all_tiles : i64",
            "%bytes = arith.addi %all_planes, %small : i64",
            "%pages = arith.ceildivsi %bytes, %page : i64",
            "%room = arith.muli %pages, %page : i64",
            "%all_rooms = arith.muli %room, %threads : i64",
            *call_memory.workspace("rooms", "%all_rooms"),
            "%sums_of_all = arith.muli %tiles, %across : i64",
            "%products = arith.muli %sums_of_all, %depth : i64",
            "%twice = arith.muli %products, %two : i64",
            "%work = arith.divui %twice, %items : i64",
            threads.on_all(f"{_ITEMS}{form.suffix}", "%items, %pieces, %work", _of_items(form)),
            "func.call @o2m_free(%ctx, %rooms) : (!llvm.ptr, !llvm.ptr) -> ()",
            "return",
            "}",
        ]
    )


_LINES_OF_ROOM = row_tables.ENTRY_BYTES + SIDE * ROW_BYTES
"""Bytes that a thread needs for each tile besides the transformed ones."""


def _plane(plane: str, each: str) -> list[str]:
    """``%plane``: how far apart the places of a block's tiles lie, of which each has so many bytes."""
    return [
        f"%{plane}_full = arith.muli %size, {each} : i64",
        f"%{plane}_pages = arith.ceildivsi %{plane}_full, %page : i64",
        f"%{plane}_even = arith.muli %{plane}_pages, %page : i64",
        f"%{plane} = arith.addi %{plane}_even, %apart : i64",
    ]


def _products(form: Form) -> str:
    """The call that multiplies a block's tiles by 64 columns at one place."""
    if form.is_float:
        moved = {"%a": "%vb", "%m": "%mh", "%b": "%ub", "%n": "%nh", "%c": "%mb", "%add": "%no", "%n0": "%depth"}
        moved["%few"] = "%few"
        return contraction_panels.call("panels", 1, contraction_panels.WITHOUT_TAIL | moved)
    given = "%vb, %table, %mh, %ub, %nh, %mb, %tile_row, %no, %unbiased"
    return "\n".join(["%unbiased = arith.constant 0 : i16", integer_products.call("pairs", given, "%none")])


def _items(unit: VectorUnit, form: Form) -> str:
    """Groups of the columns of blocks of tiles, ``begin`` to ``end``."""
    return "\n".join(
        [
            f"func.func private @{_ITEMS}{form.suffix}({declared(_of_items(form))}, {threads.RANGE}) {{",
            *constants(none=0, one=1, two=2, places=TILE_PLACES, number=_BYTES, wide=BLOCK_COLUMNS, row=ROW_BYTES),
            *_rows_of_piece(unit),
            *constants(entry=row_tables.ENTRY_BYTES, far_panels=BLOCK_COLUMNS // unit.columns, width=unit.columns),
            *constants(number_read=form.read_bytes, header=form.header),
            "%no = arith.constant false",
            *tail_text.follows(),
            "%zero = arith.constant 0 : i8",
            "%before = arith.muli %worker, %room : i64",
            bytes_behind("%rooms_own", "%rooms", "%before"),
            "%tiles_bytes = arith.muli %plane, %places : i64",
            bytes_behind("%multiplied", "%rooms_own", "%tiles_bytes"),
            "%sums_bytes = arith.muli %sums_plane, %places : i64",
            bytes_behind("%sums", "%multiplied", "%sums_bytes"),
            "%two_rows = arith.muli %row, %two : i64",
            "%line = arith.muli %size, %two_rows : i64",
            "%lines = arith.muli %line, %two : i64",
            bytes_behind("%table", "%sums", "%lines"),
            "%table_rows = arith.addi %size, %one : i64",
            "%table_bytes = arith.muli %table_rows, %entry : i64",
            bytes_behind("%nothing", "%table", "%table_bytes"),
            "%depth_bytes = arith.muli %depth, %number_read : i64",
            *winograd_transforms.tile_row("%tile_row", form),
            '"llvm.intr.memset"(%nothing, %zero, %depth_bytes) <{isVolatile = false}> : (!llvm.ptr, i8, i64) -> ()',
            # Of floats, packed columns do not take whole lines.
            f"%far = arith.muli {'%depth_bytes' if form.is_float else '%tile_row'}, %width : i64",
            bytes_behind("%columns", "%u", "%header"),
            "%panels = arith.ceildivsi %across, %width : i64",
            "%place_bytes = arith.muli %far, %panels : i64",
            "%far_block = arith.muli %far, %far_panels : i64",
            "%blocks_wide = arith.ceildivsi %across, %wide : i64",
            *row_pieces.runs(_tiles_of_block(unit), _block(form)),
            "return",
            "}",
        ]
    )


def _rows_of_piece(unit: VectorUnit) -> list[str]:
    """``%rows_of_piece``: how many of a block's tiles a piece has at least."""
    return constants(rows_of_piece=_TILES_OF_PIECE * unit.rows)


def _tiles_of_block(unit: VectorUnit) -> list[str]:
    """The ``%group`` of columns of block ``%t``, and its tiles from ``%i`` on."""
    return [
        "%block = arith.divui %t, %groups : i64",
        "%group = arith.remui %t, %groups : i64",
        "%block_row = arith.muli %block, %size : i64",
        "%rest = arith.subi %tiles, %block_row : i64",
        "%m = arith.minsi %rest, %size : i64",
        *row_pieces.rows(unit),
    ]


def _block(form: Form) -> list[str]:
    """``%mh`` of its tiles from ``%i`` on, in the group's columns."""
    transform = [(pointer, "!llvm.ptr") for pointer in ("%a", "%nothing", "%rooms_own")]
    transform += [*words(["i", "mh", *winograd_transforms.SIZES]), *form.conversion]
    return [
        *(f"%m{i}0 = arith.addi %{of}, %none : i64" for i, of in (("n", "mh"), ("a", "tile_row"), ("c", "row"))),
        "scf.if %others {",
        called(f"{winograd_transforms.TILES}{form.suffix}", transform),
        row_tables.write_for_tiles("m", 1, ("ma", "mc"), ("%table", "%none", "%mh")),
        "}",
        "%group_low = arith.muli %group, %blocks_wide : i64",
        "%low = arith.divui %group_low, %groups : i64",
        "%group_high = arith.addi %group_low, %blocks_wide : i64",
        "%top = arith.divui %group_high, %groups : i64",
        "scf.for %j = %low to %top step %one : i64 {",
        "%column = arith.muli %j, %wide : i64",
        "%left = arith.subi %across, %column : i64",
        "%nh = arith.minsi %left, %wide : i64",
        "%fj = arith.muli %j, %far_block : i64",
        bytes_behind("%uj", "%columns", "%fj"),
        "scf.for %place = %none to %places step %one : i64 {",
        "%fv = arith.muli %place, %plane : i64",
        "%fu = arith.muli %place, %place_bytes : i64",
        "%fm = arith.muli %place, %sums_plane : i64",
        bytes_behind("%vb", "%rooms_own", "%fv"),
        bytes_behind("%ub", "%uj", "%fu"),
        bytes_behind("%mb", "%multiplied", "%fm"),
        _products(form),
        "}",
        *_runs(form),
        "}",
    ]


def _runs(form: Form) -> list[str]:
    """The results of a block's tiles in 64 columns, for each run of tiles that lie in one row: two lines of pixels."""
    results = [("%mr", "!llvm.ptr"), ("%sums", "!llvm.ptr"), ("%length", "i64"), ("%nh", "i64"), ("%sums_plane", "i64")]
    results.append(("%line", "i64"))
    return [
        "%run0 = arith.divui %i, %tiles_wide : i64",
        "%run1 = arith.ceildivsi %row_behind, %tiles_wide : i64",
        "scf.for %run = %run0 to %run1 step %one : i64 {",
        "%run_first = arith.muli %run, %tiles_wide : i64",
        "%run_behind = arith.addi %run_first, %tiles_wide : i64",
        "%from = arith.maxsi %i, %run_first : i64",
        "%to = arith.minsi %row_behind, %run_behind : i64",
        "%length = arith.subi %to, %from : i64",
        "%skipped = arith.subi %from, %i : i64",
        "%fr = arith.muli %skipped, %row : i64",
        bytes_behind("%mr", "%multiplied", "%fr"),
        called(f"{winograd_transforms.RESULTS}{form.suffix}", results),
        "%image = arith.divui %run, %tiles_high : i64",
        "%tile_y = arith.remui %run, %tiles_high : i64",
        "%tile_x = arith.subi %from, %run_first : i64",
        "%y0 = arith.muli %tile_y, %two : i64",
        "%x0 = arith.muli %tile_x, %two : i64",
        "%twice = arith.muli %length, %two : i64",
        "%w_left = arith.subi %w, %x0 : i64",
        "%pixels = arith.minsi %twice, %w_left : i64",
        "%h_left = arith.subi %h, %y0 : i64",
        "%y_count = arith.minsi %h_left, %two : i64",
        "scf.for %dy = %none to %y_count step %one : i64 {",
        "%y = arith.addi %y0, %dy : i64",
        "%fs = arith.muli %dy, %line : i64",
        bytes_behind("%sums_y", "%sums", "%fs"),
        "scf.if %has_tail {",
        "%image_lines = arith.muli %image, %h : i64",
        "%lines_before = arith.addi %image_lines, %y : i64",
        "%pixels_before = arith.muli %lines_before, %w : i64",
        "%pixel = arith.addi %pixels_before, %x0 : i64",
        tail_text.call("%sums_y", ["pixel", "pixels", "column", "nh", "across"]),
        "} else {",
        "%f_image = arith.muli %image, %cn : i64",
        "%f_y = arith.muli %y, %cy : i64",
        "%f_x = arith.muli %x0, %cx : i64",
        "%f_column = arith.muli %column, %number : i64",
        "%f_line = arith.addi %f_image, %f_y : i64",
        "%f_pixel = arith.addi %f_line, %f_x : i64",
        "%f_all = arith.addi %f_pixel, %f_column : i64",
        bytes_behind("%cy_", "%c", "%f_all"),
        "%width_bytes = arith.muli %nh, %number : i64",
        "scf.for %x = %none to %pixels step %one : i64 {",
        "%fx = arith.muli %x, %cx : i64",
        "%sx = arith.muli %x, %row : i64",
        bytes_behind("%cx_", "%cy_", "%fx"),
        bytes_behind("%sums_x", "%sums_y", "%sx"),
        '"llvm.intr.memcpy"(%cx_, %sums_x, %width_bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()',
        "}",
        "}",
        "}",
        "}",
    ]
