"""Sums of products of float64: tiles of rows by two vectors of columns, which are packed by who multiplies them.

A job is a panel of columns and some rows: its columns are copied side by side, those beyond the last as zeros, then tiles go
down the rows. Products of float64 are rare (transforms, models of statistics): what those of float32 have beside this, tails
and weights that are packed once, they do without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from onnx2torch_mlir.engine.compiler import double_tile, row_tables, segment_loops, threads
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, called, constants, declared, moved_by_batch, product, words
from onnx2torch_mlir.engine.compiler.contraction_blocks import call_all, own
from onnx2torch_mlir.engine.compiler.contraction_kinds import FEW_ROWS
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known, match
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 8
_TABLE = 48
"""Rows whose places are known at a time; tiles of all heights divide it."""
_ROWS = 4 * _TABLE
"""Of a job: to pack its columns takes a hundredth of the time of so many."""
_LEAST_PRODUCTS = 256
"""Of each batch: loops do matrices of 4 by 4 in a third of the time that it takes to pack columns and write tables."""
_PRODUCTS = 4
"""Products and sums that take as long as one operation on an element elsewhere (threads.py)."""


@dataclass(frozen=True)
class DoubleKind:
    """How many dims of each kind (contraction_kinds.py) a sum of products has."""

    batches: int
    rows: int
    segments: int

    @property
    def name(self) -> str:
        """The function: @name(context, both operands, result, whether to add to it, words)."""
        return f"o2m_doubles_{self.batches}_{self.rows}_{self.segments}"

    @property
    def words(self) -> list[str]:
        """The names of its i64 arguments, steps in bytes: for each dim of batches and rows its count and its steps in what it
        moves; the columns and their step in the right operand; for each segment its count and its step in both operands."""
        found = [f"{letter}{i}" for i in range(self.batches) for letter in ("bn", "ba", "bb", "bc")]
        found += [f"m{letter}{i}" for i in range(self.rows) for letter in "nac"]
        return [*found, "n", "nb", *(f"k{letter}{i}" for i in range(self.segments) for letter in "nab")]


def match_doubles(generic: ir.Operation) -> Contraction | None:
    """The contraction of float64 that a nest is, if it is large enough for tiles, as far as its sizes are known."""
    found = match(generic, doubles=True)
    if found is None:
        return None
    dims = [*found.rows, *([] if found.column is None else [found.column]), *found.segments]
    lengths = all_known([found.fixed_length(dim) for dim in dims])
    rows = found.known_rows
    is_small = (rows is not None and rows < FEW_ROWS) or (lengths is not None and math.prod(lengths) < _LEAST_PRODUCTS)
    return None if is_small else found


def kind_of(found: Contraction) -> DoubleKind:
    """What a contraction of float64 is here."""
    return DoubleKind(len(found.batches), len(found.rows), len(found.segments))


def call(found: Contraction, context: ir.Value, *, zeroed: bool) -> None:
    """The call at the insertion point; the result is ``zeroed`` there, or added to."""
    sizes = Sizes(found)
    given: list[ir.Value] = []
    for dim in found.batches:
        given += [sizes.count(dim), *(sizes.step(operand, dim) for operand in (found.left, found.right, 2))]
    for dim in found.rows:
        given += [sizes.count(dim), sizes.step(found.left, dim), sizes.step(2, dim)]
    column = found.column
    given += [sizes.number(1), sizes.number(0)] if column is None else [sizes.count(column), sizes.step(found.right, column)]
    for dim in found.segments:
        given += [sizes.count(dim), sizes.step(found.left, dim), sizes.step(found.right, dim)]
    add = arith.ConstantOp(ir.IntegerType.get_signless(1), ir.BoolAttr.get(not zeroed)).result
    pointers = [context, *(address(found.value(operand)) for operand in (found.left, found.right, 2))]
    func.CallOp([], ir.FlatSymbolRefAttr.get(kind_of(found).name), [*pointers, add, *given])


def functions_for(unit: VectorUnit, kinds: Sequence[DoubleKind]) -> list[str]:
    """Their texts; tables of rows (row_tables.py) have to be there."""
    texts = []
    for count in sorted({kind.segments for kind in kinds}):
        texts += [double_tile.tile(unit, count, rows) for rows in double_tile.heights(unit)]
        texts.append(double_tile.pack(unit, count))
    return texts + [_driver(unit, kind) for kind in kinds]


def _driver(unit: VectorUnit, kind: DoubleKind) -> str:
    """The function that programs call, and the one that does some jobs."""
    jobs, width = f"{kind.name}_jobs", 2 * double_tile.lanes_of(unit)
    pointers = [(name, "!llvm.ptr") for name in ("%a", "%b", "%c")]
    given = [*pointers, ("%add", "i1"), *words(kind.words)]
    arguments = [*given, ("%packed", "!llvm.ptr"), *words(["ms", "far", "panels", "parts"])]

    def tile(rows: int) -> str:
        moved = {"%a": "%a_", "%rows": "%row_place", "%b": "%own", "%c": "%target"}
        typed = [(moved.get(name, name), type_) for name, type_ in double_tile.tile_arguments(kind.segments)]
        return called(double_tile.tile_name(kind.segments, rows), typed)

    packing = [("%own", "!llvm.ptr"), ("%bj", "!llvm.ptr"), *double_tile.pack_arguments(kind.segments)[2:]]
    of_jobs = [
        f"func.func private @{jobs}({declared(arguments)}, {threads.RANGE}) {{",
        *constants(none=0, one=1, table=_TABLE, most=_ROWS, width=width, bytes=_BYTES),
        *own("rows", _TABLE * row_tables.ENTRY_BYTES),
        "%room = arith.muli %worker, %far : i64",
        bytes_behind("%own", "%packed", "%room"),
        "scf.for %job = %begin to %end step %one : i64 {",
        "%part = arith.remui %job, %parts : i64",
        "%others = arith.divui %job, %parts : i64",
        "%panel = arith.remui %others, %panels : i64",
        "%batch = arith.divui %others, %panels : i64",
        *moved_by_batch(kind.batches, {"a": ("%a", "ba"), "b": ("%b", "bb"), "c": ("%c", "bc")}),
        "%j = arith.muli %panel, %width : i64",
        "%rest = arith.subi %n, %j : i64",
        "%columns = arith.minsi %rest, %width : i64",
        "%fj = arith.muli %j, %nb : i64",
        bytes_behind("%bj", "%b_", "%fj"),
        called(f"o2m_pack_f64_{kind.segments}", packing),
        "%target = llvm.getelementptr %c_[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f64",
        "%first = arith.muli %part, %most : i64",
        "%after = arith.addi %first, %most : i64",
        "%last = arith.minsi %after, %ms : i64",
        "scf.for %i = %first to %last step %table : i64 {",
        "%more = arith.subi %last, %i : i64",
        "%here = arith.minsi %more, %table : i64",
        row_tables.write("m", kind.rows, ("ma", "mc"), ("%rows", "%i", "%here")),
        *segment_loops.down_rows(double_tile.heights(unit), "%here", tile),
        "}",
        "}",
        "return",
        "}",
    ]
    entry = [
        f"func.func private @{kind.name}(%ctx: !llvm.ptr, {declared(given)}) {{",
        *constants(one=1, most=_ROWS, width=width, bytes=_BYTES, each=_PRODUCTS),
        product("ms", [f"%mn{i}" for i in range(kind.rows)]),
        product("total", [f"%bn{i}" for i in range(kind.batches)]),
        product("length", [f"%kn{i}" for i in range(kind.segments)]),
        product("far", ["%length", "%width", "%bytes"]),
        "%panels = arith.ceildivsi %n, %width : i64",
        "%parts = arith.ceildivsi %ms, %most : i64",
        product("jobs", ["%total", "%panels", "%parts"]),
        "%threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64",
        "%size = arith.muli %far, %threads : i64",
        "%packed = func.call @o2m_alloc(%ctx, %size) : (!llvm.ptr, i64) -> !llvm.ptr",
        "%high = arith.minsi %ms, %most : i64",
        product("products", ["%length", "%width", "%high"]),
        "%work = arith.divui %products, %each : i64",
        call_all(jobs, arguments, {}, "%jobs, %work"),
        "func.call @o2m_free(%ctx, %packed) : (!llvm.ptr, !llvm.ptr) -> ()",
        "return",
        "}",
    ]
    return "\n".join([*of_jobs, threads.spread(jobs, [type_ for _, type_ in arguments]), *entry])
