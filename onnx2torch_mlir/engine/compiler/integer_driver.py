"""Sums of products of bytes of any shape: both operands as pairs (integer_packing.py), and the loops around the tiles.

Like contraction_driver.py's, functions take every size and stride at run time, so one of each kind serves all contractions of
a program. Rows are packed some at a time, so that they stay in the cache while all columns pass them; long sums go part after
part, so that a panel's part does.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import byte_tile, integer_packing, integer_tile
from onnx2torch_mlir.engine.compiler.coded_columns import header_word
from onnx2torch_mlir.engine.compiler.integer_products import products
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import INTEGERS_HEADER

_ROWS_BYTES = 1 << 17
_ENTRY = 16


@dataclass(frozen=True)
class Kind:
    """How many dims of each kind a contraction has.

    ``columns`` is 0 where the right operand is already packed. ``zeros``: whether columns have zero points of their own.
    """

    batches: int
    rows: int
    columns: int
    sums: int
    zeros: bool

    @property
    def packed(self) -> bool:
        """Whether the right operand is already packed."""
        return self.columns == 0

    @property
    def name(self) -> str:
        """The function of this kind."""
        return f"o2m_contract_i8_{self.batches}_{self.rows}_{self.columns}_{self.sums}_{int(self.zeros)}"

    def arguments(self) -> list[str]:
        """The names of the i64 arguments, after `HEAD`'s: counts and byte strides (of a, b and the result, c)."""
        found = [f"{letter}{i}" for i in range(self.batches) for letter in ("bn", "ba", "bb", "bc")]
        found += [f"{letter}{i}" for i in range(self.rows) for letter in ("mn", "ma", "mc")]
        found += ["n"] if self.packed else [f"{letter}{i}" for i in range(self.columns) for letter in ("nn", "nb")]
        found += [f"{letter}{i}" for i in range(self.sums) for letter in ("kn", "ka", "kb")]
        return [*found, "run"]


HEAD = (
    "%ctx: !llvm.ptr, %a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %zeros: !llvm.ptr, %add: i1,"
    " %fa: i8, %za: i16, %fb: i8, %zb: i16"
)
"""Context, operands, zero points of columns (i32), whether to add to the result, and of both operands flip and bias."""


def functions_for(unit: VectorUnit, kinds: set[Kind]) -> str:
    """The texts of the functions of ``kinds`` and of all that they call."""
    counts = {count for kind in kinds for count in (kind.rows, kind.columns, kind.sums)}
    texts = [_places(count) for count in sorted(counts)]
    texts += [integer_tile.tile(unit, rows) for rows in range(1, unit.rows + 1)]
    texts += [integer_packing.rows(wide=True), integer_packing.columns(unit), products(unit, fours=False)]
    if unit.multiplies_pairs and any(kind.packed for kind in kinds):
        texts += [byte_tile.tile(unit, rows) for rows in range(1, unit.rows + 1)]
        texts += [integer_packing.rows(wide=False), products(unit, fours=True)]
    texts += [_contract(unit, kind) for kind in sorted(kinds, key=lambda kind: kind.name)]
    return "\n".join(texts)


def _list(names: list[str]) -> str:
    return ", ".join(f"%{name}: i64" for name in names)


def _places(count: int) -> str:
    """@o2m_places_N(table, counts and the two strides of each dim): the two offsets of each place, outer dims first."""
    names = [f"{letter}{i}" for i in range(count) for letter in ("n", "a", "b")]
    lines = [f"func.func private @o2m_places_{count}(%table: !llvm.ptr{', ' * bool(names)}{_list(names)}) {{"]
    lines += ["%none = arith.constant 0 : i64", "%one = arith.constant 1 : i64"]
    place, one, other = "%table", "%none", "%none"
    for i in range(count):
        lines += [
            f"%r{i} = scf.for %i{i} = %none to %n{i} step %one iter_args(%t{i} = {place}) -> (!llvm.ptr) : i64 {{",
            f"%fx{i} = arith.muli %i{i}, %a{i} : i64",
            f"%fy{i} = arith.muli %i{i}, %b{i} : i64",
            f"%x{i} = arith.addi {one}, %fx{i} : i64",
            f"%y{i} = arith.addi {other}, %fy{i} : i64",
        ]
        place, one, other = f"%t{i}", f"%x{i}", f"%y{i}"
    lines += [
        f"llvm.store {one}, {place} : i64, !llvm.ptr",
        f"%second = llvm.getelementptr {place}[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        f"llvm.store {other}, %second : i64, !llvm.ptr",
        f"%next = llvm.getelementptr {place}[2] : (!llvm.ptr) -> !llvm.ptr, i64",
    ]
    after = "%next"
    for i in reversed(range(count)):
        lines += [f"scf.yield {after} : !llvm.ptr", "}"]
        after = f"%r{i}"
    return "\n".join([*lines, "return", "}"])


def _contract(unit: VectorUnit, kind: Kind) -> str:
    """The function of a kind: the tables, then for each batch packed columns, and packed rows some at a time."""
    both = kind.packed and unit.multiplies_pairs
    lines = [
        f"func.func private @{kind.name}({HEAD}, {_list(kind.arguments())}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        "%two = arith.constant 2 : i64",
        f"%entry = arith.constant {_ENTRY} : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%height = arith.constant {unit.rows} : i64",
    ]
    lines += _table("m", kind.rows, "mn", ("ma", "mc"))
    lines += _table("k", kind.sums, "kn", ("ka", "kb"))
    lines += [
        "%odd = arith.andi %ks, %one : i64",
        "%far = arith.addi %ks, %odd : i64",
        "%paired = arith.muli %far, %two : i64",
        *_form(unit, kind),
        "%positive = arith.maxsi %bytes, %two : i64",
        f"%target = arith.constant {_ROWS_BYTES} : i64",
        "%fit = arith.divui %target, %positive : i64",
        "%blocks = arith.divui %fit, %height : i64",
        "%some = arith.maxsi %blocks, %one : i64",
        "%step = arith.muli %some, %height : i64",
        "%most = arith.minsi %step, %ms : i64",
        "%size = arith.muli %most, %bytes : i64",
        "%left = func.call @o2m_alloc(%ctx, %size) : (!llvm.ptr, i64) -> !llvm.ptr",
    ]
    b, freed = "%columns" if kind.packed else "%b", ["left", "ktable", "mtable"]
    columns = "%n"
    if not kind.packed:
        lines += _table("n", kind.columns, "nn", ("nb", "nb")) + _biases(kind)
        lines += [
            "%panels = arith.ceildivsi %ns, %width : i64",
            "%all = arith.muli %panels, %width : i64",
            "%every = arith.muli %all, %bytes : i64",
            "%packed = func.call @o2m_alloc(%ctx, %every) : (!llvm.ptr, i64) -> !llvm.ptr",
        ]
        freed = ["packed", "biases", "ntable", *freed]
        columns = "%ns"
    a, c = "%a", "%c"
    for i in range(kind.batches):
        lines.append(f"scf.for %i{i} = %none to %bn{i} step %one : i64 {{")
        lines.append(f"%bstep{i} = arith.muli %bb{i}, %matrix : i64")
        moved = []
        for letter, base, step in (("a", a, f"%ba{i}"), ("b", b, f"%bstep{i}"), ("c", c, f"%bc{i}")):
            lines += [
                f"%g{letter}{i} = arith.muli %i{i}, {step} : i64",
                f"%{letter}_{i} = llvm.getelementptr {base}[%g{letter}{i}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            ]
            moved.append(f"%{letter}_{i}")
        a, b, c = moved
    if not kind.packed:
        lines += [
            "%kright = llvm.getelementptr %ktable[1] : (!llvm.ptr) -> !llvm.ptr, i64",
            f"func.call @o2m_pairs_of_columns(%packed, {b}, %ntable, %ns, %kright, %ks, %fb, %biases)"
            " : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i8, !llvm.ptr) -> ()",
        ]
        b = "%packed"
    lines += [
        "scf.for %i = %none to %ms step %step : i64 {",
        "%rest = arith.subi %ms, %i : i64",
        "%m = arith.minsi %rest, %step : i64",
        "%ti = arith.muli %i, %two : i64",
        "%table = llvm.getelementptr %mtable[%ti] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        *(["scf.if %are_fours {", *_some_rows("fours", a, b, columns, c), "} else {"] if both else []),
        *_some_rows("pairs", a, b, columns, c),
        *["}"] * both,
        "}",
        *["}"] * kind.batches,
        *(f"func.call @o2m_free(%ctx, %{name}) : (!llvm.ptr, !llvm.ptr) -> ()" for name in freed),
    ]
    return "\n".join([*lines, "return", "}"])


def _form(unit: VectorUnit, kind: Kind) -> list[str]:
    """``%bytes`` of a packed row; of packed columns ``%are_fours``, ``%matrix`` (bytes of a batch) and where they begin."""
    if not kind.packed:
        return ["%matrix = arith.constant 1 : i64", "%bytes = arith.addi %paired, %none : i64"]
    return [
        *header_word("%form", "%b", 0),
        *header_word("%matrix", "%b", 1),
        f"%columns = llvm.getelementptr %b[{INTEGERS_HEADER}] : (!llvm.ptr) -> !llvm.ptr, i8",
        "%are_fours = arith.cmpi ne, %form, %none : i64",
        "%four = arith.constant 4 : i64",
        "%steps = arith.ceildivsi %ks, %four : i64",
        "%rounded = arith.muli %steps, %four : i64",
        "%bytes = arith.select %are_fours, %rounded, %paired : i64",
    ]


def _some_rows(form: str, a: str, b: str, columns: str, c: str) -> list[str]:
    """The rows of one turn, packed, and their products."""
    types = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64, i8, i16"
    return [
        f"func.call @o2m_{form}_of_rows(%left, {a}, %table, %m, %ktable, %ks, %run, %fa, %za) : ({types}) -> ()",
        f"func.call @o2m_products_{form}(%left, %table, %m, {b}, {columns}, {c}, %bytes, %add, %za)"
        " : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr, i64, i1, i16) -> ()",
    ]


def _table(letter: str, dims: int, count: str, strides: tuple[str, str]) -> list[str]:
    """``%<letter>s``: the number of places of some dims, and ``%<letter>table``: their offsets."""
    lines = [f"%{letter}s_0 = arith.constant 1 : i64"]
    for i in range(dims):
        lines.append(f"%{letter}s_{i + 1} = arith.muli %{letter}s_{i}, %{count}{i} : i64")
    given = ", ".join([f"%{letter}table", *(f"%{name}{i}" for i in range(dims) for name in (count, *strides))])
    return [
        *lines,
        f"%{letter}s = arith.addi %{letter}s_{dims}, %none : i64",
        f"%{letter}size = arith.muli %{letter}s, %entry : i64",
        f"%{letter}table = func.call @o2m_alloc(%ctx, %{letter}size) : (!llvm.ptr, i64) -> !llvm.ptr",
        f"func.call @o2m_places_{dims}({given}) : ({', '.join(['!llvm.ptr'] + ['i64'] * 3 * dims)}) -> ()",
    ]


def _biases(kind: Kind) -> list[str]:
    """``%biases``: the bias of each column, and of a vector's columns more."""
    bias = ["%bias = arith.addi %zb, %none16 : i16"]
    if kind.zeros:
        bias = [
            "%pz = llvm.getelementptr %zeros[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
            "%z32 = llvm.load %pz : !llvm.ptr -> i32",
            "%z16 = arith.trunci %z32 : i32 to i16",
            "%bias = arith.addi %zb, %z16 : i16",
        ]
    return [
        "%none16 = arith.constant 0 : i16",
        "%more = arith.addi %ns, %width : i64",
        "%sixteen = arith.muli %more, %two : i64",
        "%biases = func.call @o2m_alloc(%ctx, %sixteen) : (!llvm.ptr, i64) -> !llvm.ptr",
        "scf.for %j = %none to %ns step %one : i64 {",
        *bias,
        "%pb = llvm.getelementptr %biases[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i16",
        "llvm.store %bias, %pb : i16, !llvm.ptr",
        "}",
        "scf.for %j = %ns to %more step %one : i64 {",
        "%pb = llvm.getelementptr %biases[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i16",
        "llvm.store %none16, %pb : i16, !llvm.ptr",
        "}",
    ]
