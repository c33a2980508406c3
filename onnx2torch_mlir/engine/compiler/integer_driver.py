"""Sums of products of bytes of any shape: both operands as pairs (integer_packing.py), and the loops around the tiles.

Like contraction_driver.py's, functions take every size and stride at run time, so one of each kind serves all contractions of
a program. Rows are packed some at a time, so that they stay in the cache while all columns pass them; long sums go part after
part, so that a panel's part does.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import integer_packing
from onnx2torch_mlir.engine.compiler.integer_tile import TYPES, tile, tile_name
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_PANEL_BYTES = 1 << 15
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
    texts += [tile(unit, rows) for rows in range(1, unit.rows + 1)]
    texts += [integer_packing.rows(), integer_packing.columns(unit), _products(unit)]
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


def _products(unit: VectorUnit) -> str:
    """@o2m_products_i8: all tiles of ``m`` packed rows and ``n`` packed columns, of ``far`` numbers each."""
    cases = []
    for count in range(1, unit.rows + 1):
        head = f"case {count}" if count < unit.rows else "default"
        given = "%ai, %bytes, %rows, %bj, %cj, %columns, %more, %kc"
        cases.append(f"{head} {{ func.call @{tile_name(count)}({given}) : ({TYPES}) -> ()\nscf.yield }}")
    newline = "\n"
    return f"""
  func.func private @o2m_products_i8(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %n: i64, %c: !llvm.ptr,
      %far: i64, %add: i1) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %true = arith.constant true
    %width = arith.constant {unit.columns} : i64
    %height = arith.constant {unit.rows} : i64
    %part = arith.constant {_PANEL_BYTES // (4 * unit.columns)} : i64
    %pairs = arith.shrui %far, %one : i64
    %bytes = arith.muli %far, %two : i64
    %turns = arith.maxsi %pairs, %one : i64
    scf.for %k = %none to %turns step %part : i64 {{
      %kl = arith.subi %pairs, %k : i64
      %kc = arith.minsi %kl, %part : i64
      %later = arith.cmpi ne, %k, %none : i64
      %more = arith.ori %add, %later : i1
      %ak = llvm.getelementptr %a[%k] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      %fk = arith.muli %k, %width : i64
      %bk = llvm.getelementptr %b[%fk] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      scf.for %j = %none to %n step %width : i64 {{
        %left = arith.subi %n, %j : i64
        %columns = arith.minsi %left, %width : i64
        %fj = arith.muli %j, %far : i64
        %bj = llvm.getelementptr %bk[%fj] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i32
        scf.for %i = %none to %m step %height : i64 {{
          %rest = arith.subi %m, %i : i64
          %count = arith.minsi %rest, %height : i64
          %entry = arith.muli %i, %two : i64
          %rows = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64
          %fi = arith.muli %i, %bytes : i64
          %ai = llvm.getelementptr %ak[%fi] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %which = arith.index_cast %count : i64 to index
          scf.index_switch %which
          {newline.join(cases)}
        }}
      }}
    }}
    return
  }}"""


def _contract(unit: VectorUnit, kind: Kind) -> str:
    """The function of a kind: the tables, then for each batch packed columns, and packed rows some at a time."""
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
        "%bytes = arith.muli %far, %two : i64",
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
    b, freed = "%b", ["left", "ktable", "mtable"]
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
        moved = []
        for letter, base in (("a", a), ("b", b), ("c", c)):
            lines += [
                f"%g{letter}{i} = arith.muli %i{i}, %b{letter}{i} : i64",
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
        f"func.call @o2m_pairs_of_rows(%left, {a}, %table, %m, %ktable, %ks, %run, %fa, %za)"
        " : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64, i8, i16) -> ()",
        f"func.call @o2m_products_i8(%left, %table, %m, {b}, {columns}, {c}, %far, %add)"
        " : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr, i64, i1) -> ()",
        "}",
        *["}"] * kind.batches,
        *(f"func.call @o2m_free(%ctx, %{name}) : (!llvm.ptr, !llvm.ptr) -> ()" for name in freed),
    ]
    return "\n".join([*lines, "return", "}"])


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
