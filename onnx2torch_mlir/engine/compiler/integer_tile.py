"""Register tiles of integers: a few rows times two vectors of columns of int32 sums, exact modulo 2^32.

Both operands come packed as *pairs*: two neighbours along the sum, each 16 bits wide and less its zero point, so that one
instruction multiplies two pairs and adds the two products (``pmaddwd``; with VNNI LLVM makes that and the sum one).
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_UNROLLED = 2
_AHEAD = 12
"""Steps along the sum for which packed columns are asked for in advance: they come from the second-level cache."""
TYPES = "!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i1, i64"
"""Of a tile's arguments.

The left operand's pairs at the first row, and how many bytes apart its rows are; the table of rows, from the tile's first
(of which the second entry of each is the byte offset of the row in the result); the right operand's pairs; the result at the
first column; how many columns there are to store; whether to add to what the result holds; how many pairs are summed up.
"""

_INTRINSICS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}


def tile_name(rows: int) -> str:
    """The function of a tile."""
    return f"o2m_tile_i8_{rows}"


def products(unit: VectorUnit, name: str, x: str, y: str) -> list[str]:
    """``name`` = for each lane the sum of two products of the numbers of 16 bits in ``x`` and ``y``."""
    lanes = unit.lanes
    pairs, wide, sums = f"vector<{2 * lanes}xi16>", f"vector<{2 * lanes}xi32>", f"vector<{lanes}xi32>"
    if unit.multiplies_pairs:
        return [f'{name} = llvm.call_intrinsic "{_INTRINSICS[lanes]}"({x}, {y}) : ({pairs}, {pairs}) -> {sums}']
    even, odd = list(range(0, 2 * lanes, 2)), list(range(1, 2 * lanes, 2))
    return [
        f"{name}x = arith.extsi {x} : {pairs} to {wide}",
        f"{name}y = arith.extsi {y} : {pairs} to {wide}",
        f"{name}p = arith.muli {name}x, {name}y : {wide}",
        f"{name}e = vector.shuffle {name}p, {name}p {even} : {wide}, {wide}",
        f"{name}o = vector.shuffle {name}p, {name}p {odd} : {wide}, {wide}",
        f"{name} = arith.addi {name}e, {name}o : {sums}",
    ]


def tile(unit: VectorUnit, rows: int) -> str:
    """The text of a tile of ``rows`` rows."""
    lanes = unit.lanes
    sums, mask, wide = f"vector<{lanes}xi32>", f"vector<{lanes}xi1>", f"vector<{lanes}xi64>"
    cells = [(row, half) for row in range(rows) for half in range(2)]
    kinds = ", ".join([sums] * len(cells))
    numbers = ", ".join(map(str, range(lanes)))
    lines = [
        f"func.func private @{tile_name(rows)}(%a: !llvm.ptr, %far: i64, %rows: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr,"
        " %columns: i64, %add: i1, %pairs: i64) {",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%zero = arith.constant dense<0> : {sums}",
        f"%lane = arith.constant dense<[{numbers}]> : {wide}",
        f"%shift = arith.constant dense<{lanes}> : {wide}",
        f"%limit0 = vector.broadcast %columns : i64 to {wide}",
        f"%limit1 = arith.subi %limit0, %shift : {wide}",
        *(f"%m{half} = arith.cmpi slt, %lane, %limit{half} : {wide}" for half in range(2)),
        f"%width = arith.constant {2 * lanes} : i64",
        "%full = arith.cmpi sge, %columns, %width : i64",
    ]
    for row in range(rows):
        lines += [
            f"%n{row} = arith.constant {row} : i64",
            f"%f{row} = arith.muli %n{row}, %far : i64",
            f"%a{row} = llvm.getelementptr %a[%f{row}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            f"%pc{row} = llvm.getelementptr %rows[{2 * row + 1}] : (!llvm.ptr) -> !llvm.ptr, i64",
            f"%oc{row} = llvm.load %pc{row} : !llvm.ptr -> i64",
            f"%c{row}_0 = llvm.getelementptr %c[%oc{row}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            f"%c{row}_1 = llvm.getelementptr %c{row}_0[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
        ]
    lines.append(f"%start:{len(cells)} = scf.if %add -> ({kinds}) {{")
    for row, half in cells:
        lines.append(
            f"%i{row}_{half} = llvm.intr.masked.load %c{row}_{half}, %m{half}, %zero {{alignment = 4 : i32}}"
            f" : (!llvm.ptr, {mask}, {sums}) -> {sums}"
        )
    lines += [f"scf.yield {', '.join(f'%i{row}_{half}' for row, half in cells)} : {kinds}", "} else {"]
    lines += [f"scf.yield {', '.join(['%zero'] * len(cells))} : {kinds}", "}"]
    lines += [
        f"%by = arith.constant {_UNROLLED} : i64",
        "%rest = arith.remui %pairs, %by : i64",
        "%whole = arith.subi %pairs, %rest : i64",
    ]
    found = [f"%start#{i}" for i in range(len(cells))]
    for tag, low, high, step, unrolled in (("u", "%none", "%whole", "%by", _UNROLLED), ("v", "%whole", "%pairs", "%one", 1)):
        found = _loop(unit, rows, lines, tag, (low, high, step), unrolled, found)
    lines.append("scf.if %full {")
    lines += [
        f"llvm.store {value}, %c{row}_{half} {{alignment = 4 : i64}} : {sums}, !llvm.ptr"
        for (row, half), value in zip(cells, found, strict=True)
    ]
    lines.append("} else {")
    lines += [
        f"llvm.intr.masked.store {value}, %c{row}_{half}, %m{half} {{alignment = 4 : i32}} : {sums}, {mask} into !llvm.ptr"
        for (row, half), value in zip(cells, found, strict=True)
    ]
    return "\n".join([*lines, "}", "return", "}"])


def _loop(
    unit: VectorUnit, rows: int, lines: list[str], tag: str, bounds: tuple[str, str, str], unrolled: int, sums: list[str]
) -> list[str]:
    """A loop over pairs, appended to ``lines``; the sums after it."""
    lanes = unit.lanes
    pairs, vector = f"vector<{2 * lanes}xi16>", f"vector<{lanes}xi32>"
    kinds = ", ".join([vector] * len(sums))
    held = [f"%{tag}h{i}" for i in range(len(sums))]
    given = ", ".join(f"{h} = {s}" for h, s in zip(held, sums, strict=True))
    low, high, step = bounds
    lines += [
        f"%{tag}r:{len(sums)} = scf.for %{tag}k = {low} to {high} step {step} iter_args({given}) -> ({kinds}) : i64 {{",
        f"%{tag}far = arith.muli %{tag}k, %width : i64",
        f"%{tag}b = llvm.getelementptr %b[%{tag}far] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
        *(f"%{tag}a{row} = llvm.getelementptr %a{row}[%{tag}k] : (!llvm.ptr, i64) -> !llvm.ptr, i32" for row in range(rows)),
    ]
    for turn in range(unrolled):
        name = f"%{tag}{turn}"
        lines += [
            f"{name}ahead = llvm.getelementptr %{tag}b[{2 * (turn + _AHEAD) * lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
            f'"llvm.intr.prefetch"({name}ahead) <{{cache = 1 : i32, hint = 3 : i32, rw = 0 : i32}}> : (!llvm.ptr) -> ()',
        ]
        for half in range(2):
            lines += [
                f"{name}q{half} = llvm.getelementptr %{tag}b[{(2 * turn + half) * lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
                f"{name}b{half} = llvm.load {name}q{half} {{alignment = 4 : i64}} : !llvm.ptr -> {pairs}",
            ]
        for row in range(rows):
            lines += [
                f"{name}p{row} = llvm.getelementptr %{tag}a{row}[{turn}] : (!llvm.ptr) -> !llvm.ptr, i32",
                f"{name}x{row} = llvm.load {name}p{row} : !llvm.ptr -> i32",
                f"{name}w{row} = vector.broadcast {name}x{row} : i32 to {vector}",
                f"{name}y{row} = vector.bitcast {name}w{row} : {vector} to {pairs}",
            ]
            for half in range(2):
                cell = 2 * row + half
                lines += products(unit, f"{name}m{row}_{half}", f"{name}y{row}", f"{name}b{half}")
                lines.append(f"{name}s{row}_{half} = arith.addi {held[cell]}, {name}m{row}_{half} : {vector}")
                held[cell] = f"{name}s{row}_{half}"
    lines += [f"scf.yield {', '.join(held)} : {kinds}", "}"]
    return [f"%{tag}r#{i}" for i in range(len(sums))]
