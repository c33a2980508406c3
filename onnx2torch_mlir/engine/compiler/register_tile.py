"""Register tiles: a few rows times two vectors of columns, or one, of a sum of products, as functions of run-time sizes.

A tile holds its sums in registers while it walks along all that is summed up: nested *segments* (the window of a convolution)
of which the innermost is dense in the left operand. The right operand is *packed*: for each step along the sum the numbers of
the tile's columns lie side by side. Rows are found through a table, so any set of rows makes a tile.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import plain_tail_text, tile_asks
from onnx2torch_mlir.engine.compiler.code_text import added_in_halves, bytes_behind, column_masks, masked_load, masked_store
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_UNROLLED = 4


def tile(unit: VectorUnit, size: TileSize) -> str:
    """The text of a tile."""
    return Tile(unit, size).text()


class Tile:
    """The text of a tile; what it multiplies at each step is another thing for few_columns.py."""

    def __init__(self, unit: VectorUnit, size: TileSize) -> None:
        self.unit, self.name, self.packs, self.is_first = unit, size.name, size.packs, size.is_first
        self.is_general = size.is_general
        self.asks_beside = size.apart and unit.leaves_columns
        self.by_step = "%by_step" if size.is_general else "%packed_step"
        self.segments, self.rows, self.halves = size.segments, size.rows, range(size.halves)
        self.vector = f"vector<{unit.lanes}xf32>"
        self.lines: list[str] = []
        self.cells = [(row, half) for row in range(self.rows) for half in self.halves]

    def emit(self, *lines: str) -> None:
        """Add some lines."""
        self.lines.extend(lines)

    def text(self) -> str:
        """All of it."""
        counts = [f"%n{i}: i64" + (f", %s{i}: i64" if i < self.segments - 1 else "") for i in range(self.segments)]
        pointers = [f"%{name}: !llvm.ptr" for name in ("a", "table", "b", "c", "following", "finish")]
        flags = [f"%{name}: i1" for name in ("add", "asks", "meets")]
        numbers = [f"%{name}: i64" for name in ("by_step", "tiles", "tiles_before", "by_rows")]
        source = ["%source: !llvm.ptr", "%apart: i64"] if self.packs else []
        head = [*pointers, "%columns: i64", "%first_term: i64", *flags, *numbers, *counts, *source]
        self.emit(f"func.func private @{self.name}({', '.join(head)}) {{")
        self.emit("%none = arith.constant 0 : i64", "%one = arith.constant 1 : i64")
        self.emit(f"%zero = arith.constant dense<0.0> : {self.vector}", "%number = arith.constant 4 : i64")
        self._masks()
        # In here: what calls take is a tenth of the time of a tile of 32 steps.
        self.emit(
            f"%entries = arith.constant {2 * self.rows} : i64",
            f"%height = arith.constant {self.rows} : i64",
            "%terms_of_tile = arith.muli %by_rows, %height : i64",
            f"%packed_step = arith.constant {self.unit.columns * 4} : i64",
            *tile_asks.to_next_panel(self.unit),
            "scf.for %tile = %none to %tiles step %one : i64 {",
            "%entries_before = arith.muli %tile, %entries : i64",
            "%rows = llvm.getelementptr %table[%entries_before] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
            "%terms_before = arith.muli %tile, %terms_of_tile : i64",
            "%term = arith.addi %first_term, %terms_before : i64",
            "%tile_of_panel = arith.addi %tiles_before, %tile : i64",
            *tile_asks.part_of_next_panel(self.unit, _UNROLLED),
            *(tile_asks.to_columns_beside(self.unit) if self.asks_beside else []),
        )
        for row in range(self.rows):
            self._row("a", row)
        self._asks()
        start = self._initial()
        sums, _ = self._segment(0, "%none", start, "%b")
        self._store(sums)
        self.emit("}", "return", "}")
        return "\n".join(self.lines)

    def _row(self, side: str, row: int, tag: str = "") -> None:
        """``%a0`` …, ``%c0`` … (with ``tag`` before): the pointer to a row of the left operand or the result, by the table."""
        name, place = f"{tag}{side}{row}", 2 * row + "ac".index(side)
        self.emit(
            f"%p{name} = llvm.getelementptr %rows[{place}] : (!llvm.ptr) -> !llvm.ptr, i64",
            f"%o{name} = llvm.load %p{name} : !llvm.ptr -> i64",
            f"%{name} = llvm.getelementptr %{side}[%o{name}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        )

    def _asks(self) -> None:
        """What is asked for before the first step."""
        self.emit("scf.if %asks {")
        for row in range(self.rows):
            self._row("c", row, "w")
            self.emit(*tile_asks.result(f"w{row}", f"%wc{row}", len(self.halves) * self.unit.lanes))
        self.emit("}")
        if self.unit.loses_rows and self.rows > 1:
            self.emit(*tile_asks.next_tile(self.rows))

    def _masks(self) -> None:
        lanes = self.unit.lanes
        self.emit(
            *column_masks(lanes),
            f"%full_width = arith.constant {len(self.halves) * lanes} : i64",
            "%full = arith.cmpi sge, %columns, %full_width : i64",
        )

    def _place(self, row: int, half: int, tag: str) -> str:
        if half == 0:
            self._row("c", row, tag)
            return f"%{tag}c{row}"
        name = f"%{tag}{row}"
        self.emit(f"{name} = llvm.getelementptr %{tag}c{row}[{self.unit.lanes}] : (!llvm.ptr) -> !llvm.ptr, f32")
        return name

    def _initial(self) -> list[str]:
        kinds = ", ".join([self.vector] * len(self.cells))
        self.emit(f"%start:{len(self.cells)} = scf.if %add -> ({kinds}) {{")
        names = []
        for row, half in self.cells:
            place = self._place(row, half, "l")
            names.append(f"%i{row}_{half}")
            self.emit(masked_load(names[-1], place, f"%m{half}", self.unit.lanes))
        self.emit(f"scf.yield {', '.join(names)} : {kinds}", "} else {")
        self.emit(f"scf.yield {', '.join(['%zero'] * len(names))} : {kinds}", "}")
        return [f"%start#{i}" for i in range(len(self.cells))]

    def _segment(self, depth: int, first: str, sums: list[str], b: str) -> tuple[list[str], str]:
        """The loops of segment ``depth`` and those inside, which begin at the ``first`` number of the rows; the sums and the
        place in the packed columns after it.

        The pointers to rows stay as they are: moving them takes as much as a tenth of the time of segments of nine steps.
        """
        if depth == self.segments - 1:
            return self._dense(first, sums, b)
        held = [f"%h{depth}_{i}" for i in range(len(sums))]
        kinds = ", ".join([*[self.vector] * len(sums), "!llvm.ptr"])
        given = ", ".join(f"{h} = {s}" for h, s in zip([*held, f"%b{depth}"], [*sums, b], strict=True))
        loop = f"scf.for %i{depth} = %none to %n{depth} step %one"
        self.emit(
            f"%numbers{depth} = arith.divsi %s{depth}, %number : i64",
            f"%r{depth}:{len(sums) + 1} = {loop} iter_args({given}) -> ({kinds}) : i64 {{",
            f"%far{depth} = arith.muli %i{depth}, %numbers{depth} : i64",
            f"%moved{depth} = arith.addi {first}, %far{depth} : i64",
            # LLVM does not see through this, and so has no pointer of each row that it would move.
            f"%first{depth} = llvm.freeze %moved{depth} : i64",
        )
        inner, after = self._segment(depth + 1, f"%first{depth}", held, f"%b{depth}")
        self.emit(f"scf.yield {', '.join([*inner, after])} : {kinds}", "}")
        return [f"%r{depth}#{i}" for i in range(len(sums))], f"%r{depth}#{len(sums)}"

    def _dense(self, first: str, sums: list[str], b: str) -> tuple[list[str], str]:
        count = f"%n{self.segments - 1}"
        self.emit(
            f"%by = arith.constant {_UNROLLED} : i64",
            f"%rest = arith.remui {count}, %by : i64",
            f"%end = arith.addi {first}, {count} : i64",
            "%whole = arith.subi %end, %rest : i64",
            f"%skipped = arith.muli {first}, {self.by_step} : i64",
            "%back = arith.subi %none, %skipped : i64",
            bytes_behind("%origin", b, "%back"),
        )
        if self.packs:
            self.emit(
                f"%far = llvm.ptrtoint {b} : !llvm.ptr to i64",
                "%start_b = llvm.ptrtoint %b : !llvm.ptr to i64",
                "%gone = arith.subi %far, %start_b : i64",
                "%steps_gone = arith.divui %gone, %packed_step : i64",
                "%gone_there = arith.muli %steps_gone, %apart : i64",
                f"%skipped_there = arith.muli {first}, %apart : i64",
                "%behind_there = arith.subi %gone_there, %skipped_there : i64",
                bytes_behind("%from", "%source", "%behind_there"),
            )
        if self.is_first:
            self.emit(
                f"%steps_later = arith.constant {tile_asks.AHEAD_OF_FIRST} : i64",
                f"%later = arith.muli %steps_later, {'%apart' if self.packs else '%by_step'} : i64",
            )
        start = first
        if not self.packs:
            several = self._lines if self.unit.loses_rows and self.rows > 1 else self._several
            sums, start = several(first, "%whole", sums), "%whole"
        # In more than a step LLVM keeps loads and stores in their order, and too much in registers.
        sums = self._steps("v", start, "%end", "%one", 1, sums)
        self.emit(
            f"%passed = arith.muli {count}, {self.by_step} : i64",
            bytes_behind("%after", b, "%passed"),
        )
        return sums, "%after"

    def _carried(self, tag: str, sums: list[str]) -> tuple[list[str], str, str]:
        """What a loop hands on from turn to turn: the names that the ``sums`` have in it, which is which, and their types."""
        held = [f"%{tag}h{i}" for i in range(len(sums))]
        return held, ", ".join(f"{h} = {s}" for h, s in zip(held, sums, strict=True)), ", ".join([self.vector] * len(sums))

    def _several(self, low: str, high: str, sums: list[str]) -> list[str]:
        """Steps from ``low`` to ``high``, some in each turn."""
        if self.unit.parts_of_sum(self.rows) > 1:
            sums, low = self._side_by_side(low, high, sums)
        return self._steps("u", low, high, "%by", _UNROLLED, sums)

    def _side_by_side(self, low: str, high: str, sums: list[str]) -> tuple[list[str], str]:
        """Most of these steps as equal parts one after the other, of which each turn does some steps of each; the sums, and the
        step that follows (`VectorUnit.parts_of_sum`)."""
        parts = self.unit.parts_of_sum(self.rows)
        self.emit(
            f"%steps_of_parts = arith.subi {high}, {low} : i64",
            f"%by_parts = arith.constant {parts * _UNROLLED} : i64",
            "%turns_of_part = arith.divui %steps_of_parts, %by_parts : i64",
            "%of_part = arith.muli %turns_of_part, %by : i64",
            f"%part_end = arith.addi {low}, %of_part : i64",
            "%in_parts = arith.muli %turns_of_part, %by_parts : i64",
            f"%parts_end = arith.addi {low}, %in_parts : i64",
        )
        found = self._steps("side", low, "%part_end", "%by", _UNROLLED, [*sums, *["%zero"] * (len(sums) * (parts - 1))])
        lines, found = added_in_halves(found, len(sums), f"arith.addf {{}}, {{}} : {self.vector}")
        self.emit(*lines)
        return found, "%parts_end"

    def _lines(self, low: str, high: str, sums: list[str]) -> list[str]:
        """The same; as often as a line of each row is done, the next tile's rows may be asked for: all at once, for what it
        takes to find them comes to little then, where all registers for numbers are taken."""
        held, given, kinds = self._carried("lines", sums)
        self.emit(
            f"%of_line = arith.constant {tile_asks.STEPS_OF_LINE} : i64",
            # Where nothing is asked for, all steps are a single line's.
            f"%at_once = arith.subi {high}, {low} : i64",
            "%some_at_once = arith.maxsi %at_once, %of_line : i64",
            "%line_by = arith.select %meets, %of_line, %some_at_once : i64",
            f"%lines:{len(sums)} = scf.for %line = {low} to {high} step %line_by iter_args({given}) -> ({kinds}) : i64 {{",
            "%line_after = arith.addi %line, %line_by : i64",
            f"%line_end = arith.minsi %line_after, {high} : i64",
            "scf.if %meets {",
            *tile_asks.next_rows("line", self.rows, "%line", level=len(self.halves)),
            "}",
        )
        found = self._several("%line", "%line_end", held)
        self.emit(f"scf.yield {', '.join(found)} : {kinds}", "}")
        return [f"%lines#{i}" for i in range(len(sums))]

    def _steps(self, tag: str, low: str, high: str, step: str, unrolled: int, sums: list[str]) -> list[str]:
        """The loop over steps; where there are several ``sums`` of each cell, over those of as many parts, each ``%of_part``
        behind the one before."""
        held, given, kinds = self._carried(tag, sums)
        self.emit(
            f"%{tag}r:{len(sums)} = scf.for %{tag}k = {low} to {high} step {step} iter_args({given}) -> ({kinds}) : i64 {{",
        )
        count = len(self.cells)
        parts = [tag, *(f"{tag}{number}of" for number in range(1, len(sums) // count))]
        for part, before in zip(parts, ["", *parts], strict=False):
            self.emit(*([f"%{part}k = arith.addi %{before}k, %of_part : i64"] if before else []))
            self._begin(part)
        if unrolled > 1 and self.rows > 1:
            self.emit(*([] if self.is_general else tile_asks.next_panel(self.unit, tag, unrolled)))
        for turn in range(unrolled):
            for number, part in enumerate(parts):
                own = slice(number * count, (number + 1) * count)
                held[own] = self._step(f"{part}{turn}", part, turn, held[own])
        self.emit(f"scf.yield {', '.join(held)} : {kinds}", "}")
        return [f"%{tag}r#{i}" for i in range(len(sums))]

    def _begin(self, tag: str) -> None:
        """Where the columns and the rows of step ``k`` are."""
        self.emit(f"%{tag}far = arith.muli %{tag}k, {self.by_step} : i64", bytes_behind(f"%{tag}0at", "%origin", f"%{tag}far"))
        if self.packs:
            self.emit(f"%{tag}there = arith.muli %{tag}k, %apart : i64", bytes_behind(f"%{tag}0from", "%from", f"%{tag}there"))
        for row in range(self.rows):
            self.emit(f"%{tag}a{row} = llvm.getelementptr %a{row}[%{tag}k] : (!llvm.ptr, i64) -> !llvm.ptr, f32")

    def _step(self, name: str, tag: str, turn: int, sums: list[str]) -> list[str]:
        lanes, vector = self.unit.lanes, self.vector
        width = len(self.halves) * lanes
        if self.is_first:
            self.emit(*tile_asks.far_columns(name, f"%{name}from" if self.packs else f"%{name}at", width))
        elif self.asks_beside:
            self.emit(*tile_asks.columns_beside(name, f"%{name}at", width))
        elif not self.unit.fetches_ahead:
            self.emit(*tile_asks.columns(name, f"%{name}at", self.by_step, width, one_row=self.rows == 1))
        for half in self.halves:
            self.emit(f"%{name}q{half} = llvm.getelementptr %{name}at[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32")
            source = f"%{name}q{half}"
            if self.packs:
                source = f"%{name}o{half}"
                self.emit(f"{source} = llvm.getelementptr %{name}from[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32")
            self.emit(f"%{name}b{half} = llvm.load {source} {{alignment = 4 : i64}} : !llvm.ptr -> {vector}")
        self.emit(bytes_behind(f"%{tag}{turn + 1}at", f"%{name}at", self.by_step))
        if self.packs:
            self.emit(bytes_behind(f"%{tag}{turn + 1}from", f"%{name}from", "%apart"))
        found = []
        for row in range(self.rows):
            self.emit(
                f"%{name}p{row} = llvm.getelementptr %{tag}a{row}[{turn}] : (!llvm.ptr) -> !llvm.ptr, f32",
                f"%{name}x{row} = llvm.load %{name}p{row} : !llvm.ptr -> f32",
                f"%{name}w{row} = vector.broadcast %{name}x{row} : f32 to {vector}",
            )
            for half in self.halves:
                found.append(f"%{name}s{row}_{half}")
                self.emit(f"{found[-1]} = math.fma %{name}w{row}, %{name}b{half}, {sums[len(found) - 1]} : {vector}")
        if self.packs:
            for half in self.halves:
                self.emit(f"llvm.store %{name}b{half}, %{name}q{half} {{alignment = 4 : i64}} : {vector}, !llvm.ptr")
        return found

    def _store(self, sums: list[str]) -> None:
        sums = plain_tail_text.finished(self.emit, self.unit.lanes, self.cells, sums, self._place)
        self.emit("scf.if %full {")
        for (row, half), value in zip(self.cells, sums, strict=True):
            place = self._place(row, half, "f")
            self.emit(f"llvm.store {value}, {place} {{alignment = 4 : i64}} : {self.vector}, !llvm.ptr")
        self.emit("} else {")
        for (row, half), value in zip(self.cells, sums, strict=True):
            place = self._place(row, half, "e")
            self.emit(masked_store(value, place, f"%m{half}", self.unit.lanes))
        self.emit("}")
