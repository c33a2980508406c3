"""Convolutions with windows of 3 by 3 through Winograd's F(2x2, 3x3): 16 products for 4 results, where there are 36.

(A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.) The image falls into *tiles* of 4 by 4 pixels
that share 2 with each neighbour; each makes 2 by 2 results. A tile is transformed by additions, so are the weights, once
(packed_weights.py). Then 16 contractions, one for each place in a tile, and additions that make results of their sums.

Tiles go in blocks, so that all of this stays in the second-level cache; where there are few, their columns go in groups.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import contraction_panels, row_tables, threads
from onnx2torch_mlir.engine.compiler.code_text import declared, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS, Kind, Tail
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

PLACES = 16
"""Pixels of a tile."""
_SIDE = 4
KIND = Kind(batches=0, rows=1, segments=1, unpacked=0)
"""Of the contractions that it consists of: these have the functions that it calls."""

_MOST_TILES = 64
"""Of a block; with fewer the weights are read too often, with more the tiles come from farther away."""
_ITEMS_FOR_EACH = 4
_BYTES = 4
_ROW_BYTES = BLOCK_COLUMNS * _BYTES
_PAGE, _APART = 4096, 320
"""Places of a tile lie a page and 5 lines apart: at the same place of each page they would share few lines of the cache."""

_IMAGE = ("n", "h", "w", "an", "ay", "ax", "cn", "cy", "cx", "depth", "across")
"""Sizes of the result, strides in bytes of the image and of the result, how many channels they have."""
_SHARED = (*_IMAGE, "tiles_high", "tiles_wide", "tiles", "size", "groups", "plane", "sums_plane", "room")


def name(tail: Tail | None) -> str:
    """The function of convolutions that ``tail`` follows."""
    return "o2m_winograd" + ("" if tail is None else f"_{tail.name}")


def arguments() -> tuple[str, ...]:
    """The names of its i64 arguments, after the context, the image, the packed weights and the result."""
    return _IMAGE


def functions_for(unit: VectorUnit, tails: set[Tail | None]) -> str:
    """The texts of the functions for ``tails`` and of what only they call."""
    texts = [_transform(unit), _results(unit)]
    for tail in sorted(tails, key=str):
        types = [type_ for _, type_ in _of_items(tail)]
        texts += [_items(unit, tail), threads.spread(_items_name(tail), types), _entry(tail)]
    return "\n".join(texts)


def _items_name(tail: Tail | None) -> str:
    return f"{name(tail)}_items"


def _given(tail: Tail | None) -> list[tuple[str, str]]:
    """What a tail takes besides its block."""
    return [] if tail is None else [(f"%t{i}", type_) for i, type_ in enumerate(tail.types)]


def _of_items(tail: Tail | None) -> list[tuple[str, str]]:
    pointers = [(f"%{pointer}", "!llvm.ptr") for pointer in ("a", "u", "c", "rooms")]
    return [*pointers, *words(_SHARED), *_given(tail)]


def _on(target: str, base: str, offset: str) -> str:
    """``target``: a pointer so many bytes behind another."""
    return f"{target} = llvm.getelementptr {base}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"


def _constants(**numbers: int) -> list[str]:
    return [f"%{name} = arith.constant {number} : i64" for name, number in numbers.items()]


def _entry(tail: Tail | None) -> str:
    """The function that programs call."""
    pointers = [(f"%{pointer}", "!llvm.ptr") for pointer in ("ctx", "a", "u", "c")]
    items = _of_items(tail)
    return "\n".join(
        [
            f"func.func private @{name(tail)}({declared([*pointers, *words(_IMAGE), *_given(tail)])}) {{",
            *_constants(one=1, two=2, most=_MOST_TILES, row=_ROW_BYTES, more=_LINES_OF_ROOM),
            *_constants(wide=BLOCK_COLUMNS, page=_PAGE, apart=_APART, places=PLACES, each=_ITEMS_FOR_EACH, number=_BYTES),
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
            "%items = arith.muli %blocks, %groups : i64",
            "%depth_bytes = arith.muli %depth, %number : i64",
            *_plane("plane", "%depth_bytes"),
            *_plane("sums_plane", "%row"),
            "%both = arith.addi %plane, %sums_plane : i64",
            "%all_planes = arith.muli %both, %places : i64",
            # Zeros, then for each tile its row in the table and its results.
            "%for_tiles = arith.muli %size, %more : i64",
            "%small = arith.addi %depth_bytes, %for_tiles : i64",
            "%bytes = arith.addi %all_planes, %small : i64",
            "%pages = arith.ceildivsi %bytes, %page : i64",
            "%room = arith.muli %pages, %page : i64",
            "%all_rooms = arith.muli %room, %threads : i64",
            "%rooms = func.call @o2m_alloc(%ctx, %all_rooms) : (!llvm.ptr, i64) -> !llvm.ptr",
            "%sums_of_all = arith.muli %tiles, %across : i64",
            "%products = arith.muli %sums_of_all, %depth : i64",
            "%twice = arith.muli %products, %two : i64",
            "%work = arith.divui %twice, %items : i64",
            f"func.call @{threads.spread_name(_items_name(tail))}(%ctx, %items, %work,"
            f" {', '.join(argument for argument, _ in items)}) :"
            f" (!llvm.ptr, i64, i64, {', '.join(type_ for _, type_ in items)}) -> ()",
            "func.call @o2m_free(%ctx, %rooms) : (!llvm.ptr, !llvm.ptr) -> ()",
            "return",
            "}",
        ]
    )


_LINES_OF_ROOM = row_tables.ENTRY_BYTES + _SIDE * _ROW_BYTES
"""Bytes that a thread needs for each tile besides the transformed ones."""


def _plane(plane: str, each: str) -> list[str]:
    """``%plane``: how far apart the places of a block's tiles lie, of which each has so many bytes."""
    return [
        f"%{plane}_full = arith.muli %size, {each} : i64",
        f"%{plane}_pages = arith.ceildivsi %{plane}_full, %page : i64",
        f"%{plane}_even = arith.muli %{plane}_pages, %page : i64",
        f"%{plane} = arith.addi %{plane}_even, %apart : i64",
    ]


def _items(unit: VectorUnit, tail: Tail | None) -> str:
    """Groups of the columns of blocks of tiles, ``begin`` to ``end``."""
    panels = [("%vb", "!llvm.ptr"), ("%table", "!llvm.ptr"), ("%count", "i64"), ("%ub", "!llvm.ptr"), ("%nh", "i64")]
    panels += [("%mb", "!llvm.ptr"), ("%no", "i1"), ("%depth", "i64")]
    transform = [(pointer, "!llvm.ptr") for pointer in ("%a", "%nothing", "%rooms_own")]
    transform += words(["first", "count", *_TRANSFORM])
    return "\n".join(
        [
            f"func.func private @{_items_name(tail)}({declared(_of_items(tail))}, {threads.RANGE}) {{",
            *_constants(none=0, one=1, two=2, places=PLACES, number=_BYTES, wide=BLOCK_COLUMNS, row=_ROW_BYTES),
            *_constants(entry=row_tables.ENTRY_BYTES, far_panels=BLOCK_COLUMNS // unit.columns, width=unit.columns),
            "%no = arith.constant false",
            "%zero = arith.constant 0 : i8",
            "%before = arith.muli %worker, %room : i64",
            _on("%rooms_own", "%rooms", "%before"),
            "%tiles_bytes = arith.muli %plane, %places : i64",
            _on("%m", "%rooms_own", "%tiles_bytes"),
            "%sums_bytes = arith.muli %sums_plane, %places : i64",
            _on("%sums", "%m", "%sums_bytes"),
            "%two_rows = arith.muli %row, %two : i64",
            "%line = arith.muli %size, %two_rows : i64",
            "%lines = arith.muli %line, %two : i64",
            _on("%table", "%sums", "%lines"),
            "%table_bytes = arith.muli %size, %entry : i64",
            _on("%nothing", "%table", "%table_bytes"),
            "%depth_bytes = arith.muli %depth, %number : i64",
            '"llvm.intr.memset"(%nothing, %zero, %depth_bytes) <{isVolatile = false}> : (!llvm.ptr, i8, i64) -> ()',
            "%far = arith.muli %depth_bytes, %width : i64",
            "%panels = arith.ceildivsi %across, %width : i64",
            "%place_bytes = arith.muli %far, %panels : i64",
            "%far_block = arith.muli %far, %far_panels : i64",
            "%blocks_wide = arith.ceildivsi %across, %wide : i64",
            "%no_block = arith.constant -1 : i64",
            "%last = scf.for %item = %begin to %end step %one iter_args(%known = %no_block) -> (i64) : i64 {",
            "%block = arith.divui %item, %groups : i64",
            "%group = arith.remui %item, %groups : i64",
            "%first = arith.muli %block, %size : i64",
            "%rest = arith.subi %tiles, %first : i64",
            "%count = arith.minsi %rest, %size : i64",
            *(f"%m{i}0 = arith.addi %{of}, %none : i64" for i, of in (("n", "count"), ("a", "depth_bytes"), ("c", "row"))),
            "%is_new = arith.cmpi ne, %block, %known : i64",
            "scf.if %is_new {",
            _called("o2m_winograd_tiles", transform),
            row_tables.write("m", 1, ("ma", "mc"), ("%table", "%none", "%count")),
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
            _on("%uj", "%u", "%fj"),
            "scf.for %place = %none to %places step %one : i64 {",
            "%fv = arith.muli %place, %plane : i64",
            "%fu = arith.muli %place, %place_bytes : i64",
            "%fm = arith.muli %place, %sums_plane : i64",
            _on("%vb", "%rooms_own", "%fv"),
            _on("%ub", "%uj", "%fu"),
            _on("%mb", "%m", "%fm"),
            _called(contraction_panels.panels_name(1, None), panels),
            "}",
            *_runs(tail),
            "}",
            "scf.yield %block : i64",
            "}",
            "return",
            "}",
        ]
    )


def _runs(tail: Tail | None) -> list[str]:
    """The results of a block's tiles in 64 columns, for each run of tiles that lie in one row: two lines of pixels."""
    results = [("%mr", "!llvm.ptr"), ("%sums", "!llvm.ptr"), ("%length", "i64"), ("%nh", "i64"), ("%sums_plane", "i64")]
    results.append(("%line", "i64"))
    lines = [
        "%behind = arith.addi %first, %count : i64",
        "%run0 = arith.divui %first, %tiles_wide : i64",
        "%run1 = arith.ceildivsi %behind, %tiles_wide : i64",
        "scf.for %run = %run0 to %run1 step %one : i64 {",
        "%run_first = arith.muli %run, %tiles_wide : i64",
        "%run_behind = arith.addi %run_first, %tiles_wide : i64",
        "%from = arith.maxsi %first, %run_first : i64",
        "%to = arith.minsi %behind, %run_behind : i64",
        "%length = arith.subi %to, %from : i64",
        "%skipped = arith.subi %from, %first : i64",
        "%fr = arith.muli %skipped, %row : i64",
        _on("%mr", "%m", "%fr"),
        _called("o2m_winograd_results", results),
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
        _on("%sums_y", "%sums", "%fs"),
    ]
    if tail is None:
        lines += [
            "%f_image = arith.muli %image, %cn : i64",
            "%f_y = arith.muli %y, %cy : i64",
            "%f_x = arith.muli %x0, %cx : i64",
            "%f_column = arith.muli %column, %number : i64",
            "%f_line = arith.addi %f_image, %f_y : i64",
            "%f_pixel = arith.addi %f_line, %f_x : i64",
            "%f_all = arith.addi %f_pixel, %f_column : i64",
            _on("%cy_", "%c", "%f_all"),
            "%width_bytes = arith.muli %nh, %number : i64",
            "scf.for %x = %none to %pixels step %one : i64 {",
            "%fx = arith.muli %x, %cx : i64",
            "%sx = arith.muli %x, %row : i64",
            _on("%cx_", "%cy_", "%fx"),
            _on("%sums_x", "%sums_y", "%sx"),
            '"llvm.intr.memcpy"(%cx_, %sums_x, %width_bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()',
            "}",
        ]
    else:
        lines += [
            "%image_lines = arith.muli %image, %h : i64",
            "%lines_before = arith.addi %image_lines, %y : i64",
            "%pixels_before = arith.muli %lines_before, %w : i64",
            "%pixel = arith.addi %pixels_before, %x0 : i64",
            _called(
                tail.name,
                [("%sums_y", "!llvm.ptr"), *words(["pixel", "pixels", "column", "nh", "across"]), *_given(tail)],
            ),
        ]
    return [*lines, "}", "}"]


def _called(function: str, given: list[tuple[str, str]]) -> str:
    return f"func.call @{function}({', '.join(v for v, _ in given)}) : ({', '.join(t for _, t in given)}) -> ()"


_TRANSFORM = ("h", "w", "an", "ay", "ax", "depth", "tiles_high", "tiles_wide", "plane")


def _transform(unit: VectorUnit) -> str:
    """@o2m_winograd_tiles(image, zeros, to, first, count, sizes): ``count`` tiles transformed, place by place.

    Pixels beyond the image are read as ``zeros``, which are as many as an image has channels.
    """
    vector = f"vector<{unit.lanes}xf32>"
    pointers = [(f"%{pointer}", "!llvm.ptr") for pointer in ("a", "zeros", "to")]
    side = range(_SIDE)
    lines = [
        f"func.func private @o2m_winograd_tiles({declared([*pointers, *words(['first', 'count', *_TRANSFORM])])}) {{",
        *_constants(none=0, one=1, two=2, number=_BYTES, lanes=unit.lanes),
        *(f"%i{i} = arith.constant {i} : i64" for i in side),
        "%h_in = arith.addi %h, %two : i64",
        "%w_in = arith.addi %w, %two : i64",
        "%each = arith.muli %depth, %number : i64",
        "%last = arith.subi %depth, %lanes : i64",
        "scf.for %t = %none to %count step %one : i64 {",
        "%tile = arith.addi %first, %t : i64",
        "%across = arith.divui %tile, %tiles_wide : i64",
        "%tile_x = arith.remui %tile, %tiles_wide : i64",
        "%image = arith.divui %across, %tiles_high : i64",
        "%tile_y = arith.remui %across, %tiles_high : i64",
        "%y = arith.muli %tile_y, %two : i64",
        "%x = arith.muli %tile_x, %two : i64",
        "%f_image = arith.muli %image, %an : i64",
        _on("%at", "%a", "%f_image"),
        "%f_to = arith.muli %t, %each : i64",
        _on("%to0", "%to", "%f_to"),
    ]
    for i in side:
        lines += [
            f"%y{i} = arith.addi %y, %i{i} : i64",
            f"%is_y{i} = arith.cmpi slt, %y{i}, %h_in : i64",
            f"%fy{i} = arith.muli %y{i}, %ay : i64",
            f"%x{i} = arith.addi %x, %i{i} : i64",
            f"%is_x{i} = arith.cmpi slt, %x{i}, %w_in : i64",
            f"%fx{i} = arith.muli %x{i}, %ax : i64",
        ]
    for i in side:
        for j in side:
            lines += [
                f"%is{i}{j} = arith.andi %is_y{i}, %is_x{j} : i1",
                f"%f{i}{j} = arith.addi %fy{i}, %fx{j} : i64",
                _on(f"%in{i}{j}", "%at", f"%f{i}{j}"),
                f"%p{i}{j} = arith.select %is{i}{j}, %in{i}{j}, %zeros : !llvm.ptr",
            ]
    lines += [
        "scf.for %k = %none to %depth step %lanes : i64 {",
        # The last channels once more, where what is left does not fill a vector.
        "%channel = arith.minsi %k, %last : i64",
    ]
    for i in side:
        for j in side:
            lines += [
                f"%q{i}{j} = llvm.getelementptr %p{i}{j}[%channel] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
                f"%d{i}{j} = llvm.load %q{i}{j} {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
            ]
    for j in side:
        lines += _differences(f"%t{{}}{j}", f"%d{{}}{j}", vector)
    for i in side:
        lines += _differences(f"%v{i}{{}}", f"%t{i}{{}}", vector)
    lines += ["%to_k = llvm.getelementptr %to0[%channel] : (!llvm.ptr, i64) -> !llvm.ptr, f32"]
    place = "%to_k"
    for i in side:
        for j in side:
            lines.append(f"llvm.store %v{i}{j}, {place} {{alignment = 4 : i64}} : {vector}, !llvm.ptr")
            if (i, j) != (_SIDE - 1, _SIDE - 1):
                lines.append(_on(f"%to{i}_{j}", place, "%plane"))
                place = f"%to{i}_{j}"
    return "\n".join([*lines, "}", "}", "return", "}"])


def _differences(to: str, of: str, vector: str) -> list[str]:
    """Four numbers transformed: d0 - d2, d1 + d2, d2 - d1, d1 - d3."""
    pairs = [("subf", 0, 2), ("addf", 1, 2), ("subf", 2, 1), ("subf", 1, 3)]
    return [
        f"{to.format(place)} = arith.{operation} {of.format(one)}, {of.format(other)} : {vector}"
        for place, (operation, one, other) in enumerate(pairs)
    ]


def _results(unit: VectorUnit) -> str:
    """@o2m_winograd_results(sums by place, to, tiles, columns, bytes between places, bytes between the two lines of pixels)."""
    vector = f"vector<{unit.lanes}xf32>"
    pointers = [("%m", "!llvm.ptr"), ("%to", "!llvm.ptr")]
    side = range(_SIDE)
    lines = [
        f"func.func private @o2m_winograd_results({declared([*pointers, *words(['count', 'columns', 'plane', 'line'])])}) {{",
        *_constants(none=0, one=1, row=_ROW_BYTES, two_rows=2 * _ROW_BYTES, lanes=unit.lanes),
        "scf.for %t = %none to %count step %one : i64 {",
        "%fm = arith.muli %t, %row : i64",
        _on("%mt", "%m", "%fm"),
        "%ft = arith.muli %t, %two_rows : i64",
        _on("%tt", "%to", "%ft"),
        "scf.for %k = %none to %columns step %lanes : i64 {",
        "%mk = llvm.getelementptr %mt[%k] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%r00 = llvm.getelementptr %tt[%k] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        f"%r01 = llvm.getelementptr %r00[{BLOCK_COLUMNS}] : (!llvm.ptr) -> !llvm.ptr, f32",
        _on("%r10", "%r00", "%line"),
        _on("%r11", "%r01", "%line"),
    ]
    place = "%mk"
    for i in side:
        for j in side:
            lines.append(f"%m{i}{j} = llvm.load {place} {{alignment = 4 : i64}} : !llvm.ptr -> {vector}")
            if (i, j) != (_SIDE - 1, _SIDE - 1):
                lines.append(_on(f"%p{i}{j}", place, "%plane"))
                place = f"%p{i}{j}"
    for j in side:
        lines += _totals(f"%s{{}}{j}", f"%m{{}}{j}", vector)
    for i in range(2):
        lines += _totals(f"%y{i}{{}}", f"%s{i}{{}}", vector)
        lines += [f"llvm.store %y{i}{j}, %r{i}{j} {{alignment = 4 : i64}} : {vector}, !llvm.ptr" for j in range(2)]
    return "\n".join([*lines, "}", "}", "return", "}"])


def _totals(to: str, of: str, vector: str) -> list[str]:
    """Four sums transformed: m0 + m1 + m2, m1 - m2 - m3."""
    m0, m1, m2, m3 = (of.format(place) for place in range(_SIDE))
    first, second = to.format(0), to.format(1)
    return [
        f"{first}_ = arith.addf {m0}, {m1} : {vector}",
        f"{first} = arith.addf {first}_, {m2} : {vector}",
        f"{second}_ = arith.subf {m1}, {m2} : {vector}",
        f"{second} = arith.subf {second}_, {m3} : {vector}",
    ]
