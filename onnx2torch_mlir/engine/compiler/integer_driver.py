"""Sums of products of bytes of any shape: both operands as pairs (integer_packing.py), and the loops around the tiles.

Like contraction_driver.py's, functions take every size and stride at run time, so one of each kind serves all contractions of
a program. Rows are packed some at a time, so that they stay in the cache while all columns pass them; long sums go part after
part, so that a panel's part does.
"""

from __future__ import annotations

from collections.abc import Set

from onnx2torch_mlir.engine.compiler import (
    integer_matrices,
    integer_packing,
    integer_tile,
    row_tables,
    tail_text,
    threads,
    winograd_code,
    winograd_forms,
)
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, declared, header_word, product, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS
from onnx2torch_mlir.engine.compiler.integer_forms import FORMS, FOURS, PAIRS, IntegerForm
from onnx2torch_mlir.engine.compiler.integer_products import products
from onnx2torch_mlir.engine.compiler.integer_turns import BLOCK_BYTES, MOST_ROWS, Kind, of_turns, turns
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import INTEGERS_HEADER

_ROWS_BYTES = 1 << 18
_FEWEST_TILES = 4
"""Rows are not shared among threads in smaller parts, of so many tiles."""
_COLUMNS_BY_ROWS = 4
"""With so many times as many columns as rows it is columns that threads share: each then reads its part of the weights only."""
_PRODUCTS = 16
"""Products and sums that take as long as one operation on an element elsewhere (threads.py)."""


HEAD = (
    "%ctx: !llvm.ptr, %a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %zeros: !llvm.ptr, %add: i1,"
    " %fa: i8, %za: i16, %fb: i8, %zb: i16"
)
"""Context, operands, zero points of columns (i32), whether to add to the result, and of both operands flip and bias."""


def functions_for(
    unit: VectorUnit, kinds: set[Kind], forms: Set[IntegerForm], *, has_halves: bool, with_winograd: bool = False
) -> str:
    """The texts of the functions of ``kinds``, of Winograd's algorithm where some convolution goes by it, and of all that they
    call; whether there are tiles for half a panel. Packed weights are of one of ``forms``."""
    counts = {count for kind in kinds for count in (kind.rows, kind.columns, kind.sums)} | ({1} if with_winograd else set())
    texts = [row_tables.rows(count) for count in sorted(counts)]
    sizes = [(rows, halves) for halves in range(1 if has_halves else 2, 3) for rows in range(1, unit.rows + 1)]

    are_unpacked = any(not kind.packed for kind in kinds)
    every = forms | ({PAIRS} if are_unpacked or with_winograd else set())
    for form in FORMS:
        if form in every:
            texts += [integer_tile.tile(unit, rows, form, halves) for rows, halves in sizes]
            texts.append(products(unit, form, has_halves=has_halves))
    texts += [integer_packing.rows(unit, wide=rows == "pairs") for rows in sorted({form.rows for form in every})]
    texts += [integer_packing.columns(unit)] if are_unpacked else []
    texts += [integer_matrices.functions(unit)] if unit.has_matrices and FOURS in every else []
    texts += [winograd_code.functions(unit, winograd_forms.INTEGERS)] if with_winograd else []
    texts += [_contract(unit, kind, forms) for kind in sorted(kinds, key=lambda kind: kind.name)]
    return "\n".join(texts)


def _contract(unit: VectorUnit, kind: Kind, forms: Set[IntegerForm]) -> str:
    """The functions of a kind: turns over rows and groups of columns of one batch, and what shares these among threads."""
    part = f"{kind.name}_turns"
    shared = threads.spread(part, [type_ for _, type_ in of_turns(kind)])
    return "\n".join([turns(unit, kind, part, forms), shared, _entry(unit, kind, part)])


def _entry(unit: VectorUnit, kind: Kind, part: str) -> str:
    """What programs call: the tables, then for each batch packed columns, and the turns."""
    arguments = f"{HEAD}, {declared([*words(kind.arguments()), *tail_text.ARGUMENTS])}"
    lines = [
        f"func.func private @{kind.name}({arguments}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        "%two = arith.constant 2 : i64",
        f"%entry = arith.constant {row_tables.ENTRY_BYTES} : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%height = arith.constant {unit.rows} : i64",
        "%threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64",
    ]
    lines += row_tables.whole("k", kind.sums, ("ka", "kb"))
    lines += [
        product("ms", [f"%mn{i}" for i in range(kind.rows)]),
        "%odd = arith.andi %ks, %one : i64",
        "%far = arith.addi %ks, %odd : i64",
        "%paired = arith.muli %far, %two : i64",
        *_form(kind),
    ]
    b, freed = "%columns" if kind.packed else "%b", ["left", "ktable", "block"]
    columns = "%n"
    if not kind.packed:
        lines += row_tables.whole("n", kind.columns, ("nb", "nb")) + _biases(kind)
        lines += [
            "%panels = arith.ceildivsi %ns, %width : i64",
            "%all = arith.muli %panels, %width : i64",
            "%every = arith.muli %all, %bytes : i64",
            "%packed = func.call @o2m_alloc(%ctx, %every) : (!llvm.ptr, i64) -> !llvm.ptr",
        ]
        freed = ["packed", "biases", "ntable", *freed]
        columns = "%ns"
    lines += [
        *_shares(columns),
        f"%block_bytes = arith.constant {BLOCK_BYTES} : i64",
        "%blocks_bytes = arith.muli %block_bytes, %threads : i64",
        "%block = func.call @o2m_alloc(%ctx, %blocks_bytes) : (!llvm.ptr, i64) -> !llvm.ptr",
    ]
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
    here = {"%a": a, "%b": b, "%c": c, "%ns": columns, "%batch": batch}
    lines += [
        threads.on_all(part, "%turns, %work", [(here.get(name, name), type_) for name, type_ in of_turns(kind)]),
        *["}"] * kind.batches,
        *(f"func.call @o2m_free(%ctx, %{name}) : (!llvm.ptr, !llvm.ptr) -> ()" for name in freed),
    ]
    return "\n".join([*lines, "return", "}"])


def _shares(columns: str) -> list[str]:
    """``%step`` rows and ``%span`` columns of a turn, ``%groups`` of columns, ``%turns`` and the ``%work`` of one; ``%left``.

    Rows are shared out evenly, as many to each thread, for each turn reads its packed columns again. Columns are shared where
    rows are too few for all threads, or far fewer than columns, for rows are packed again for each group.
    """
    return [
        "%positive = arith.maxsi %bytes, %two : i64",
        f"%target = arith.constant {_ROWS_BYTES} : i64",
        "%fit = arith.divui %target, %positive : i64",
        "%tiles_fit = arith.divui %fit, %height : i64",
        "%some = arith.maxsi %tiles_fit, %one : i64",
        "%fitting = arith.muli %some, %height : i64",
        *tail_text.follows(),
        f"%rows_of_sums = arith.constant {MOST_ROWS} : i64",
        "%at_once = arith.select %has_tail, %rows_of_sums, %fitting : i64",
        "%limit = arith.minsi %fitting, %at_once : i64",
        "%at_least = arith.maxsi %ms, %one : i64",
        f"%many_more = arith.constant {_COLUMNS_BY_ROWS} : i64",
        "%most_columns = arith.muli %at_least, %many_more : i64",
        f"%by_columns = arith.cmpi sge, {columns}, %most_columns : i64",
        f"%few = arith.constant {_FEWEST_TILES} : i64",
        "%fewest = arith.muli %height, %few : i64",
        "%fair = arith.ceildivsi %at_least, %threads : i64",
        "%shared = arith.maxsi %fair, %fewest : i64",
        "%limit_shared = arith.minsi %limit, %shared : i64",
        "%most_rows = arith.select %by_columns, %limit, %limit_shared : i64",
        "%least_turns = arith.ceildivsi %at_least, %most_rows : i64",
        "%are_enough = arith.cmpi sge, %least_turns, %threads : i64",
        "%rounds = arith.ceildivsi %least_turns, %threads : i64",
        "%full_rounds = arith.muli %rounds, %threads : i64",
        "%row_turns = arith.select %are_enough, %full_rounds, %least_turns : i64",
        "%step = arith.ceildivsi %at_least, %row_turns : i64",
        "%most = arith.minsi %step, %ms : i64",
        f"%block_columns = arith.constant {BLOCK_COLUMNS} : i64",
        f"%column_blocks = arith.ceildivsi {columns}, %block_columns : i64",
        "%over_rows = arith.ceildivsi %ms, %step : i64",
        "%wanted = arith.select %are_enough, %one, %threads : i64",
        "%blocks_each = arith.ceildivsi %column_blocks, %wanted : i64",
        "%some_blocks = arith.maxsi %blocks_each, %one : i64",
        "%span = arith.muli %some_blocks, %block_columns : i64",
        f"%found = arith.ceildivsi {columns}, %span : i64",
        "%groups = arith.maxsi %found, %one : i64",
        "%turns = arith.muli %over_rows, %groups : i64",
        f"%fraction = arith.constant {_PRODUCTS} : i64",
        "%each = arith.muli %most, %span : i64",
        "%products = arith.muli %each, %ks : i64",
        "%work = arith.divui %products, %fraction : i64",
        "%row_bytes = arith.addi %bytes, %entry : i64",
        "%needed = arith.muli %most, %row_bytes : i64",
        f"%lines = arith.constant {-LINE_BYTES} : i64",
        f"%over = arith.constant {LINE_BYTES - 1} : i64",
        "%beyond = arith.addi %needed, %over : i64",
        "%size = arith.andi %beyond, %lines : i64",
        "%sizes = arith.muli %size, %threads : i64",
        "%left = func.call @o2m_alloc(%ctx, %sizes) : (!llvm.ptr, i64) -> !llvm.ptr",
    ]


def _form(kind: Kind) -> list[str]:
    """``%bytes`` of a packed row; of packed columns ``%form``, ``%matrix`` (bytes of a batch) and where they begin."""
    if not kind.packed:
        pairs = f"%form = arith.constant {PAIRS.number} : i64"
        return ["%matrix = arith.constant 1 : i64", "%bytes = arith.addi %paired, %none : i64", pairs]
    return [
        *header_word("%form", "%b", 0),
        *header_word("%matrix", "%b", 1),
        f"%columns = llvm.getelementptr %b[{INTEGERS_HEADER}] : (!llvm.ptr) -> !llvm.ptr, i8",
        f"%fours = arith.constant {FOURS.number} : i64",
        "%are_fours = arith.cmpi eq, %form, %fours : i64",
        "%four = arith.constant 4 : i64",
        "%steps = arith.ceildivsi %ks, %four : i64",
        "%rounded = arith.muli %steps, %four : i64",
        "%bytes = arith.select %are_fours, %rounded, %paired : i64",
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
