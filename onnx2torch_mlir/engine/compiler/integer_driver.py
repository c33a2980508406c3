"""Sums of products of bytes of any shape: both operands as pairs (integer_packing.py), and the loops around the tiles.

Like contraction_driver.py's, functions take every size and stride at run time, so one of each kind serves all contractions of
a program. Rows are packed some at a time, so that they stay in the cache while all columns pass them; long sums go part after
part, so that a panel's part does.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import byte_tile, integer_packing, integer_tile
from onnx2torch_mlir.engine.compiler.coded_columns import header_word
from onnx2torch_mlir.engine.compiler.contraction_driver import BLOCK_COLUMNS, Tail
from onnx2torch_mlir.engine.compiler.integer_products import products
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import INTEGERS_HEADER

_ROWS_BYTES = 1 << 18
_ROWS = 192
"""The most rows whose sums a tail meets at once."""
_ENTRY = 16


@dataclass(frozen=True)
class Kind:
    """How many dims of each kind a contraction has.

    ``columns`` is 0 where the right operand is already packed. ``zeros``: whether columns have zero points of their own.
    ``tail`` follows the sums, whose columns are one dim then.
    """

    batches: int
    rows: int
    columns: int
    sums: int
    zeros: bool
    tail: Tail | None = None

    @property
    def packed(self) -> bool:
        """Whether the right operand is already packed."""
        return self.columns == 0

    @property
    def name(self) -> str:
        """The function of this kind."""
        tail = "" if self.tail is None else f"_{self.tail.name}"
        return f"o2m_contract_i8_{self.batches}_{self.rows}_{self.columns}_{self.sums}_{int(self.zeros)}{tail}"

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
    if any(kind.tail is not None for kind in kinds):
        texts.append(_block_rows())
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
    both, tail = kind.packed and unit.multiplies_pairs, kind.tail
    given_to_tail = "" if tail is None else "".join(f", %t{i}: {type_}" for i, type_ in enumerate(tail.types))
    lines = [
        f"func.func private @{kind.name}({HEAD}, {_list(kind.arguments())}{given_to_tail}) {{",
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
        "%fitting = arith.muli %some, %height : i64",
        f"%at_once = arith.constant {_ROWS} : i64",
        f"%limit = {'arith.maxsi %fitting, %one' if tail is None else 'arith.minsi %fitting, %at_once'} : i64",
        # Rows are shared out evenly: each turn reads all packed columns again.
        "%at_least = arith.maxsi %ms, %one : i64",
        "%row_turns = arith.ceildivsi %at_least, %limit : i64",
        "%even = arith.ceildivsi %at_least, %row_turns : i64",
        "%tiles = arith.ceildivsi %even, %height : i64",
        "%step = arith.muli %tiles, %height : i64",
        "%most = arith.minsi %step, %ms : i64",
        "%size = arith.muli %most, %bytes : i64",
        "%left = func.call @o2m_alloc(%ctx, %size) : (!llvm.ptr, i64) -> !llvm.ptr",
    ]
    b, freed = "%columns" if kind.packed else "%b", ["left", "ktable", "mtable"]
    if tail is not None:
        freed.append("block")
        lines += [
            f"%block_bytes = arith.constant {4 * _ROWS * BLOCK_COLUMNS} : i64",
            "%block = func.call @o2m_alloc(%ctx, %block_bytes) : (!llvm.ptr, i64) -> !llvm.ptr",
            "func.call @o2m_integer_block_rows(%mtable, %ms, %step) : (!llvm.ptr, i64, i64) -> ()",
        ]
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
    a, c, batch = "%a", "%c", "%none"
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
        lines += [f"%outer{i} = arith.muli {batch}, %bn{i} : i64", f"%batch{i} = arith.addi %outer{i}, %i{i} : i64"]
        batch = f"%batch{i}"
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
        *_either(both, "func.call @o2m_{}_of_rows", f"%left, {a}, %table, %m, %ktable, %ks, %run, %fa, %za", _ROWS_TYPES),
    ]
    if tail is None:
        given = f"%left, %table, %m, {b}, {columns}, {c}, %bytes, %add, %za"
        lines += _either(both, "func.call @o2m_products_{}", given, _PRODUCTS_TYPES)
    else:
        lines += _blocks(unit, both, b, columns, batch)
        given = ", ".join(["%block, %row, %m, %j, %nh", columns, *(f"%t{i}" for i in range(len(tail.types)))])
        lines += [f"func.call @{tail.name}({given}) : ({', '.join(['!llvm.ptr', *['i64'] * 5, *tail.types])}) -> ()", "}"]
    lines += [
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


_ROWS_TYPES = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64, i8, i16"
_PRODUCTS_TYPES = "!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr, i64, i1, i16"


def _either(both: bool, function: str, given: str, types: str) -> list[str]:
    """The call of a function for fours or for pairs."""
    calls = [f"{function.format(form)}({given}) : ({types}) -> ()" for form in ("fours", "pairs")]
    return ["scf.if %are_fours {", calls[0], "} else {", calls[1], "}"] if both else calls[1:]


def _blocks(unit: VectorUnit, both: bool, b: str, columns: str, batch: str) -> list[str]:
    """The loop over blocks of columns of some rows, whose sums go to %block; it stays open for the tail."""
    head = f"%head = arith.constant {4 * unit.columns} : i64"
    return [
        f"%block_columns = arith.constant {BLOCK_COLUMNS} : i64",
        "%panel_pairs = arith.muli %bytes, %width : i64",
        *([head, "%panel_fours = arith.addi %panel_pairs, %head : i64"] if both else []),
        f"%panel_bytes = arith.{'select %are_fours, %panel_fours, %panel_pairs' if both else 'addi %panel_pairs, %none'} : i64",
        f"%before = arith.muli {batch}, %ms : i64",
        "%row = arith.addi %before, %i : i64",
        f"scf.for %j = %none to {columns} step %block_columns : i64 {{",
        f"%nleft = arith.subi {columns}, %j : i64",
        "%nh = arith.minsi %nleft, %block_columns : i64",
        "%panel = arith.divui %j, %width : i64",
        "%jfar = arith.muli %panel, %panel_bytes : i64",
        f"%bj = llvm.getelementptr {b}[%jfar] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        *_either(both, "func.call @o2m_products_{}", "%left, %table, %m, %bj, %nh, %block, %bytes, %add, %za", _PRODUCTS_TYPES),
    ]


def _block_rows() -> str:
    """@o2m_integer_block_rows(table, m, rows): rows of the result get their offsets within a block of so many rows."""
    return f"""func.func private @o2m_integer_block_rows(%table: !llvm.ptr, %m: i64, %rows: i64) {{
      %none = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %two = arith.constant 2 : i64
      %width = arith.constant {4 * BLOCK_COLUMNS} : i64
      scf.for %i = %none to %m step %one : i64 {{
        %place = arith.remui %i, %rows : i64
        %offset = arith.muli %place, %width : i64
        %entry = arith.muli %i, %two : i64
        %pair = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64
        %second = llvm.getelementptr %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64
        llvm.store %offset, %second : i64, !llvm.ptr
      }}
      return
    }}"""


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
