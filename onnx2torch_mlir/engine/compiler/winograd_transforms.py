"""The additions around the products of Winograd's F(2x2, 3x3) (winograd_code.py): tiles of images, and results of sums."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, constants, declared, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.compiler.winograd_forms import Form
from onnx2torch_mlir.engine.layout import TILE_PLACES

SIDE = math.isqrt(TILE_PLACES)
"""Lines and columns of a tile."""
_BYTES = 4
ROW_BYTES = BLOCK_COLUMNS * _BYTES
"""Of the sums of a tile at one place, in a block of columns."""

TILES, RESULTS = "o2m_winograd_tiles", "o2m_winograd_results"
SIZES = ("h", "w", "an", "ay", "ax", "depth", "tiles_high", "tiles_wide", "plane")
"""What `TILES` takes of the convolution, and how many bytes apart places lie."""


def tile_row(name: str, form: Form) -> list[str]:
    """``name``: how many bytes apart tiles are at one place, of ``%depth`` channels each."""
    return [
        f"{name}_number = arith.constant {form.made_bytes} : i64",
        f"{name}_part = arith.constant {form.row_part} : i64",
        f"{name}_dense = arith.muli %depth, {name}_number : i64",
        f"{name}_parts = arith.ceildivsi {name}_dense, {name}_part : i64",
        f"{name} = arith.muli {name}_parts, {name}_part : i64",
    ]


def tiles(unit: VectorUnit, form: Form) -> str:
    """@o2m_winograd_tiles(image, zeros, to, first, count, sizes, conversion): ``count`` tiles transformed, place by place.

    Pixels beyond the image are read as ``zeros``, which are as many as an image has channels.
    """
    lanes = form.channels_at_once(unit)
    vector = f"vector<{lanes}x{form.made}>"
    pointers = [(f"%{pointer}", "!llvm.ptr") for pointer in ("a", "zeros", "to")]
    arguments = [*pointers, *words(["first", "count", *SIZES]), *form.conversion]
    side = range(SIDE)
    lines = [
        f"func.func private @{TILES}{form.suffix}({declared(arguments)}) {{",
        *constants(none=0, one=1, two=2, lanes=lanes),
        *form.constants(unit),
        *(f"%i{i} = arith.constant {i} : i64" for i in side),
        "%h_in = arith.addi %h, %two : i64",
        "%w_in = arith.addi %w, %two : i64",
        *tile_row("%tile_row", form),
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
        bytes_behind("%at", "%a", "%f_image"),
        "%f_to = arith.muli %t, %tile_row : i64",
        bytes_behind("%to0", "%to", "%f_to"),
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
                bytes_behind(f"%in{i}{j}", "%at", f"%f{i}{j}"),
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
                f"%q{i}{j} = llvm.getelementptr %p{i}{j}[%channel] : (!llvm.ptr, i64) -> !llvm.ptr, {form.read}",
                *form.loaded(f"%d{i}{j}", f"%q{i}{j}", unit),
            ]
    for j in side:
        lines += _differences(form, f"%t{{}}{j}", f"%d{{}}{j}", vector)
    for i in side:
        lines += _differences(form, f"%v{i}{{}}", f"%t{i}{{}}", vector)
    lines += [f"%to_k = llvm.getelementptr %to0[%channel] : (!llvm.ptr, i64) -> !llvm.ptr, {form.made}"]
    for i, j, place in _along_places(lines, "%to_k"):
        lines.append(f"llvm.store %v{i}{j}, {place} {{alignment = {form.made_bytes} : i64}} : {vector}, !llvm.ptr")
    return "\n".join([*lines, "}", "}", "return", "}"])


def _along_places(lines: list[str], first: str) -> Iterator[tuple[int, int, str]]:
    """Line and column of each place of a tile, and a pointer there, ``%plane`` bytes on, made by ``lines``."""
    place = first
    for number in range(TILE_PLACES):
        if number:
            lines.append(bytes_behind(f"{first}{number}", place, "%plane"))
            place = f"{first}{number}"
        yield *divmod(number, SIDE), place


def _differences(form: Form, to: str, of: str, vector: str) -> list[str]:
    """Four numbers transformed: d0 - d2, d1 + d2, d2 - d1, d1 - d3."""
    made = [(form.subtracted, 0, 2), (form.added, 1, 2), (form.subtracted, 2, 1), (form.subtracted, 1, 3)]
    return [
        operation(to.format(place), of.format(one), of.format(other), vector)
        for place, (operation, one, other) in enumerate(made)
    ]


def results(unit: VectorUnit, form: Form) -> str:
    """@o2m_winograd_results(sums by place, to, tiles, columns, bytes between places, bytes between the two lines of pixels)."""
    vector = f"vector<{unit.lanes}x{form.sum}>"
    pointers = [("%m", "!llvm.ptr"), ("%to", "!llvm.ptr")]
    side = range(SIDE)
    lines = [
        f"func.func private @{RESULTS}{form.suffix}({declared([*pointers, *words(['count', 'columns', 'plane', 'line'])])}) {{",
        *constants(none=0, one=1, row=ROW_BYTES, two_rows=2 * ROW_BYTES, lanes=unit.lanes),
        *([f"%quarter = arith.constant dense<{form.quarter}> : {vector}"] if form.quarter else []),
        "scf.for %t = %none to %count step %one : i64 {",
        "%fm = arith.muli %t, %row : i64",
        bytes_behind("%mt", "%m", "%fm"),
        "%ft = arith.muli %t, %two_rows : i64",
        bytes_behind("%tt", "%to", "%ft"),
        "scf.for %k = %none to %columns step %lanes : i64 {",
        f"%mk = llvm.getelementptr %mt[%k] : (!llvm.ptr, i64) -> !llvm.ptr, {form.sum}",
        f"%r00 = llvm.getelementptr %tt[%k] : (!llvm.ptr, i64) -> !llvm.ptr, {form.sum}",
        f"%r01 = llvm.getelementptr %r00[{BLOCK_COLUMNS}] : (!llvm.ptr) -> !llvm.ptr, {form.sum}",
        bytes_behind("%r10", "%r00", "%line"),
        bytes_behind("%r11", "%r01", "%line"),
    ]
    for i, j, place in _along_places(lines, "%mk"):
        lines.append(f"%m{i}{j} = llvm.load {place} {{alignment = 4 : i64}} : !llvm.ptr -> {vector}")
    for j in side:
        lines += _totals(form, f"%s{{}}{j}", f"%m{{}}{j}", vector)
    for i in range(2):
        lines += _totals(form, f"%y{i}{{}}", f"%s{i}{{}}", vector)
        for j in range(2):
            result = f"%y{i}{j}"
            if form.quarter:
                lines.append(f"%z{i}{j} = arith.shrsi {result}, %quarter : {vector}")
                result = f"%z{i}{j}"
            lines.append(f"llvm.store {result}, %r{i}{j} {{alignment = 4 : i64}} : {vector}, !llvm.ptr")
    return "\n".join([*lines, "}", "}", "return", "}"])


def _totals(form: Form, to: str, of: str, vector: str) -> list[str]:
    """Four sums transformed: m0 + m1 + m2, m1 - m2 - m3."""
    m0, m1, m2, m3 = (of.format(place) for place in range(SIDE))
    first, second = to.format(0), to.format(1)
    return [
        form.added(f"{first}_", m0, m1, vector),
        form.added(first, f"{first}_", m2, vector),
        form.subtracted(f"{second}_", m1, m2, vector),
        form.subtracted(second, f"{second}_", m3, vector),
    ]
