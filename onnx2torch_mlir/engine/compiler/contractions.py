"""Sums of products of two operands become calls of the contraction driver, whatever their shape, layout or window.

A ``linalg.generic`` on memrefs is taken if its body adds up products of float32 numbers and every operand's address is linear
in the loops (contraction_match.py). Each loop is then a batch, a row, a column or a segment (contraction_kinds.py) by the
operands it moves. What does not fit stays a loop nest. Weights are packed once, before the first call: `Packing` says how.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from onnx2torch_mlir.engine.compiler import (
    attention,
    attention_code,
    call_memory,
    column_packing,
    column_parts,
    columns_in_place,
    contraction_driver,
    contraction_tails,
    dot_products,
    double_products,
    few_columns,
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
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS, FEW_ROWS, HALF_OF_COLUMNS, Kind
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, match
from onnx2torch_mlir.engine.compiler.contraction_rows import RowsKind
from onnx2torch_mlir.engine.compiler.dot_products import DotKind
from onnx2torch_mlir.engine.compiler.double_products import DoubleKind
from onnx2torch_mlir.engine.compiler.needed_tiles import NeededTiles
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address, fill_before, where
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.repeated_code import RepeatedCode
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import functions, named, symbol, writers_of
from onnx2torch_mlir.engine.compiler.weight_packing import packing_of
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.engine.layout import INTEGERS, Packing

_BYTES = 4
_FEWEST_ROWS = 2
"""Fewer are left to loops in any case."""


@dataclass
class _Program:
    """What a module's contractions need beside the module: its weights, and the functions they call."""

    weights: Weights
    tails: Outlined
    nests: list[ir.Operation]
    """What has not been looked at yet."""
    with_winograd: bool
    kinds: set[Kind] = field(default_factory=set)
    of_rows: set[RowsKind] = field(default_factory=set)
    dots: set[DotKind] = field(default_factory=set)
    doubles: set[DoubleKind] = field(default_factory=set)
    codes: set[str] = field(default_factory=set)
    """What the columns are that are read as codes."""
    packed_before: set[tuple[int, int]] = field(default_factory=set)
    """Numbers of segments and of dims of batches, of columns that are packed before a loop over rows."""
    has_winograd: bool = False
    """Whether some convolution goes by Winograd's algorithm."""
    has_parts: bool = False
    """Whether something follows parts of columns."""
    tiles: NeededTiles = field(default_factory=lambda: NeededTiles(of_host()))


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
    program = _Program(weights, tails, [], with_winograd)
    loops = _replace_attention(main, program) if with_attention else []
    program.nests = named(main, "linalg.generic")
    while program.nests:
        nest = program.nests.pop(0)
        found = match(nest)
        if found is not None:
            _call(found, program)
            continue
        found = double_products.match_doubles(nest)
        if found is not None:
            _call_doubles(found, program)
    _append(module, program, written)
    return loops


def _replace_attention(main: ir.Operation, program: _Program) -> list[ir.Operation]:
    """A loop for each attention of @main; all are found before one is written, for they may lie across each other."""
    loops: list[ir.Operation] = []
    every: list[attention.Found] = []
    taken: set[ir.Operation] = set()
    order = attention.Order()
    unit = of_host()
    for scores in map(match, named(main, "linalg.generic")):
        found = None
        if scores is not None:
            found = attention.find(scores, lambda each: packing_of(each, program.weights, unit) is None, order)
        if found is not None and not taken & set(found.members):
            taken |= set(found.members)
            every.append(found)
    repeated = RepeatedCode("attention")
    for one in every:
        for contraction in (one.scores, one.products):
            program.tiles.add_rows(contraction, attention_code.rows_of_blocks(contraction.known_rows, of_host().rows))
        program.of_rows |= attention_code.kinds_of(one)
        program.packed_before |= attention_code.packed_of(one)
        loops.append(attention_code.write(one, of_host(), program.weights.context, repeated))
    return loops


def _append(module: ir.Module, program: _Program, written: WrittenCode) -> None:
    """The functions that are called."""
    if not (program.kinds or program.of_rows or program.has_winograd or program.dots or program.doubles):
        return
    unit = of_host()
    packed = {kind.unpacked for kind in program.kinds if not kind.packed} | {count for count, _ in program.packed_before}
    texts = [column_packing.functions_for(unit, count) for count in sorted(packed)]
    texts += [column_packing.functions_for_batches(*key) for key in sorted(program.packed_before)]
    needed = (program.kinds, program.of_rows, program.tiles.sizes, program.codes)
    texts += contraction_driver.functions_for(
        unit, *needed, dots=program.dots, doubles=program.doubles, with_winograd=program.has_winograd
    )
    texts += [column_parts.FUNCTION] if program.has_parts else []
    written.add(module, threads.SIGNATURES + call_memory.SIGNATURES, *texts)


def _call(found: Contraction, program: _Program) -> None:
    generic = found.generic
    packing = packing_of(found, program.weights, of_host())
    fill = fill_before(generic)
    if packing is None and fill is not None:
        turned = dot_products.by_rows(found)
        column = packing_of(turned, program.weights, of_host())
        if dot_products.kind_of(of_host(), turned, column) is not None:
            found, packing = turned, column
    rows = found.known_rows
    if packing is None and rows is not None and rows < _least_rows(found):
        return
    many = packing is not None or rows is not None
    tail = contraction_tails.find(found, fill) if many else None
    parts = None
    if tail is not None:
        contraction_tails.prepare(tail, generic)
    elif packing is not None and not _has_other_driver(found, program, packing, zeroed=fill is not None):
        parts = column_parts.find(found, packing.width)
    if parts is not None and packing is not None:
        packing = dataclasses.replace(packing, parts=parts.count)
        following.move_before(generic, parts.nests)
    with ir.InsertionPoint(generic), generic.location, _place(found, fill, many=many):
        _emit(found, program, packing, tail, parts, zeroed=fill is not None)
    generic.erase()
    if tail is not None:
        program.nests = [nest for nest in program.nests if nest != tail.nest]
        contraction_tails.leave_out(tail)
    for follower in parts.nests if parts is not None else []:
        program.nests = [nest for nest in program.nests if nest != follower]
        follower.erase()


def _has_other_driver(found: Contraction, program: _Program, packing: Packing, *, zeroed: bool) -> bool:
    """Whether the contraction goes another way than by blocks of rows and panels of floats (`_emit`)."""
    if not zeroed or packing.codes:
        return packing.codes
    by_winograd = program.with_winograd and winograd.match(found, packing) is not None
    return by_winograd or dot_products.kind_of(of_host(), found, packing) is not None


def _least_rows(found: Contraction) -> int:
    """How many rows pay where the right operand is no weight: fewer where nothing has to be packed for them."""
    return _FEWEST_ROWS if columns_in_place.are_near(of_host(), found) else FEW_ROWS


def _call_doubles(found: Contraction, program: _Program) -> None:
    """The same for a contraction of float64."""
    fill = fill_before(found.generic)
    with ir.InsertionPoint(found.generic), found.generic.location, _place(found, fill, many=found.known_rows is not None):
        program.doubles.add(double_products.kind_of(found))
        double_products.call(found, program.weights.context, zeroed=fill is not None)
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


def _emit(
    found: Contraction,
    program: _Program,
    packing: Packing | None,
    tail: contraction_tails.Found | None,
    parts: Parts | None,
    *,
    zeroed: bool,
) -> None:
    """The call of the driver at the insertion point."""
    dots = dot_products.kind_of(of_host(), found, packing) if zeroed else None
    if dots is not None and packing is not None:
        program.dots.add(dots)
        weights = program.weights.packed(dot_products.packing_of(packing))
        with tail_calls.handed_on(tail, program.tails, [dots.columns]) as told:
            dot_products.call(found, dots, _pointers(found, program, weights, tail), told)
        return
    image = winograd.match(found, packing) if program.with_winograd and zeroed else None
    if image is not None and packing is not None:
        _emit_winograd(found, image, program, packing, tail)
        return
    sizes, few = Sizes(found), 0
    if packing is None:
        right = address(found.value(found.right))
        columns = [sizes.count(found.column) if found.column is not None else sizes.number(1)]
        columns.append(sizes.step(found.right, found.column) if found.column is not None else sizes.number(_BYTES))
        batch_steps = [sizes.step(found.right, dim) for dim in found.batches]
    else:
        packing = few_columns.apart(of_host(), found, packing)
        few = packing.few
        right = program.weights.packed(packing)
        columns = [sizes.number(packing.columns[0])]
        batch_steps = [sizes.number(step) for step in packing.batch_steps]
    groups = found.merged()
    unpacked = 0 if packing is not None else len(found.segments)
    codes = packing is not None and packing.codes
    narrow = _narrow(found, program.weights.codes[packing.weight]) if codes and packing is not None else ""
    kind = Kind(len(found.batches), len(found.rows), len(groups), unpacked, codes, narrow)
    program.kinds.add(kind)
    if packing is not None and codes:
        program.codes.add(program.weights.codes[packing.weight])
    program.tiles.add_blocks(found, is_packed=packing is not None, codes=codes, few=few)
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
    add = arith.ConstantOp(ir.IntegerType.get_signless(1), ir.BoolAttr.get(not zeroed)).result
    back = walking_back.says(found.generic)
    program.has_parts = program.has_parts or parts is not None
    plain = plain_tails.plain(tail, len(found.batches)) if tail is not None and not codes and not few else None
    if parts is not None:
        handed_on = column_parts.handed_on(parts, program.tails)
    elif plain is not None:
        handed_on = plain_tails.handed_on(plain)
    else:
        handed_on = tail_calls.handed_on(tail, program.tails, _widths(found, codes=codes))
    pointers = _pointers(found, program, right, tail)
    if plain is not None:
        pointers[-1] = address(plain.out)
    given = [*pointers, add, back, sizes.number(1 if parts is None else parts.count), sizes.number(few), *words]
    with handed_on as told:
        func.CallOp([], ir.FlatSymbolRefAttr.get(kind.name), [*given, *told])


def _narrow(found: Contraction, codes: str) -> str:
    """What the rows may turn out to be, which then are multiplied by the codes as such (`Kind.narrow`): bytes where something
    has rounded them, bfloat16 where the weight is."""
    if found.batches:
        return ""
    if codes == "bf16":
        return "pairs" if of_host().multiplies_brain_floats else ""
    if codes != INTEGERS or not of_host().largest_byte:
        return ""
    writers, _ = writers_of(found.value(found.left))
    return "bytes" if any(named(writer, "math.roundeven") for writer in writers) else ""


def _pointers(found: Contraction, program: _Program, right: ir.Value, tail: contraction_tails.Found | None) -> list[ir.Value]:
    """The context, both operands and the result, of which there is none before a tail."""
    left = address(found.value(found.left))
    return [program.weights.context, left, right, left if tail is not None else address(found.value(2))]


def _emit_winograd(
    found: Contraction, image: winograd.Image, program: _Program, packing: Packing, tail: contraction_tails.Found | None
) -> None:
    """The call of what does a convolution by Winograd's algorithm at the insertion point."""
    packing = few_columns.apart(of_host(), found, winograd.packing_of(packing))
    weights = program.weights.packed(packing)
    program.has_winograd = True
    program.tiles.add(*winograd.products_of(found, image), packing.few)
    with tail_calls.handed_on(tail, program.tails, [BLOCK_COLUMNS]) as told:
        sizes, pointers = Sizes(found), _pointers(found, program, weights, tail)
        winograd.call(winograd_forms.FLOATS, sizes, image, pointers, [sizes.number(packing.few), *told])


def _widths(found: Contraction, *, codes: bool) -> list[int]:
    """Numbers of columns that the tail meets most often."""
    unit = of_host()
    if codes:
        return [BLOCK_COLUMNS, HALF_OF_COLUMNS]
    count = found.fixed_length(found.column) if found.column is not None else None
    return [unit.columns, *([unit.lanes] if count is not None and count % unit.columns == unit.lanes else [])]
