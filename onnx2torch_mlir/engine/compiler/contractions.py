"""Sums of products of two operands become calls of the contraction driver, whatever their shape, layout or window.

A ``linalg.generic`` on memrefs is taken if its body adds up products of float32 numbers and every operand's address is linear
in the loops (contraction_match.py). Each loop is then a batch, a row, a column or a segment (contraction_driver.py) by the
operands it moves. What does not fit stays a loop nest. Weights are packed once, before the first call: `Packing` says how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

from torch_mlir import ir
from torch_mlir.dialects import arith, func, memref, scf

from onnx2torch_mlir.engine.compiler import contraction_driver, contraction_tails, register_tile
from onnx2torch_mlir.engine.compiler.arguments import load_word
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, match
from onnx2torch_mlir.engine.compiler.flatten import parts, without_offset
from onnx2torch_mlir.engine.compiler.loop_order import coefficient
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import functions, i64, is_memref, nested, pointer, root_of, symbol
from onnx2torch_mlir.engine.layout import Packing

_BYTES = 4
_FEW_ROWS = 4


@dataclass
class Program:
    """What a module's contractions need beside the module: the functions they call, and what is to be packed."""

    main: ir.Operation
    weights: dict[int, int]
    """The number of each weight, by the position of its pointer among the words of the arguments."""
    words: int
    tails: contraction_tails.Tails
    kinds: set[contraction_driver.Kind] = field(default_factory=set)
    packings: list[Packing] = field(default_factory=list)
    nests: list[ir.Operation] = field(default_factory=list)
    """What has not been looked at yet."""


def replace(module: ir.Module, weights: dict[int, int], words: int) -> tuple[list[Packing], dict[str, list[int]]]:
    """Let every contraction of @main call the driver.

    Returns what is to be packed, in the order of the words after ``words``, and for each function of a tail the positions of
    its pointers whose memory no other argument reaches.

    The module holds @main on memrefs, with named operations generalized and arguments packed (arguments.py).
    """
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    program = Program(main, weights, words, contraction_tails.Tails(module))
    program.nests = [operation for operation in nested(main) if operation.name == "linalg.generic"]
    while program.nests:
        found = match(program.nests.pop(0))
        if found is not None:
            _call(found, program)
    if program.kinds:
        unit = of_host()
        texts = [
            register_tile.tile(unit, segments, rows)
            for segments in contraction_driver.depths(program.kinds)
            for rows in range(1, unit.rows + 1)
        ]
        texts.append(contraction_driver.functions_for(unit, program.kinds))
        tails = {kind.tail for kind in program.kinds if kind.tail is not None}
        texts += [f"func.func private @{tail.name}({', '.join(['!llvm.ptr', *['i64'] * 5, *tail.types])})" for tail in tails]
        declared = (
            "func.func private @o2m_alloc(!llvm.ptr, i64) -> !llvm.ptr\nfunc.func private @o2m_free(!llvm.ptr, !llvm.ptr)\n"
        )
        fragment = ir.Module.parse("module {" + declared + "\n".join(texts) + "}", context=module.context)
        for operation in list(fragment.body.operations):
            if len(operation.operation.regions[0].blocks):
                operation.operation.detach_from_parent()
                module.body.append(operation)
    return program.packings, program.tails.exclusive


class _Sizes:
    """Sizes and strides as i64 values at the insertion point; strides in bytes."""

    def __init__(self, found: Contraction) -> None:
        self.match = found
        self.known: dict[int, ir.Value] = {}
        self.metadata: dict[int, Any] = {}

    def number(self, value: int) -> ir.Value:
        if value not in self.known:
            self.known[value] = arith.ConstantOp(ir.IntegerType.get_signless(64), i64(value)).result
        return self.known[value]

    def count(self, dim: int) -> ir.Value:
        fixed = self.match.fixed_length(dim)
        operand, axis = self.match.length(dim)
        return self.number(fixed) if fixed is not None else self._word(self._sizes(operand)[2 + axis])

    def count_of(self, dims: list[int]) -> ir.Value:
        """The product of the counts."""
        total = self.count(dims[0])
        for dim in dims[1:]:
            total = arith.MulIOp(total, self.count(dim)).result
        return total

    def step(self, operand: int, dim: int) -> ir.Value:
        access = self.match.operands[operand]
        rank = len(access.map.results)
        fixed, total = 0, cast("ir.Value | None", None)
        for axis, expression in enumerate(access.map.results):
            factor = coefficient(expression, dim)
            if not factor:
                continue
            stride = access.strides[axis]
            if stride is not None:
                fixed += factor * stride
                continue
            term = self._word(self._sizes(operand)[2 + rank + axis])
            term = arith.MulIOp(term, self.number(factor)).result if factor != 1 else term
            total = term if total is None else arith.AddIOp(total, term).result
        if total is None:
            return self.number(fixed * _BYTES)
        if fixed:
            total = arith.AddIOp(total, self.number(fixed)).result
        return arith.MulIOp(total, self.number(_BYTES)).result

    def _sizes(self, operand: int) -> Any:
        if operand not in self.metadata:
            self.metadata[operand] = memref.ExtractStridedMetadataOp(self.match.value(operand)).results
        return self.metadata[operand]

    @staticmethod
    def _word(index: ir.Value) -> ir.Value:
        return arith.IndexCastOp(ir.IntegerType.get_signless(64), index).result


def _call(found: Contraction, program: Program) -> None:
    generic = found.generic
    packing = _packing(found, program)
    rows = _known_rows(found)
    if packing is None and rows is not None and rows < _FEW_ROWS:
        return
    fill = _fill(found)
    many = packing is not None or rows is not None
    tail = contraction_tails.find(found, fill) if many else None
    if tail is not None:
        contraction_tails.prepare(tail, generic)
    sizes = _Sizes(found)
    with ir.InsertionPoint(generic), generic.location:
        place = ir.InsertionPoint(generic)
        if not many:
            # Packing costs more than it saves where there are few rows: then the loops do it.
            place = _where_many(found, sizes, fill)
        elif fill is not None:
            fill.erase()
        with place:
            _emit(found, program, packing, tail, zeroed=fill is not None)
    generic.erase()
    if tail is not None:
        program.nests = [nest for nest in program.nests if nest != tail.nest]
        _leave_out(tail)


def _leave_out(tail: contraction_tails.Found) -> None:
    """Remove the nest that the driver's tail has become, and the buffer between."""
    tail.nest.erase()
    pending = [tail.buffer]
    order = []
    while pending:
        operation = pending.pop()
        order.append(operation)
        pending += [use.owner.operation for result in operation.results for use in result.uses]
    for operation in reversed(order):
        operation.erase()


def _where_many(found: Contraction, sizes: _Sizes, fill: ir.Operation | None) -> ir.InsertionPoint:
    """Loops for few rows, as they are; the insertion point of what is done for many."""
    total = sizes.number(1)
    for dim in found.rows:
        total = arith.MulIOp(total, sizes.count(dim)).result
    many = arith.CmpIOp(arith.CmpIPredicate.sge, total, sizes.number(_FEW_ROWS)).result
    branch = scf.IfOp(many, [], has_else=True)
    with ir.InsertionPoint(branch.else_block):
        if fill is not None:
            fill.detach_from_parent()
            branch.else_block.append(fill)
        found.generic.clone()
        scf.YieldOp([])
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp([])
    return ir.InsertionPoint(end)


def _emit(
    found: Contraction,
    program: Program,
    packing: Packing | None,
    tail: contraction_tails.Found | None,
    *,
    zeroed: bool,
) -> None:
    """The call of the driver at the insertion point."""
    sizes = _Sizes(found)
    if packing is None:
        right = _address(found.value(found.right))
        columns = [sizes.count(found.column) if found.column is not None else sizes.number(1)]
        columns.append(sizes.step(found.right, found.column) if found.column is not None else sizes.number(_BYTES))
        batch_steps = [sizes.step(found.right, dim) for dim in found.batches]
    else:
        right = load_word(_words(program), program.words + 2 + len(program.packings), pointer())
        program.packings.append(packing)
        columns = [sizes.number(packing.columns[0])]
        batch_steps = [sizes.number(step) for step in packing.batch_steps]
    groups = found.merged()
    unpacked = 0 if packing is not None else len(found.segments)
    after, given_to_tail = (None, []) if tail is None else contraction_tails.build(tail, program.tails)
    kind = contraction_driver.Kind(len(found.batches), len(found.rows), len(groups), unpacked, after)
    program.kinds.add(kind)
    words: list[ir.Value] = []
    for dim, step in zip(found.batches, batch_steps, strict=True):
        words += [sizes.count(dim), sizes.step(found.left, dim), step, sizes.step(2, dim)]
    for dim in found.rows:
        words += [sizes.count(dim), sizes.step(found.left, dim), sizes.step(2, dim)]
    words += columns
    for group in groups:
        words += [sizes.count_of(group), sizes.step(found.left, group[-1])]
    for dim in found.segments[:unpacked]:
        words += [sizes.count(dim), sizes.step(found.right, dim)]
    flag = arith.ConstantOp(ir.IntegerType.get_signless(1), ir.BoolAttr.get(not zeroed)).result
    context = program.main.regions[0].blocks[0].arguments[0]
    left = _address(found.value(found.left))
    out = left if tail is not None else _address(found.value(2))
    given = [context, left, right, out, flag, *words, *given_to_tail]
    func.CallOp([], ir.FlatSymbolRefAttr.get(kind.name), given)


def _address(value: ir.Value) -> ir.Value:
    return parts(value, without_offset(ir.MemRefType(value.type)))[0]


def _words(program: Program) -> ir.Value:
    return program.main.regions[0].blocks[0].arguments[1]


def _known_rows(found: Contraction) -> int | None:
    """How many rows there are, where the types tell."""
    lengths = [found.fixed_length(dim) for dim in found.rows]
    known = [length for length in lengths if length is not None]
    return math.prod(known) if len(known) == len(lengths) else None


def _packing(found: Contraction, program: Program) -> Packing | None:
    """How the right operand is packed once, if it is a weight of which everything is known."""
    value, access = found.value(found.right), found.operands[found.right]
    weight = _weight(root_of(value), program)
    if weight is None or None in access.strides:
        return None
    offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        return None

    def pair(dim: int) -> tuple[int, int] | None:
        count, step = found.fixed_length(dim), access.step(dim)
        return None if count is None or step is None else (count, step)

    batches, segments = [pair(dim) for dim in found.batches], [pair(dim) for dim in found.segments]
    column = pair(found.column) if found.column is not None else (1, 1)
    if column is None or None in batches or None in segments:
        return None
    known = [[pair for pair in pairs if pair is not None] for pairs in (batches, segments)]
    return Packing(weight, offset, of_host().columns, known[0], column, known[1])


def _weight(root: ir.Value, program: Program) -> int | None:
    """The number of the weight that ``root`` is, as arguments.py assembles it."""
    if isinstance(root.owner, ir.Block) or root.owner.operation.name != "builtin.unrealized_conversion_cast":
        return None
    value = root.owner.operation.operands[0]
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name == "llvm.insertvalue":
        operation = value.owner.operation
        inserted = operation.operands[1]
        loaded = not isinstance(inserted.owner, ir.Block) and inserted.owner.operation.name == "llvm.load"
        if inserted.type == pointer() and loaded:
            place = inserted.owner.operation.operands[0]
            if isinstance(place.owner, ir.Block):
                return program.weights.get(0) if place == _words(program) else None
            gep = place.owner.operation
            if gep.name == "llvm.getelementptr" and gep.operands[0] == _words(program) and len(gep.operands) == 1:
                (position,) = ir.DenseI32ArrayAttr(gep.attributes["rawConstantIndices"])
                return program.weights.get(position)
            return None
        value = operation.operands[0]
    return None


def _fill(found: Contraction) -> ir.Operation | None:
    """What fills the result with zeros right before, if anything does."""
    out = found.value(2)
    root = root_of(out)
    last = None
    for operation in found.generic.block.operations:
        current = operation.operation
        if current == found.generic:
            break
        if len(current.regions) and current.name != "linalg.generic":
            if any(root_of(v) == root for inner in nested(current) for v in inner.operands if is_memref(v.type)):
                last = None
            continue
        if any(is_memref(v.type) and root_of(v) == root for v in current.operands) and not _is_view(current):
            last = current
    if last is None or last.name != "linalg.generic" or last.operands[-1] != out or not _fills_zero(last):
        return None
    return last


def _is_view(operation: ir.Operation) -> bool:
    return len(operation.results) == 1 and is_memref(operation.results[0].type)


def _fills_zero(generic: ir.Operation) -> bool:
    block = generic.regions[0].blocks[0]
    operations = [operation.operation for operation in block.operations]
    if len(operations) != 1 or len(generic.operands) > 2:
        return False
    value = operations[0].operands[0]
    if value in list(block.arguments):
        position = list(block.arguments).index(value)
        if position == len(generic.operands) - 1:
            return False
        value = generic.operands[position]
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return False
    constant = value.owner.operation.attributes["value"]
    return isinstance(constant, ir.FloatAttr) and constant.value == 0.0 and str(constant).startswith("0.0")
