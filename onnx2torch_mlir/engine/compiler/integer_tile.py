"""Register tiles of integers: a few rows times two vectors of columns of int32 sums, exact modulo 2^32; or times one, where a
panel has no more columns.

Both operands come packed, neighbours along the sum side by side (integer_forms.py): as *pairs* of 16 bits, each number less its
zero point, so that one instruction multiplies two pairs and adds the two products (``pmaddwd``; with VNNI LLVM makes that and
the sum one); or as *fours* of 8 bits, unsigned ones of the left operand with signed ones of the right. Their products are added
to the sums by one instruction (``vpdpbusd``, of VNNI); without it one adds neighbouring products as 16 bits (``pmaddubsw``),
which holds them where the signed bytes are small (`VectorUnit.largest_byte`), and another two of these to 32 bits.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import tile_asks
from onnx2torch_mlir.engine.compiler.code_text import (
    LINE_BYTES,
    added_in_halves,
    asked,
    column_masks,
    held_apart,
    masked_load,
    stored_halves,
)
from onnx2torch_mlir.engine.compiler.integer_forms import IntegerForm
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

TYPES = "!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i1, i32, i64"
"""Of a tile's arguments.

The left operand's steps (pairs or fours) at the first row, and how many bytes apart its rows are; the table of rows, from the
tile's first (of which the second entry of each is the byte offset of the row in the result); the right operand's steps; the
sums of each column's numbers; the result at the first column; how many columns there are to store; whether to add to what the
result holds; what is to be subtracted from each number of the left operand; how many steps are summed up. Pairs are less their
zero points already: of them, neither the columns' sums nor what is to be subtracted are looked at.
"""

_WORD_BYTES = 4
_AHEAD = 12
"""Steps along the sum for which packed columns are asked for in advance: they come from the second-level cache."""
_BYTES = {4: "llvm.x86.ssse3.pmadd.ub.sw.128", 8: "llvm.x86.avx2.pmadd.ub.sw", 16: "llvm.x86.avx512.pmaddubs.w.512"}
_WORDS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}


def tile_name(rows: int, form: IntegerForm, halves: int = 2) -> str:
    """The function of a tile."""
    return f"o2m_tile_{form.name}_{rows}{'' if halves == 2 else '_half'}"


def tile(unit: VectorUnit, rows: int, form: IntegerForm, halves: int = 2) -> str:
    """The text of a tile of ``rows`` rows and so many ``halves`` of a panel: one or two vectors."""
    lanes = unit.lanes
    sums = f"vector<{lanes}xi32>"
    cells = [(row, half) for row in range(rows) for half in range(halves)]
    kinds = ", ".join([sums] * len(cells))
    none = [f"%start{half} = arith.addi %zero, %zero : {sums}" for half in range(halves)]
    lines = [
        f"func.func private @{tile_name(rows, form, halves)}"
        "(%a: !llvm.ptr, %far: i64, %rows: !llvm.ptr, %b: !llvm.ptr,"
        " %totals: !llvm.ptr, %c: !llvm.ptr, %columns: i64, %add: i1, %less: i32, %steps: i64) {",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%zero = arith.constant dense<0> : {sums}",
        f"%ones = arith.constant dense<1> : vector<{2 * lanes}xi16>",
        *column_masks(lanes),
        f"%width = arith.constant {2 * lanes} : i64",
        f"%filled = arith.constant {halves * lanes} : i64",
        "%full = arith.cmpi sge, %columns, %filled : i64",
        *(starts(lanes, halves) if form.is_fours else none),
    ]
    for row in range(rows):
        lines += [
            f"%n{row} = arith.constant {row} : i64",
            f"%f{row} = arith.muli %n{row}, %far : i64",
            f"%at{row} = llvm.getelementptr %a[%f{row}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            # Each has a register: LLVM would go from row to row by an addition more at each step.
            held_apart(f"%a{row}", f"%at{row}"),
            f"%pc{row} = llvm.getelementptr %rows[{2 * row + 1}] : (!llvm.ptr) -> !llvm.ptr, i64",
            f"%oc{row} = llvm.load %pc{row} : !llvm.ptr -> i64",
            f"%c{row}_0 = llvm.getelementptr %c[%oc{row}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            f"%c{row}_1 = llvm.getelementptr %c{row}_0[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
        ]
    lines.append(f"%start:{len(cells)} = scf.if %add -> ({kinds}) {{")
    for row, half in cells:
        lines += [
            masked_load(f"%i{row}_{half}", f"%c{row}_{half}", f"%m{half}", lanes, "i32"),
            f"%j{row}_{half} = arith.addi %i{row}_{half}, %start{half} : {sums}",
        ]
    lines += [f"scf.yield {', '.join(f'%j{row}_{half}' for row, half in cells)} : {kinds}", "} else {"]
    lines += [f"scf.yield {', '.join(f'%start{half}' for _, half in cells)} : {kinds}", "}"]
    steps = _Steps(unit, rows, form, halves)
    found = steps.all([f"%start#{i}" for i in range(len(cells))])
    lines += [*steps.lines, "scf.if %full {"]
    lines += [
        f"llvm.store {value}, %c{row}_{half} {{alignment = 4 : i64}} : {sums}, !llvm.ptr"
        for (row, half), value in zip(cells, found, strict=True)
    ]
    lines += ["} else {", *stored_halves(dict(zip(cells, found, strict=True)), lanes, "i32")]
    return "\n".join([*lines, "}", "return", "}"])


def starts(lanes: int, halves: int = 2) -> list[str]:
    """``%start0`` and, of two ``halves``, ``%start1``: what the zero point of the left operand takes from each column's sum."""
    sums = f"vector<{lanes}xi32>"
    lines = [f"%subtracted = vector.broadcast %less : i32 to {sums}"]
    for half in range(halves):
        lines += [
            f"%pt{half} = llvm.getelementptr %totals[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
            f"%t{half} = llvm.load %pt{half} {{alignment = 4 : i64}} : !llvm.ptr -> {sums}",
            f"%d{half} = arith.muli %t{half}, %subtracted : {sums}",
            f"%start{half} = arith.subi %zero, %d{half} : {sums}",
        ]
    return lines


class _Steps:
    """The text of the loops over steps.

    They are not unrolled: LLVM would load the numbers of all steps first, and the sums would leave their registers. Packed
    columns are asked for even where the processor has them in time (`VectorUnit.fetches_ahead`): that keeps loads in their
    steps, too.
    """

    def __init__(self, unit: VectorUnit, rows: int, form: IntegerForm, halves: int) -> None:
        self._unit, self._rows, self._form, self._halves = unit, rows, form, halves
        self._vector = f"vector<{unit.lanes}xi32>"
        self.lines: list[str] = []

    def all(self, sums: list[str]) -> list[str]:
        """The sums after all steps; those of few rows go in parts side by side (`VectorUnit.parts_of_sum`)."""
        parts = self._unit.parts_of_sum(self._rows)
        if parts == 1:
            return self._loop("", "%none", "%steps", sums)
        self.lines += [
            f"%parts = arith.constant {parts} : i64",
            "%of_part = arith.divui %steps, %parts : i64",
            "%in_parts = arith.muli %of_part, %parts : i64",
        ]
        found = self._loop("side", "%none", "%of_part", [*sums, *["%zero"] * (len(sums) * (parts - 1))])
        lines, found = added_in_halves(found, len(sums), f"arith.addi {{}}, {{}} : {self._vector}")
        self.lines += lines
        return self._loop("", "%in_parts", "%steps", found)

    def _loop(self, tag: str, first: str, end: str, sums: list[str]) -> list[str]:
        """The steps from ``first`` to ``end``, and as many of each further part that there are sums of."""
        kinds = ", ".join([self._vector] * len(sums))
        held = [f"%{tag}h{i}" for i in range(len(sums))]
        given = ", ".join(f"{h} = {s}" for h, s in zip(held, sums, strict=True))
        count = self._rows * self._halves
        loop = f"scf.for %{tag}k = {first} to {end} step %one iter_args({given})"
        self.lines.append(f"%{tag}r:{len(sums)} = {loop} -> ({kinds}) : i64 {{")
        found, place = list[str](), f"%{tag}k"
        for part in range(len(sums) // count):
            if part:
                self.lines.append(f"%{tag}k{part} = arith.addi {place}, %of_part : i64")
                place = f"%{tag}k{part}"
            found += self._step(f"{tag}t{part}", place, held[part * count : (part + 1) * count])
        self.lines += [f"scf.yield {', '.join(found)} : {kinds}", "}"]
        return [f"%{tag}r#{i}" for i in range(len(sums))]

    def _step(self, tag: str, place: str, sums: list[str]) -> list[str]:
        """The sums after the step at a place."""
        unit, form, lanes = self._unit, self._form, self._unit.lanes
        packed = f"vector<{4 * lanes}xi8>" if form.is_fours else f"vector<{2 * lanes}xi16>"
        self.lines += [
            f"%{tag}gone = arith.muli {place}, %width : i64",
            f"%{tag}bk = llvm.getelementptr %b[%{tag}gone] : (!llvm.ptr, i64) -> !llvm.ptr, i{8 * form.bytes}",
        ]
        if self._unit.parts_of_sum(self._rows) == 1 and form.bytes == _WORD_BYTES:
            self.lines += tile_asks.words_of_next_panel(unit, "%b", self._halves * lanes)
        for half in range(self._halves):
            self.lines += self._columns(tag, half)
        found = list[str]()
        for row in range(self._rows):
            self.lines += [
                f"%{tag}p{row} = llvm.getelementptr %a{row}[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
                f"%{tag}x{row} = llvm.load %{tag}p{row} {{alignment = {1 if form.is_fours else 4} : i64}} : !llvm.ptr -> i32",
                f"%{tag}w{row} = vector.broadcast %{tag}x{row} : i32 to {self._vector}",
                f"%{tag}y{row} = vector.bitcast %{tag}w{row} : {self._vector} to {packed}",
            ]
            for half in range(self._halves):
                added = add_fours if form.is_fours else _pairs
                name = f"%{tag}s{row}_{half}"
                self.lines += added(unit, name, sums[len(found)], f"%{tag}y{row}", f"%{tag}b{half}")
                found.append(name)
        return found

    def _columns(self, tag: str, half: int) -> list[str]:
        """A vector of a step's packed columns, and what is asked for."""
        form, lanes = self._form, self._unit.lanes
        element = f"i{8 * form.bytes}"
        is_asked = half == 0 or lanes * form.bytes >= LINE_BYTES
        ahead = (2 * _AHEAD + half) * lanes
        lines = [
            f"%{tag}ahead{half} = llvm.getelementptr %{tag}bk[{ahead}] : (!llvm.ptr) -> !llvm.ptr, {element}",
            *([asked(f"%{tag}ahead{half}")] if is_asked else []),
            f"%{tag}q{half} = llvm.getelementptr %{tag}bk[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, {element}",
        ]
        load = f"llvm.load %{tag}q{half} {{alignment = {form.bytes} : i64}} : !llvm.ptr"
        if form.is_fours:
            return [*lines, f"%{tag}b{half} = {load} -> vector<{4 * lanes}xi8>"]
        wide, narrow = (f"vector<{2 * lanes}xi{bits}>" for bits in (16, 8))
        if form.bytes == _WORD_BYTES:
            return [*lines, f"%{tag}b{half} = {load} -> {wide}"]
        lines.append(f"%{tag}n{half} = {load} -> {narrow}")
        return [*lines, f"%{tag}b{half} = arith.extsi %{tag}n{half} : {narrow} to {wide}"]


def _pairs(unit: VectorUnit, name: str, total: str, x: str, y: str) -> list[str]:
    """``name`` = for each lane ``total`` and the two products of the numbers of 16 bits in ``x`` and ``y``."""
    lanes = unit.lanes
    pairs, wide, sums = f"vector<{2 * lanes}xi16>", f"vector<{2 * lanes}xi32>", f"vector<{lanes}xi32>"
    add = f"{name} = arith.addi {total}, {name}s : {sums}"
    if unit.multiplies_pairs:
        return [f'{name}s = llvm.call_intrinsic "{_WORDS[lanes]}"({x}, {y}) : ({pairs}, {pairs}) -> {sums}', add]
    even, odd = list(range(0, 2 * lanes, 2)), list(range(1, 2 * lanes, 2))
    return [
        f"{name}x = arith.extsi {x} : {pairs} to {wide}",
        f"{name}y = arith.extsi {y} : {pairs} to {wide}",
        f"{name}p = arith.muli {name}x, {name}y : {wide}",
        f"{name}e = vector.shuffle {name}p, {name}p {even} : {wide}, {wide}",
        f"{name}o = vector.shuffle {name}p, {name}p {odd} : {wide}, {wide}",
        f"{name}s = arith.addi {name}e, {name}o : {sums}",
        add,
    ]


def add_fours(unit: VectorUnit, name: str, total: str, x: str, y: str) -> list[str]:
    """``name`` = for each lane ``total`` and the four products of the unsigned bytes in ``x`` and the signed ones in ``y``.

    ``%ones`` are 1, of 16 bits each."""
    lanes = unit.lanes
    fours, pairs, sums = f"vector<{4 * lanes}xi8>", f"vector<{2 * lanes}xi16>", f"vector<{lanes}xi32>"
    if unit.has_dot_products:
        dot = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return [f'{name} = llvm.call_intrinsic "{dot}"({total}, {x}, {y}) : ({sums}, {fours}, {fours}) -> {sums}']
    return [
        f'{name}n = llvm.call_intrinsic "{_BYTES[lanes]}"({x}, {y}) : ({fours}, {fours}) -> {pairs}',
        *_pairs(unit, name, total, f"{name}n", "%ones"),
    ]
