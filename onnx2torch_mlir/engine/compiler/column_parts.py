"""Nests that read parts of a product's columns side by side, as the gates of a recurrent cell do, right after these.

The columns are so many parts of one width, and the nests compute an element of that width of the sums of each part at its
place: a cell's new states, or one half of a gated unit times what becomes of the other. The driver then takes a block of each
part together, leaves the sums in the result, and has the nests done for the block's columns by the same thread: what nests
would do alone, between two products, threads would wait for. Unlike a tail (contraction_tails.py) they may be several.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler import contraction_tails, following, kernels, tail_calls, tail_text
from onnx2torch_mlir.engine.compiler.argument_words import pointer_to, stored
from onnx2torch_mlir.engine.compiler.code_text import declared, word_at, words
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction
from onnx2torch_mlir.engine.compiler.contraction_tails import Follower
from onnx2torch_mlir.engine.compiler.flatten import value_of
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.walks import is_memref, made_by, pointer, root_of, users

CHAIN = "o2m_followers"

_MOST_ROWS = 16
"""Known ones: a product with more takes much longer than what follows it."""
_ACROSS = 1
"""How many of the nests' loops are columns."""

_OF_BLOCK = ("row", "rows", "column", "columns", "across")


@dataclass(frozen=True)
class Parts:
    """So many parts of a contraction's columns, and the nests that follow, in their order."""

    count: int
    followers: list[Follower]

    @property
    def nests(self) -> list[ir.Operation]:
        """Those that the followers are."""
        return [follower.nest for follower in self.followers]


def find(found: Contraction, panel: int) -> Parts | None:
    """What follows the contraction part by part; parts are whole panels of so many columns."""
    columns = None if found.column is None else found.fixed_length(found.column)
    root = root_of(found.value(2))
    if found.column is None or columns is None or made_by(root, "memref.alloc") is None or not _pays(found):
        return None
    if not contraction_tails.is_in_order(contraction_tails.sums_of(found, found.column)):
        return None
    first = next((user for user in users(found.generic.block, root) if _is_behind(found.generic, user)), None)
    width = None if first is None else _width(first)
    if not width or columns % width or columns == width or width % panel:
        return None
    followers = _Search(found, root, width).followers()
    return Parts(columns // width, followers) if followers else None


def _pays(found: Contraction) -> bool:
    """Whether there are few rows, or as many as turns of a loop have: for many, wider blocks are better."""
    rows = found.known_rows
    return rows <= _MOST_ROWS if rows is not None else _is_in_loop(found.generic)


def _is_in_loop(generic: ir.Operation) -> bool:
    return bool(generic.parent.operation.name == "scf.for")


def _is_behind(generic: ir.Operation, user: ir.Operation) -> bool:
    return user.name == "linalg.generic" and generic.is_before_in_block(user)


def _width(nest: ir.Operation) -> int | None:
    """How many columns a nest has, if that is known."""
    type_ = ir.MemRefType(_result(nest).type)
    return None if not type_.rank or type_.is_dynamic_dim(type_.rank - 1) else int(type_.shape[-1])


def _result(nest: ir.Operation) -> ir.Value:
    result: ir.Value = nest.operands[len(nest.operands) - 1]
    return result


@dataclass
class _Search:
    """The nests, of ``width`` columns, that may follow a contraction with the result ``root``."""

    contraction: Contraction
    root: ir.Value
    width: int
    made: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """What those found so far make, by its root."""
    read: set[int] = field(default_factory=set)
    """Which parts they read."""

    def followers(self) -> list[Follower]:
        """Outside of loops they read several parts: of others most columns go elsewhere."""
        generic = self.contraction.generic
        found: list[Follower] = []
        for view in list(generic.block.operations):
            operation = view.operation
            if operation == generic or not generic.is_before_in_block(operation):
                continue
            if operation.name == "memref.copy" and root_of(operation.operands[0]) in self.made:
                operation = kernels.copy_as_generic(operation)
            if operation.name != "linalg.generic":
                continue
            follower = self._follower(operation, [other.nest for other in found])
            if follower is not None:
                found.append(follower)
        return found if len(self.read) > 1 or _is_in_loop(generic) else []

    def _follower(self, nest: ir.Operation, before: list[ir.Operation]) -> Follower | None:
        parts = self._parts_read(nest)
        if parts is None or _width(nest) != self.width or not self._has_all_rows(nest):
            return None
        kinds = contraction_tails.kinds_of(nest, None, _ACROSS)
        sources = [self.contraction.value(operand) for operand in (self.contraction.left, self.contraction.right)]
        if kinds is None or not following.may_follow(self.contraction.generic, [*before, nest], sources):
            return None
        self.read |= parts
        self.made[root_of(_result(nest))] = _result(nest)
        return Follower(nest, kinds, _ACROSS)

    def _parts_read(self, nest: ir.Operation) -> set[int] | None:
        """Which parts of the sums the nest reads; None if it reads others of them or of what followers make, or nothing."""
        parts, follows = set[int](), False
        for value in filter(lambda value: is_memref(value.type), list(nest.operands)[:-1]):
            root = root_of(value)
            if root == self.root:
                part = self._part(value)
                if part is None:
                    return None
                parts.add(part)
            elif root in self.made:
                if value != self.made[root]:
                    return None
                follows = True
        return parts if parts or follows else None

    def _part(self, value: ir.Value) -> int | None:
        """Which part of the sums, of all rows, an array is."""
        type_ = ir.MemRefType(value.type)
        strides, offset = type_.get_strides_and_offset()
        part, rest = divmod(offset, self.width)
        rows = contraction_tails.spread_of(value) if type_.rank > 1 else []
        columns = ir.MemRefType(self.root.type).shape[-1]
        if offset < 0 or rest or offset >= columns or strides[-1] != 1 or rows is None or len(rows) > 1:
            return None
        return part if all(row.step == columns or row.count == 1 for row in rows) else None

    def _has_all_rows(self, nest: ir.Operation) -> bool:
        """Whether the nest has as many rows as the sums."""
        counts = [_rows(value) for value in (_result(nest), self.root)]
        return counts[0] is not None and counts[0] == counts[1]


def _rows(value: ir.Value) -> list[int | ir.Value] | None:
    """The sizes of an array's axes but for the last, those of 1 left out; None where they are not known."""
    type_ = ir.MemRefType(value.type)
    made = made_by(value, "memref.alloc")
    if made is None and any(type_.is_dynamic_dim(axis) for axis in range(type_.rank)):
        return None
    told = iter(made.operands if made is not None else [])
    sizes = [next(told) if type_.is_dynamic_dim(axis) else int(type_.shape[axis]) for axis in range(type_.rank - 1)]
    return [size for size in sizes if size != 1]


@contextmanager
def handed_on(parts: Parts, tails: Outlined) -> Iterator[list[ir.Value]]:
    """What the driver's call, in the block, hands on: the function that has all followers done, and words that tell them."""
    with ExitStack() as stack:
        told = [stack.enter_context(tail_calls.handed_on(each, tails, [])) for each in parts.followers]
        given = stored([value_of(len(told)), *(value for each in told for value in each)])
        yield [pointer_to(CHAIN, tail_calls.signature()), llvm.ZeroOp(pointer()).result, given]


FUNCTION = f"""
  func.func private @{CHAIN}(%sums: !llvm.ptr, {declared(words(_OF_BLOCK))}, %out: !llvm.ptr, %words: !llvm.ptr) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %each = arith.constant {len(tail_text.ARGUMENTS)} : i64
    %count = llvm.load %words : !llvm.ptr -> i64
    scf.for %i = %none to %count step %one : i64 {{
      %before = arith.muli %i, %each : i64
      %told = llvm.getelementptr %words[%before] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      {word_at("at", "%told", 1)}
      {word_at("at_out", "%told", 2)}
      {word_at("at_words", "%told", 3)}
      %tail = llvm.load %at : !llvm.ptr -> !llvm.ptr
      %tail_out = llvm.load %at_out : !llvm.ptr -> !llvm.ptr
      %tail_words = llvm.load %at_words : !llvm.ptr -> !llvm.ptr
      {tail_text.call("%sums", _OF_BLOCK)}
    }}
    return
  }}"""
"""Text of the function that has all followers done for a block: the words it is given are their number, and for each what the
driver would hand on to a tail."""
