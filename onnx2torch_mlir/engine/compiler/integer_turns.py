"""Turns over rows and groups of columns of a product of bytes: rows are packed, meet packed columns, and sums their tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import integer_products, row_tables, tail_text, threads
from onnx2torch_mlir.engine.compiler.code_text import declared, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS
from onnx2torch_mlir.engine.compiler.integer_forms import FOURS, PAIRS, IntegerForm
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

MOST_ROWS = 192
"""The most rows whose sums a tail meets at once."""
BLOCK_BYTES = 4 * MOST_ROWS * BLOCK_COLUMNS


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


def of_turns(kind: Kind) -> list[tuple[str, str]]:
    """What the turns of one batch are computed from: names and types."""
    pointers = [(f"%{name}", "!llvm.ptr") for name in ("a", "b", "c", "ktable", "left", "block")]
    flags = [("%add", "i1"), ("%fa", "i8"), ("%za", "i16")]
    rows = [f"m{letter}{i}" for i in range(kind.rows) for letter in ("n", "a", "c")]
    sizes = words(["ms", "ks", "ns", *rows, "run", "form", "bytes", "size", "step", "span", "groups", "batch"])
    return [*pointers, *flags, *sizes, *tail_text.ARGUMENTS]


def turns(unit: VectorUnit, kind: Kind, part: str, forms: Set[IntegerForm]) -> str:
    """Turns ``begin`` to ``end``: rows are packed, and meet a group of columns; the groups of the same rows are neighbours.

    Of which of the ``forms`` packed columns are, only they say.
    """
    known = sorted(forms, key=lambda form: form.number) if kind.packed else [PAIRS]
    rows = "%own, %a, %table, %m, %ktable, %ks, %run, %fa, %za"
    packing = {form: [f"func.call @o2m_{form.rows}_of_rows({rows}) : ({_ROWS_TYPES}) -> ()"] for form in known}
    products = {form: [_products(unit, form, "%own, %table, %m, %bj, %nh, %target, %bytes, %add, %za")] for form in known}
    lines = [
        f"func.func private @{part}({declared(of_turns(kind))}, {threads.RANGE}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%block_bytes = arith.constant {BLOCK_BYTES} : i64",
        "%most = arith.minsi %step, %ms : i64",
        f"%entry = arith.constant {row_tables.ENTRY_BYTES} : i64",
        "%table_bytes = arith.muli %most, %entry : i64",
        "%left_far = arith.muli %worker, %size : i64",
        "%table = llvm.getelementptr %left[%left_far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%own = llvm.getelementptr %table[%table_bytes] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%block_far = arith.muli %worker, %block_bytes : i64",
        "%sums = llvm.getelementptr %block[%block_far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%panel_words = arith.muli %bytes, %width : i64",
        *_panel_bytes(unit, known),
        "%before = arith.muli %batch, %ms : i64",
        *tail_text.follows(),
        *tail_text.steps(kind.rows),
        f"%block_columns = arith.constant {BLOCK_COLUMNS} : i64",
        "%at_once = arith.select %has_tail, %block_columns, %span : i64",
        "scf.for %t = %begin to %end step %one : i64 {",
        "%turn = arith.divui %t, %groups : i64",
        "%group = arith.remui %t, %groups : i64",
        "%i = arith.muli %turn, %step : i64",
        "%rest = arith.subi %ms, %i : i64",
        "%m = arith.minsi %rest, %step : i64",
        row_tables.write("m", kind.rows, ("ma", "mt"), ("%table", "%i", "%m")),
        *_by_form(packing),
        "%first = arith.muli %group, %span : i64",
        "%after = arith.addi %first, %span : i64",
        "%last = arith.minsi %after, %ns : i64",
        "%row = arith.addi %before, %i : i64",
        "scf.for %j = %first to %last step %at_once : i64 {",
        "%nleft = arith.subi %last, %j : i64",
        "%nh = arith.minsi %nleft, %at_once : i64",
        "%panel = arith.divui %j, %width : i64",
        "%jfar = arith.muli %panel, %panel_bytes : i64",
        "%bj = llvm.getelementptr %b[%jfar] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        *tail_text.target(),
        *_by_form(products),
        "scf.if %has_tail {",
        tail_text.call("%sums", ["row", "m", "j", "nh", "ns"]),
        "}",
        "}",
        "}",
        "return",
        "}",
    ]
    return "\n".join(lines)


_ROWS_TYPES = "!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, i64, i8, i16"


def _products(unit: VectorUnit, form: IntegerForm, given: str) -> str:
    """The call that multiplies rows by packed columns of a form."""
    if form is FOURS and unit.has_matrices:
        return integer_products.call("matrices", given)
    return integer_products.call(form.name, given, "%none")


def _panel_bytes(unit: VectorUnit, known: Sequence[IntegerForm]) -> list[str]:
    """``%panel_bytes``, from ``%panel_words``: those that it had if each pair or four of a column were 4."""
    lines, found = list[str](), "%none"
    for form in known:
        name = f"%panel_of_{form.name}"
        lines += [
            f"%head_{form.name} = arith.constant {form.head_bytes(unit)} : i64",
            f"%less_{form.name} = arith.constant {4 // form.bytes} : i64",
            f"{name}_columns = arith.divui %panel_words, %less_{form.name} : i64",
            f"{name} = arith.addi {name}_columns, %head_{form.name} : i64",
            f"%number_{form.name} = arith.constant {form.number} : i64",
            f"%is_{form.name} = arith.cmpi eq, %form, %number_{form.name} : i64",
            f"{name}_or_before = arith.select %is_{form.name}, {name}, {found} : i64",
        ]
        found = f"{name}_or_before"
    return [*lines, f"%panel_bytes = arith.addi {found}, %none : i64"]


def _by_form(lines: Mapping[IntegerForm, list[str]]) -> list[str]:
    """What is done for each form (`_panel_bytes` has to be before)."""
    *others, (_, last) = lines.items()
    found = last
    for form, done in others:
        found = [f"scf.if %is_{form.name} {{", *done, "} else {", *found, "}"]
    return found
