"""Sums of products of any shape, over register tiles: tables of rows, packed columns, and the loops around the tiles.

The functions take every size and stride at run time (strides in bytes), so one of each kind serves all contractions of a
program. Dims are of four kinds: *batches* move all three operands; *rows* the left operand and the result; *columns* the right
operand and, densely, the result; *segments* (all that is summed up) the left operand, densely in the innermost, and the right.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import coded_columns
from onnx2torch_mlir.engine.compiler.register_tile import TILES_THAT_ASK, tile_name, tile_types
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4
_STAYS = 160 << 10
"""Bytes of packed columns that stay in the second-level cache beside the rows that meet them."""


BLOCK_ROWS = 96
BLOCK_COLUMNS = 64
"""Sums that are computed before their tail is: they have to stay in the first-level cache."""


@dataclass(frozen=True)
class Tail:
    """A function of a block of sums (contraction_tails.py), and the types of what it takes besides the block.

    The block is a pointer to the sums, of which rows are `BLOCK_COLUMNS` apart, its first row and how many there are, its
    first column and how many there are, and the number of all columns.
    """

    name: str
    types: tuple[str, ...]

    @property
    def declaration(self) -> str:
        """The function without its body."""
        return f"func.func private @{self.name}({', '.join(['!llvm.ptr', *['i64'] * 5, *self.types])})"


@dataclass(frozen=True)
class Kind:
    """How many dims of each kind a contraction has, and what follows it.

    ``segments`` are those of the left operand, of which each may stand for several; ``unpacked`` are those of the right
    operand, 0 where it is already packed, with ``codes`` as codes of a few bits.
    """

    batches: int
    rows: int
    segments: int
    unpacked: int
    tail: Tail | None = None
    codes: bool = False

    @property
    def packed(self) -> bool:
        """Whether the right operand is already packed."""
        return self.unpacked == 0

    @property
    def name(self) -> str:
        """The function of this kind."""
        tail = "" if self.tail is None else f"_{self.tail.name}"
        right = "codes" if self.codes else str(self.unpacked)
        return f"o2m_contract_f32_{self.batches}_{self.rows}_{self.segments}_{right}{tail}"

    def arguments(self) -> list[str]:
        """The names of the i64 arguments, after the context, the three pointers and ``add``."""
        found = [f"{letter}{i}" for i in range(self.batches) for letter in ("bn", "ba", "bb", "bc")]
        found += [f"{letter}{i}" for i in range(self.rows) for letter in ("mn", "ma", "mc")]
        found += ["n"] if self.packed else ["n", "nb"]
        found += [f"{letter}{i}" for i in range(self.segments) for letter in ("kn", "ka")]
        found += [f"{letter}{i}" for i in range(self.unpacked) for letter in ("rn", "rb")]
        return found


def functions_for(unit: VectorUnit, kinds: set[Kind]) -> str:
    """The texts of the functions of ``kinds`` and of what they call, but for the tiles and the tails."""
    texts = [_rows(count) for count in sorted({kind.rows for kind in kinds})]
    texts += [make(unit, count) for count in depths(kinds) for make in (_tile_loop, _panel)]
    texts += [_panels(unit, count) for count in sorted({kind.segments for kind in kinds})]
    texts += [_pack(unit, count) for count in sorted({kind.unpacked for kind in kinds if not kind.packed})]
    if any(kind.tail is not None for kind in kinds):
        texts.append(_block_rows())
    if any(kind.codes for kind in kinds):
        texts.append(coded_columns.functions(unit))
    texts += [_contract(unit, kind) for kind in sorted(kinds, key=lambda kind: kind.name)]
    return "\n".join(texts)


def depths(kinds: set[Kind]) -> range:
    """The numbers of nested segments for which there have to be tiles."""
    return range(1, max(kind.segments for kind in kinds) + 1)


def _list(names: list[str]) -> str:
    return ", ".join(f"%{name}: i64" for name in names)


def _rows(count: int) -> str:
    """@o2m_rows_N(table, counts and the two strides of each dim): the two offsets of each row, outer dims first."""
    names = [f"{letter}{i}" for i in range(count) for letter in ("mn", "ma", "mc")]
    lines = [f"func.func private @o2m_rows_{count}(%table: !llvm.ptr{', ' * bool(names)}{_list(names)}) {{"]
    lines += ["%none = arith.constant 0 : i64", "%one = arith.constant 1 : i64"]
    place, a, c = "%table", "%none", "%none"
    for i in range(count):
        lines += [
            f"%r{i} = scf.for %i{i} = %none to %mn{i} step %one iter_args(%t{i} = {place}) -> (!llvm.ptr) : i64 {{",
            f"%fa{i} = arith.muli %i{i}, %ma{i} : i64",
            f"%fc{i} = arith.muli %i{i}, %mc{i} : i64",
            f"%a{i} = arith.addi {a}, %fa{i} : i64",
            f"%c{i} = arith.addi {c}, %fc{i} : i64",
        ]
        place, a, c = f"%t{i}", f"%a{i}", f"%c{i}"
    lines += [
        f"llvm.store {a}, {place} : i64, !llvm.ptr",
        f"%second = llvm.getelementptr {place}[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        f"llvm.store {c}, %second : i64, !llvm.ptr",
    ]
    if count:
        lines += [f"%next = llvm.getelementptr {place}[2] : (!llvm.ptr) -> !llvm.ptr, i64", "scf.yield %next : !llvm.ptr", "}"]
    for i in reversed(range(count - 1)):
        lines += [f"scf.yield %r{i + 1} : !llvm.ptr", "}"]
    return "\n".join([*lines, "return", "}"])


def _sizes(segments: int) -> list[str]:
    """The names of the segments' counts and, but for the innermost, steps in the left operand."""
    return [name for i in range(segments) for name in ([f"n{i}", f"s{i}"] if i < segments - 1 else [f"n{i}"])]


def _tile_loop(unit: VectorUnit, segments: int) -> str:
    """@o2m_tiles_S(a, table, m, b, columns, c, add, segments): all tiles of ``m`` rows and one panel of packed columns."""
    sizes = _sizes(segments)
    lines = [
        f"func.func private @o2m_tiles_{segments}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %columns: i64,"
        f" %c: !llvm.ptr, %add: i1, {_list(sizes)}) {{",
        "%none = arith.constant 0 : i64",
        "%two = arith.constant 2 : i64",
        f"%height = arith.constant {unit.rows} : i64",
        f"%size0 = arith.constant {unit.columns * _BYTES} : i64",
        *(f"%size{i + 1} = arith.muli %size{i}, %n{i} : i64" for i in range(segments)),
        f"%asking = arith.constant {TILES_THAT_ASK} : i64",
        f"%part = arith.divui %size{segments}, %asking : i64",
        f"%following = llvm.getelementptr %b[%size{segments}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        f"%most_asked = arith.constant {TILES_THAT_ASK - 1} : i64",
        "scf.for %i = %none to %m step %height : i64 {",
        "%rest = arith.subi %m, %i : i64",
        "%count = arith.minsi %rest, %height : i64",
        "%entry = arith.muli %i, %two : i64",
        "%rows = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%tile = arith.divui %i, %height : i64",
        "%turn = arith.minui %tile, %most_asked : i64",
        "%asked = arith.muli %turn, %part : i64",
        "%next = llvm.getelementptr %following[%asked] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%which = arith.index_cast %count : i64 to index",
        "scf.index_switch %which",
    ]
    given = ", ".join(["%a", "%rows", "%b", "%c", "%next", "%columns", "%add", *(f"%{name}" for name in sizes)])
    types = ", ".join(tile_types(segments))
    for rows in range(1, unit.rows + 1):
        head = f"case {rows}" if rows < unit.rows else "default"
        lines += [f"{head} {{", f"func.call @{tile_name(segments, rows)}({given}) : ({types}) -> ()", "scf.yield", "}"]
    return "\n".join([*lines, "}", "return", "}"])


def _panel_types(segments: int) -> str:
    return ", ".join(["!llvm.ptr", "!llvm.ptr", "i64", "!llvm.ptr", "i64", "!llvm.ptr", "i1"] + ["i64"] * len(_sizes(segments)))


def _panel(unit: VectorUnit, segments: int) -> str:
    """@o2m_panel_S: what @o2m_tiles_S does, a part of the sums after the other where the packed columns are too many to stay
    in the second-level cache while all rows meet them."""
    sizes = _sizes(segments)
    width = unit.columns * _BYTES
    lines = [
        f"func.func private @o2m_panel_{segments}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %columns: i64,"
        f" %c: !llvm.ptr, %add: i1, {_list(sizes)}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%panel0 = arith.constant {width} : i64",
        f"%most = arith.constant {_STAYS // width} : i64",
    ]
    types, rows = _panel_types(segments), "%a, %table, %m, %b, %columns, %c, %add"
    if segments == 1:
        lines += [
            "%count = arith.maxsi %n0, %one : i64",
            "%parts = arith.ceildivsi %count, %most : i64",
            "%even = arith.ceildivsi %count, %parts : i64",
            f"%four = arith.constant {unit.lanes} : i64",
            "%fours = arith.ceildivsi %even, %four : i64",
            "%step = arith.muli %fours, %four : i64",
            "scf.for %k = %none to %count step %step : i64 {",
            "%rest = arith.subi %n0, %k : i64",
            "%here = arith.minsi %rest, %step : i64",
            "%ak = llvm.getelementptr %a[%k] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
            "%far = arith.muli %k, %panel0 : i64",
            "%bk = llvm.getelementptr %b[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            "%later = arith.cmpi ne, %k, %none : i64",
            "%more = arith.ori %add, %later : i1",
            f"func.call @o2m_tiles_1(%ak, %table, %m, %bk, %columns, %c, %more, %here) : ({types}) -> ()",
            "}",
        ]
        return "\n".join([*lines, "return", "}"])
    total = "%n0"
    inner = "%panel0"
    for i in range(1, segments):
        lines += [f"%total{i} = arith.muli {total}, %n{i} : i64", f"%inner{i} = arith.muli {inner}, %n{i} : i64"]
        total, inner = f"%total{i}", f"%inner{i}"
    deeper = ", ".join(f"%{name}" for name in sizes[2:])
    lines += [
        f"%large = arith.cmpi sgt, {total}, %most : i64",
        "scf.if %large {",
        "scf.for %i = %none to %n0 step %one : i64 {",
        "%fa = arith.muli %i, %s0 : i64",
        f"%fb = arith.muli %i, {inner} : i64",
        "%ai = llvm.getelementptr %a[%fa] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%bi = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%later = arith.cmpi ne, %i, %none : i64",
        "%more = arith.ori %add, %later : i1",
        f"func.call @o2m_panel_{segments - 1}(%ai, %table, %m, %bi, %columns, %c, %more, {deeper})"
        f" : ({_panel_types(segments - 1)}) -> ()",
        "}",
        "} else {",
        f"func.call @o2m_tiles_{segments}({rows}, {', '.join(f'%{name}' for name in sizes)}) : ({types}) -> ()",
        "}",
    ]
    return "\n".join([*lines, "return", "}"])


def _panels(unit: VectorUnit, segments: int) -> str:
    """@o2m_panels_S(a, table, m, b, n, c, add, segments): all tiles of ``m`` rows and ``n`` packed columns."""
    sizes = _sizes(segments)
    lines = [
        f"func.func private @o2m_panels_{segments}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %n: i64,"
        f" %c: !llvm.ptr, %add: i1, {_list(sizes)}) {{",
        "%none = arith.constant 0 : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%panel0 = arith.constant {unit.columns * _BYTES} : i64",
    ]
    panel = "%panel0"
    for i in range(segments):
        lines.append(f"%panel{i + 1} = arith.muli {panel}, %n{i} : i64")
        panel = f"%panel{i + 1}"
    given = ", ".join(["%a", "%table", "%m", "%bj", "%columns", "%cj", "%add", *(f"%{name}" for name in sizes)])
    lines += [
        "%end = scf.for %j = %none to %n step %width iter_args(%bj = %b) -> (!llvm.ptr) : i64 {",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %width : i64",
        "%cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        f"func.call @o2m_panel_{segments}({given}) : ({_panel_types(segments)}) -> ()",
        f"%next = llvm.getelementptr %bj[{panel}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "scf.yield %next : !llvm.ptr",
        "}",
        "return",
        "}",
    ]
    return "\n".join(lines)


def _pack(unit: VectorUnit, segments: int) -> str:
    """@o2m_pack_S(to, b, n, step of columns, counts and strides of segments): columns side by side, 0 beyond the last."""
    sizes = [f"{letter}{i}" for i in range(segments) for letter in ("n", "s")]
    lanes, last = unit.lanes, segments - 1
    vector, mask = f"vector<{lanes}xf32>", f"vector<{lanes}xi1>"
    wide = f"vector<{lanes}xi64>"
    numbers = ", ".join(map(str, range(lanes)))
    lines = [
        f"func.func private @o2m_pack_{segments}(%to: !llvm.ptr, %b: !llvm.ptr, %n: i64, %ns: i64, {_list(sizes)}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%lanes = arith.constant {lanes} : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%bytes = arith.constant {_BYTES} : i64",
        f"%lane = arith.constant dense<[{numbers}]> : {wide}",
        f"%zero = arith.constant dense<0.0> : {vector}",
        "%dense = arith.cmpi eq, %ns, %bytes : i64",
        f"%along = arith.cmpi eq, %s{last}, %bytes : i64",
        "%end = scf.for %j = %none to %n step %width iter_args(%t = %to) -> (!llvm.ptr) : i64 {",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %width : i64",
        "%fj = arith.muli %j, %ns : i64",
        "%bj = llvm.getelementptr %b[%fj] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
    ]
    place, source = "%t", "%bj"
    for i in range(last):
        lines += [
            f"%r{i} = scf.for %i{i} = %none to %n{i} step %one iter_args(%t{i} = {place}) -> (!llvm.ptr) : i64 {{",
            f"%f{i} = arith.muli %i{i}, %s{i} : i64",
            f"%b{i} = llvm.getelementptr {source}[%f{i}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        ]
        place, source = f"%t{i}", f"%b{i}"
    count, step = f"%n{last}", f"%s{last}"
    lines += ["scf.if %dense {", f"scf.for %k = %none to {count} step %one : i64 {{"]
    turn = [
        f"%fk = arith.muli %k, {step} : i64",
        f"%bk = llvm.getelementptr {source}[%fk] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%fw = arith.muli %k, %width : i64",
        f"%tk = llvm.getelementptr {place}[%fw] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    lines += turn
    for half in range(2):
        lines += [
            f"%h{half} = arith.constant {half * lanes} : i64",
            f"%o{half} = arith.subi %columns, %h{half} : i64",
            f"%x{half} = vector.broadcast %o{half} : i64 to {wide}",
            f"%m{half} = arith.cmpi slt, %lane, %x{half} : {wide}",
            f"%p{half} = llvm.getelementptr %bk[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%q{half} = llvm.getelementptr %tk[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%v{half} = llvm.intr.masked.load %p{half}, %m{half}, %zero {{alignment = 4 : i32}}"
            f" : (!llvm.ptr, {mask}, {vector}) -> {vector}",
            f"llvm.store %v{half}, %q{half} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
        ]
    lines += ["}", "} else {", *_transposed(unit, turn, count), "}"]
    lines += [
        f"%passed = arith.muli {count}, %width : i64",
        f"%after = llvm.getelementptr {place}[%passed] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    done = "%after"
    for i in reversed(range(last)):
        lines += [f"scf.yield {done} : !llvm.ptr", "}"]
        done = f"%r{i}"
    lines += [f"scf.yield {done} : !llvm.ptr", "}", "return", "}"]
    return "\n".join(lines)


def _transposed(unit: VectorUnit, turn: list[str], count: str) -> list[str]:
    """Columns that are not dense: squares of ``lanes`` by ``lanes`` numbers are turned in registers, the rest one by one.

    ``turn`` finds the places of step %k.
    """
    lanes = unit.lanes
    vector = f"vector<{lanes}xf32>"
    lines = [
        "%full = arith.cmpi eq, %columns, %width : i64",
        "%turns = arith.andi %full, %along : i1",
        f"%remains = arith.remui {count}, %lanes : i64",
        f"%whole = arith.subi {count}, %remains : i64",
        "%squares = arith.select %turns, %whole, %none : i64",
        "scf.for %k = %none to %squares step %lanes : i64 {",
        *turn,
    ]
    for half in range(2):
        names = []
        for i in range(lanes):
            column = half * lanes + i
            lines += [
                f"%n{column}c = arith.constant {column} : i64",
                f"%n{column}f = arith.muli %n{column}c, %ns : i64",
                f"%n{column}p = llvm.getelementptr %bk[%n{column}f] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                f"%n{column}v = llvm.load %n{column}p {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
            ]
            names.append(f"%n{column}v")
        stage = 1
        while stage < lanes:
            for i in range(lanes):
                if i & stage:
                    continue
                first, second = names[i], names[i | stage]
                low = [t if not t & stage else lanes + t - stage for t in range(lanes)]
                high = [t + stage if not t & stage else lanes + t for t in range(lanes)]
                for target, order, suffix in ((i, low, "l"), (i | stage, high, "h")):
                    names[target] = f"%z{half}_{stage}_{i}{suffix}"
                    lines.append(f"{names[target]} = vector.shuffle {first}, {second} {order} : {vector}, {vector}")
            stage *= 2
        for i in range(lanes):
            lines += [
                f"%w{half}_{i} = llvm.getelementptr %tk[{i * unit.columns + half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
                f"llvm.store {names[i]}, %w{half}_{i} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
            ]
    lines += [
        "}",
        f"scf.for %k = %squares to {count} step %one : i64 {{",
        *turn,
        "%nothing = arith.constant 0.0 : f32",
        "scf.for %i = %columns to %width step %one : i64 {",
        "%ti = llvm.getelementptr %tk[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "llvm.store %nothing, %ti : f32, !llvm.ptr",
        "}",
        "scf.for %i = %none to %columns step %one : i64 {",
        "%fi = arith.muli %i, %ns : i64",
        "%bi = llvm.getelementptr %bk[%fi] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%ti = llvm.getelementptr %tk[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%v = llvm.load %bi : !llvm.ptr -> f32",
        "llvm.store %v, %ti : f32, !llvm.ptr",
        "}",
        "}",
    ]
    return lines


def _contract(unit: VectorUnit, kind: Kind) -> str:
    """The function of a kind: the table of rows, then for each batch packed columns and their tiles."""
    tail = kind.tail
    given_to_tail = "" if tail is None else "".join(f", %t{i}: {type_}" for i, type_ in enumerate(tail.types))
    lines = [
        f"func.func private @{kind.name}(%ctx: !llvm.ptr, %a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %add: i1,"
        f" {_list(kind.arguments())}{given_to_tail}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        "%entry = arith.constant 16 : i64",
    ]
    count = "%one"
    for i in range(kind.rows):
        lines.append(f"%m{i} = arith.muli {count}, %mn{i} : i64")
        count = f"%m{i}"
    rows = [f"m{letter}{i}" for i in range(kind.rows) for letter in ("n", "a", "c")]
    given = ", ".join(["%table", *(f"%{name}" for name in rows)])
    lines += [
        f"%size = arith.muli {count}, %entry : i64",
        "%table = func.call @o2m_alloc(%ctx, %size) : (!llvm.ptr, i64) -> !llvm.ptr",
        f"func.call @o2m_rows_{kind.rows}({given}) : ({', '.join(['!llvm.ptr'] + ['i64'] * len(rows))}) -> ()",
    ]
    if tail is not None:
        lines += [
            f"%block_rows = arith.constant {BLOCK_ROWS} : i64",
            f"%block_bytes = arith.constant {BLOCK_ROWS * BLOCK_COLUMNS * _BYTES} : i64",
            "%sums = func.call @o2m_alloc(%ctx, %block_bytes) : (!llvm.ptr, i64) -> !llvm.ptr",
            f"func.call @o2m_block_rows(%table, {count}) : (!llvm.ptr, i64) -> ()",
        ]
    columns, step_of_batches = "%b", "%one"
    if kind.codes:
        columns, step_of_batches = "%coded", "%coded_batch"
        lines += [
            f"%coded = llvm.getelementptr %b[{coded_columns.HEADER_BYTES}] : (!llvm.ptr) -> !llvm.ptr, i8",
            *coded_columns.header_word("%coded_batch", "%b", coded_columns.BATCH),
            *coded_columns.header_word("%coded_panel", "%b", coded_columns.PANEL),
        ]
    if not kind.packed:
        lines += [
            f"%width = arith.constant {unit.columns} : i64",
            "%panels = arith.ceildivsi %n, %width : i64",
            f"%panel = arith.constant {unit.columns * _BYTES} : i64",
            "%k0 = arith.muli %panels, %panel : i64",
        ]
        for i in range(kind.segments):
            lines.append(f"%k{i + 1} = arith.muli %k{i}, %kn{i} : i64")
        lines.append(f"%packed = func.call @o2m_alloc(%ctx, %k{kind.segments}) : (!llvm.ptr, i64) -> !llvm.ptr")
    a, c, batch = "%a", "%c", "%none"
    for i in range(kind.batches):
        lines.append(f"scf.for %i{i} = %none to %bn{i} step %one : i64 {{")
        moved = []
        lines.append(f"%bstep{i} = arith.muli %bb{i}, {step_of_batches} : i64")
        for letter, base, step in (("a", a, f"%ba{i}"), ("b", columns, f"%bstep{i}"), ("c", c, f"%bc{i}")):
            lines += [
                f"%f{letter}{i} = arith.muli %i{i}, {step} : i64",
                f"%{letter}_{i} = llvm.getelementptr {base}[%f{letter}{i}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            ]
            moved.append(f"%{letter}_{i}")
        lines += [f"%outer{i} = arith.muli {batch}, %bn{i} : i64", f"%batch{i} = arith.addi %outer{i}, %i{i} : i64"]
        a, columns, c = moved
        batch = f"%batch{i}"
    if not kind.packed:
        sizes = [f"r{letter}{i}" for i in range(kind.unpacked) for letter in ("n", "b")]
        given = ", ".join(["%packed", columns, "%n", "%nb", *(f"%{name}" for name in sizes)])
        types = ", ".join(["!llvm.ptr"] * 2 + ["i64"] * (2 + len(sizes)))
        lines.append(f"func.call @o2m_pack_{kind.unpacked}({given}) : ({types}) -> ()")
        columns = "%packed"
    last = kind.segments - 1
    sizes = [name for i in range(kind.segments) for name in ([f"kn{i}", f"ka{i}"] if i < last else [f"kn{i}"])]
    types = ", ".join(["!llvm.ptr", "!llvm.ptr", "i64", "!llvm.ptr", "i64", "!llvm.ptr", "i1", *["i64"] * len(sizes)])
    segments = [f"%{name}" for name in sizes]
    panels = f"func.call @o2m_panels_{kind.segments}"
    if kind.codes:
        panels, types, header = "func.call @o2m_coded_panels", f"!llvm.ptr, {types}", ["%b"]
    else:
        header = list[str]()
    if tail is None:
        given = ", ".join([*header, a, "%table", count, columns, "%n", c, "%add", *segments])
        lines.append(f"{panels}({given}) : ({types}) -> ()")
    else:
        given = ", ".join([*header, a, "%rows", "%mh", "%bj", "%nh", "%sums", "%add", *segments])
        lines += [*_blocks(unit, kind, count, columns, batch), f"{panels}({given}) : ({types}) -> ()", *_call_tail(tail)]
    lines += ["}"] * kind.batches
    if not kind.packed:
        lines.append("func.call @o2m_free(%ctx, %packed) : (!llvm.ptr, !llvm.ptr) -> ()")
    if tail is not None:
        lines.append("func.call @o2m_free(%ctx, %sums) : (!llvm.ptr, !llvm.ptr) -> ()")
    lines += ["func.call @o2m_free(%ctx, %table) : (!llvm.ptr, !llvm.ptr) -> ()", "return", "}"]
    return "\n".join(lines)


def _blocks(unit: VectorUnit, kind: Kind, count: str, columns: str, batch: str) -> list[str]:
    """The loops over blocks of columns and of rows; what is inside them follows, and `_call_tail` closes them."""
    lines = [f"%panel_0 = arith.constant {unit.columns * _BYTES} : i64"]
    for i in range(kind.segments):
        lines.append(f"%panel_{i + 1} = arith.muli %panel_{i}, %kn{i} : i64")
    return [
        *lines,
        f"%panels_in = arith.constant {BLOCK_COLUMNS // unit.columns} : i64",
        f"%block_columns = arith.constant {BLOCK_COLUMNS} : i64",
        f"%far = arith.muli {'%coded_panel' if kind.codes else f'%panel_{kind.segments}'}, %panels_in : i64",
        f"%before = arith.muli {batch}, {count} : i64",
        f"%last = scf.for %j = %none to %n step %block_columns iter_args(%bj = {columns}) -> (!llvm.ptr) : i64 {{",
        "%nleft = arith.subi %n, %j : i64",
        "%nh = arith.minsi %nleft, %block_columns : i64",
        f"scf.for %m = %none to {count} step %block_rows : i64 {{",
        f"%mleft = arith.subi {count}, %m : i64",
        "%mh = arith.minsi %mleft, %block_rows : i64",
        "%skip = arith.muli %m, %entry : i64",
        "%rows = llvm.getelementptr %table[%skip] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%row = arith.addi %before, %m : i64",
    ]


def _call_tail(tail: Tail) -> list[str]:
    given = ", ".join(["%sums", "%row", "%mh", "%j", "%nh", "%n", *(f"%t{i}" for i in range(len(tail.types)))])
    types = ", ".join(["!llvm.ptr", *["i64"] * 5, *tail.types])
    return [
        f"func.call @{tail.name}({given}) : ({types}) -> ()",
        "}",
        "%bnext = llvm.getelementptr %bj[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "scf.yield %bnext : !llvm.ptr",
        "}",
    ]


def _block_rows() -> str:
    """@o2m_block_rows(table, m): rows of the result get their offsets within a block of sums."""
    return f"""func.func private @o2m_block_rows(%table: !llvm.ptr, %m: i64) {{
      %none = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %rows = arith.constant {BLOCK_ROWS} : i64
      %width = arith.constant {BLOCK_COLUMNS * _BYTES} : i64
      %entry = arith.constant 16 : i64
      scf.for %i = %none to %m step %one : i64 {{
        %place = arith.remui %i, %rows : i64
        %offset = arith.muli %place, %width : i64
        %far = arith.muli %i, %entry : i64
        %pair = llvm.getelementptr %table[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %second = llvm.getelementptr %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64
        llvm.store %offset, %second : i64, !llvm.ptr
      }}
      return
    }}"""
