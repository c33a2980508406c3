"""Sums of products of two operands become calls of the contraction driver, whatever their shape, layout or window.

A ``linalg.generic`` on memrefs is taken if its body adds up products of float32 numbers and every operand's address is linear
in the loops (contraction_match.py). Each loop is then a batch, a row, a column or a segment (contraction_kinds.py) by the
operands it moves. What does not fit stays a loop nest. Weights are packed once, before the first call: `Packing` says how.
"""

from __future__ import annotations

import dataclasses

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from onnx2torch_mlir.engine.compiler import (
    attention,
    attention_code,
    call_memory,
    column_parts,
    contraction_tails,
    dot_products,
    double_products,
    following,
    plain_tails,
    tail_calls,
    threads,
    walking_back,
    winograd,
    winograd_forms,
)
from onnx2torch_mlir.engine.compiler.arguments import Weights
from onnx2torch_mlir.engine.compiler.column_parts import Parts
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS, FEW_ROWS, HALF_OF_COLUMNS
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, match
from onnx2torch_mlir.engine.compiler.contraction_plan import Needed, Plan, plan_of
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address, fill_before, where
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.repeated_code import RepeatedCode
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import functions, named, symbol
from onnx2torch_mlir.engine.compiler.weight_packing import packing_of
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.engine.layout import Packing

_BYTES = 4


def replace(
    module: ir.Module,
    weights: Weights,
    tails: Outlined,
    written: WrittenCode,
    *,
    with_winograd: bool,
    with_attention: bool,
) -> list[ir.Operation]:
    """Let every contraction of @main call the driver; the functions of tails are added to ``tails``.

    The module holds @main on memrefs, with named operations generalized and arguments packed (arguments.py). Returns the loops
    that stand for whole attentions.
    """
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    needed = Needed()
    nests = named(main, "linalg.generic")
    matched = [match(nest) for nest in nests]
    attentions = _attentions(matched, weights) if with_attention else []
    # Where only the run tells how many rows there are, loops stay beside for few of them.
    replaced = {member for one in attentions if one.scores.known_rows is not None for member in one.members}
    for one in attentions:
        for contraction in (one.scores, one.products):
            needed.tiles.add_rows(contraction, attention_code.rows_of_blocks(contraction.known_rows, of_host().rows))
        needed.of_rows |= attention_code.kinds_of(one)
        needed.packed_before |= attention_code.packed_of(one)
    plans, doubles = list[Plan](), list[Contraction]()
    for nest, found in zip(nests, matched, strict=True):
        if nest in replaced:
            continue
        plan = None if found is None else plan_of(found, weights, with_winograd=with_winograd)
        doubled = double_products.match_doubles(nest) if found is None else None
        if plan is not None:
            needed.add(plan, weights)
            plans.append(plan)
        if doubled is not None:
            needed.doubles.add(double_products.kind_of(doubled))
            doubles.append(doubled)
    texts = list(needed.texts())
    if texts:
        written.add(module, threads.SIGNATURES + call_memory.SIGNATURES, *texts)
    repeated = RepeatedCode("attention")
    loops = [attention_code.write(one, of_host(), weights.context, repeated) for one in attentions]
    have_parts = [_call(plan, weights, tails) for plan in plans]
    for found_doubles in doubles:
        _call_doubles(found_doubles, weights)
    if any(have_parts):
        written.add(module, column_parts.FUNCTION)
    return loops


def _attentions(matched: list[Contraction | None], weights: Weights) -> list[attention.Found]:
    """The attentions of @main, all of them before one is written, for they may lie across each other."""
    every: list[attention.Found] = []
    taken: set[ir.Operation] = set()
    order = attention.Order()
    unit = of_host()
    for scores in matched:
        found = None
        if scores is not None:
            found = attention.find(scores, lambda each: packing_of(each, weights, unit) is None, order)
        if found is not None and not taken & set(found.members):
            taken |= set(found.members)
            every.append(found)
    return every


def _call(plan: Plan, weights: Weights, tails: Outlined) -> bool:
    """Write the call that a plan is; whether there are nests that follow parts of its columns."""
    found, packing = plan.found, plan.packing
    generic, fill = found.generic, fill_before(found.generic) if plan.zeroed else None
    many = packing is not None or found.known_rows is not None
    tail = contraction_tails.find(found, fill) if many else None
    parts = None
    if tail is not None:
        contraction_tails.prepare(tail, generic)
    elif packing is not None and plan.kind is not None and not packing.codes:
        parts = column_parts.find(found, packing.width)
    if parts is not None:
        following.move_before(generic, parts.nests)
    with ir.InsertionPoint(generic), generic.location, _place(found, fill, many=many):
        _emit(plan, weights, tails, tail, parts)
    generic.erase()
    if tail is not None:
        contraction_tails.leave_out(tail)
    for follower in parts.nests if parts is not None else []:
        follower.erase()
    return parts is not None


def _call_doubles(found: Contraction, weights: Weights) -> None:
    """The same for a contraction of float64."""
    fill = fill_before(found.generic)
    with ir.InsertionPoint(found.generic), found.generic.location, _place(found, fill, many=found.known_rows is not None):
        double_products.call(found, weights.context, zeroed=fill is not None)
    found.generic.erase()


def _place(found: Contraction, fill: ir.Operation | None, *, many: bool) -> ir.InsertionPoint:
    """Where the call belongs, which makes the result zero that ``fill`` did: instead of the nest, if there are ``many`` rows;
    else where it turns out that there are, for packing costs more than it saves where there are few, and loops do these."""
    if many:
        if fill is not None:
            fill.erase()
        return ir.InsertionPoint(found.generic)
    sizes = Sizes(found)
    total = sizes.number(1)
    for dim in found.rows:
        total = arith.MulIOp(total, sizes.count(dim)).result
    are_many = arith.CmpIOp(arith.CmpIPredicate.sge, total, sizes.number(FEW_ROWS)).result
    return where(are_many, found.generic, fill)


def _emit(plan: Plan, weights: Weights, tails: Outlined, tail: contraction_tails.Found | None, parts: Parts | None) -> None:
    """The call of the driver at the insertion point."""
    found, packing, kind = plan.found, plan.packing, plan.kind
    if plan.dots is not None and packing is not None:
        columns = weights.packed(packing)
        with tail_calls.handed_on(tail, tails, [plan.dots.columns]) as told:
            dot_products.call(found, plan.dots, _pointers(found, weights, columns, tail), told)
        return
    if plan.image is not None and packing is not None:
        _emit_winograd(found, plan.image, weights, packing, tails, tail)
        return
    assert kind is not None
    sizes, few = Sizes(found), 0
    if packing is None:
        right = address(found.value(found.right))
        columns = [sizes.count(found.column) if found.column is not None else sizes.number(1)]
        columns.append(sizes.step(found.right, found.column) if found.column is not None else sizes.number(_BYTES))
        batch_steps = [sizes.step(found.right, dim) for dim in found.batches]
    else:
        few = packing.few
        right = weights.packed(packing if parts is None else dataclasses.replace(packing, parts=parts.count))
        columns = [sizes.number(packing.columns[0])]
        batch_steps = [sizes.number(step) for step in packing.batch_steps]
    words: list[ir.Value] = []
    for dim, step in zip(found.batches, batch_steps, strict=True):
        words += [sizes.count(dim), sizes.step(found.left, dim), step, sizes.step(2, dim)]
    for dim in found.rows:
        words += [sizes.count(dim), sizes.step(found.left, dim), sizes.step(2, dim)]
    words += columns
    for group in found.merged():
        words += [sizes.count_of(group), sizes.step(found.left, group[-1])]
    for dim in found.segments[: kind.unpacked]:
        words += [sizes.count(dim), sizes.step(found.right, dim)]
    add = arith.ConstantOp(ir.IntegerType.get_signless(1), ir.BoolAttr.get(not plan.zeroed)).result
    back = walking_back.says(found.generic)
    plain = plain_tails.plain(tail, len(found.batches)) if tail is not None and not kind.codes and not few else None
    if parts is not None:
        handed_on = column_parts.handed_on(parts, tails)
    elif plain is not None:
        handed_on = plain_tails.handed_on(plain)
    else:
        handed_on = tail_calls.handed_on(tail, tails, _widths(found, codes=kind.codes))
    pointers = _pointers(found, weights, right, tail)
    if plain is not None:
        pointers[-1] = address(plain.out)
    given = [*pointers, add, back, sizes.number(1 if parts is None else parts.count), sizes.number(few), *words]
    with handed_on as told:
        func.CallOp([], ir.FlatSymbolRefAttr.get(kind.name), [*given, *told])


def _pointers(found: Contraction, weights: Weights, right: ir.Value, tail: contraction_tails.Found | None) -> list[ir.Value]:
    """The context, both operands and the result, of which there is none before a tail."""
    left = address(found.value(found.left))
    return [weights.context, left, right, left if tail is not None else address(found.value(2))]


def _emit_winograd(
    found: Contraction,
    image: winograd.Image,
    weights: Weights,
    packing: Packing,
    tails: Outlined,
    tail: contraction_tails.Found | None,
) -> None:
    """The call of what does a convolution by Winograd's algorithm at the insertion point."""
    packed = weights.packed(packing)
    with tail_calls.handed_on(tail, tails, [BLOCK_COLUMNS]) as told:
        sizes, pointers = Sizes(found), _pointers(found, weights, packed, tail)
        winograd.call(winograd_forms.FLOATS, sizes, image, pointers, [sizes.number(packing.few), *told])


def _widths(found: Contraction, *, codes: bool) -> list[int]:
    """Numbers of columns that the tail meets most often."""
    unit = of_host()
    if codes:
        return [BLOCK_COLUMNS, HALF_OF_COLUMNS]
    count = found.fixed_length(found.column) if found.column is not None else None
    return [unit.columns, *([unit.lanes] if count is not None and count % unit.columns == unit.lanes else [])]
