"""Chains of pointwise nests become one nest, where that computes nothing twice.

A producer is taken into its consumer if both are pointwise, the consumer is its only user, and the consumer meets each
of its elements exactly once. One of a few operations, which scales or shifts each column, is taken into each of its users
rather than kept in memory; a sum or an extreme over rows takes what is computed of each element before; an expansion of what
a nest makes is one of its inputs instead. An operand that is filled with one number is that number. Afterwards the loops of
pointwise nests stand in the order of what they write, by which later stages know what follows element by element.
Contractions keep the form in which they are recognised, but they read an operand that was only moved (a transposed weight,
repeated heads) where it was before.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import before_collapse, loops_of
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, indexing_maps, interchange, iterators, substitute
from onnx2torch_mlir.engine.compiler.order_propagation import RESHAPES
from onnx2torch_mlir.engine.compiler.reshaped_nests import expand_inputs
from onnx2torch_mlir.engine.compiler.walks import copied, functions, made_by, named, nested

_MOST_OPERATIONS = 64
_MOST_INPUTS = 12
_FEW_OPERATIONS = 2


def fuse_pointwise(module: ir.Module) -> None:
    """Fuse pointwise ``linalg.generic`` on tensors into their consumers, in @main (before bufferization)."""
    (main,) = functions(module)
    for generic in named(main, "linalg.generic"):
        _fuse_into(generic)
    for expansion in named(main, "tensor.expand_shape"):
        made = expand_inputs(expansion)
        followers = {use.owner.operation: None for use in made.results[0].uses} if made is not None else {}
        for follower in followers:
            _fuse_into(follower)


def _fuse_into(operation: ir.Operation) -> None:
    """Take into a nest what can be, and bring its loops into the order of what it writes if it is pointwise."""
    pointwise = _is_pointwise(operation)
    if not pointwise and not _reduces_rows(operation):
        return
    last = operation
    consumer: ir.Operation | None = _without_fills(operation) if pointwise else operation
    while consumer is not None:
        last, consumer = consumer, _fuse_one(consumer)
    written = indexing_maps(last)[-1]
    if pointwise and _is_permutation(written):
        interchange(last, [expression.position for expression in written.results])


def _without_fills(generic: ir.Operation) -> ir.Operation:
    """The nest with the numbers themselves in the place of inputs that are filled with one; a new one, if it has such."""
    count = _input_count(generic)
    filled = {position: number for position in range(count) if (number := _filled_with(generic.operands[position])) is not None}
    if not filled or not _is_permutation(indexing_maps(generic)[-1]):
        return generic
    kept = [position for position in range(len(generic.operands)) if position not in filled]
    maps = indexing_maps(generic)
    with ir.InsertionPoint(generic), generic.location:
        made = GenericOp(
            [result.type for result in generic.results],
            [generic.operands[position] for position in kept if position < count],
            list(generic.operands)[count:],
            map_attributes(maps[position] for position in kept),
            generic.attributes["iterator_types"],
        )
        old = generic.regions[0].blocks[0]
        block = made.regions[0].blocks.append(*[old.arguments[position].type for position in kept])
        mapping: dict[ir.Value, ir.Value] = {old.arguments[position]: number for position, number in filled.items()}
        mapping |= {old.arguments[position]: argument for position, argument in zip(kept, block.arguments, strict=True)}
        with ir.InsertionPoint(block):
            YieldOp(_copy_body(old, mapping))
    for before, result in zip(generic.results, made.results, strict=True):
        before.replace_all_uses_with(result)
    generic.erase()
    operation: ir.Operation = made.operation
    return operation


def _filled_with(value: ir.Value) -> ir.Value | None:
    """The number that all elements of a tensor are, if the text tells."""
    fill = made_by(value, "linalg.fill")
    if fill is None:
        return None
    number: ir.Value = fill.operands[0]
    return number if number.type == ir.RankedTensorType(value.type).element_type else None


def read_in_place(module: ir.Module) -> None:
    """Let contractions read what lies before a transposition or an expansion, which then is not carried out."""
    (main,) = functions(module)
    for generic in named(main, "linalg.generic"):
        if _is_contraction(generic):
            for position in range(_input_count(generic)):
                while _read_before(generic, position):
                    pass


def _read_before(consumer: ir.Operation, position: int) -> bool:
    """Read operand ``position`` from what its producer moves; whether there was such a producer."""
    producer = made_by(consumer.operands[position])
    if producer is not None and producer.name == "tensor.collapse_shape":
        return _read_before_collapse(consumer, position, producer)
    if producer is None or not only_moves(producer):
        return False
    maps = indexing_maps(consumer)
    maps[position] = _composed(indexing_maps(producer), maps[position])[0]
    if not _name_all_loops(maps):
        return False
    if _sums_along_rows(consumer, position) and not _is_summed(consumer, maps[position]):
        return False
    _read_instead(consumer, position, producer, maps)
    return True


def _name_all_loops(maps: list[ir.AffineMap]) -> bool:
    """Whether each loop is an index of some operand: how often it turns is not known of any other."""
    named = {e.position for map_ in maps for e in map_.results if isinstance(e, ir.AffineDimExpr)}
    return named == set(range(maps[0].n_dims))


def _sums_along_rows(consumer: ir.Operation, position: int) -> bool:
    """Whether an operand that stays where it is along a row of the result is dense along what is summed up.

    Register tiles ask that of it.
    """
    maps = indexing_maps(consumer)
    if not len(maps[-1].results):
        return False
    columns = loops_of(maps[-1])[-1]
    return not columns & frozenset().union(*loops_of(maps[position])) and _is_summed(consumer, maps[position])


def _is_summed(consumer: ir.Operation, map_: ir.AffineMap) -> bool:
    """Whether the last axis that moves is one that is summed up."""
    last = next((loops for loops in reversed(loops_of(map_)) if loops), frozenset())
    return any(iterators(consumer)[loop] for loop in last)


def _read_before_collapse(consumer: ir.Operation, position: int, collapse: ir.Operation) -> bool:
    """The same where dims of size 1 were left out after a move."""
    mover = made_by(collapse.operands[0])
    maps = indexing_maps(consumer)
    read = maps[position]
    indices = before_collapse(collapse, read.results)
    if mover is None or not only_moves(mover) or indices is None:
        return False
    maps[position] = ir.AffineMap.get(read.n_dims, read.n_symbols, indices)
    _read_instead(consumer, position, collapse, maps)
    return True


def _read_instead(consumer: ir.Operation, position: int, producer: ir.Operation, maps: list[ir.AffineMap]) -> None:
    """Let operand ``position`` be what ``producer`` reads, by ``maps``; the producer goes where nothing else uses it."""
    consumer.operands[position] = producer.operands[0]
    consumer.attributes["indexing_maps"] = map_attributes(maps)
    if not list(producer.results[0].uses):
        producer.erase()


def only_moves(producer: ir.Operation) -> bool:
    """Whether each element of the result is an element of the only input."""
    if producer.name != "linalg.generic" or not _is_pointwise(producer) or _input_count(producer) != 1:
        return False
    block = producer.regions[0].blocks[0]
    yielded = list(list(block.operations)[-1].operation.operands)
    return yielded == [block.arguments[0]] and _is_permutation(indexing_maps(producer)[-1])


def _is_contraction(generic: ir.Operation) -> bool:
    """Whether products of two inputs are summed up, and nothing else."""
    sums = accumulations(generic) if any(iterators(generic)) else []
    return _input_count(generic) == 2 and len(sums) == 1 and sums[0].name in ("arith.addf", "arith.addi")


def _fuse_one(consumer: ir.Operation) -> ir.Operation | None:
    """Take one producer into the consumer; the new consumer, or None if there is nothing to take."""
    for value in list(consumer.operands)[: _input_count(consumer)]:
        producer = made_by(value)
        if producer is not None and _fits(producer, consumer):
            return _fused(producer, consumer)
    return None


def _fits(producer: ir.Operation, consumer: ir.Operation) -> bool:
    if producer.name != "linalg.generic" or len(producer.results) != 1 or producer.block != consumer.block:
        return False
    inputs = _input_count(consumer)
    uses = list(producer.results[0].uses)
    if any(use.owner.operation != consumer for use in uses) and not _scales_columns(producer):
        return False
    uses = [use for use in uses if use.owner.operation == consumer]
    if any(use.operand_number >= inputs for use in uses):
        return False
    if not _is_pointwise(producer) or (named(producer, "linalg.index") and any(iterators(consumer))):
        return False
    running = list(producer.regions[0].blocks[0].arguments)[-1]
    if list(running.uses) or not _is_permutation(indexing_maps(producer)[-1]):
        return False
    reads = {str(indexing_maps(consumer)[use.operand_number]) for use in uses}
    if len(reads) != 1 or not _is_permutation(indexing_maps(consumer)[uses[0].operand_number]):
        return False
    if not _name_all_loops(_maps_of_both(producer, consumer)[1]):
        return False
    size = sum(len(list(op.regions[0].blocks[0].operations)) for op in (producer, consumer))
    return size <= _MOST_OPERATIONS and _input_count(producer) + inputs <= _MOST_INPUTS


def _scales_columns(producer: ir.Operation) -> bool:
    """Whether a few operations combine each element of one array with numbers that vary along the last axis alike.

    Not so what follows a sum of products: that is done there.
    """
    if not _is_pointwise(producer) or len(list(producer.regions[0].blocks[0].operations)) > _FEW_OPERATIONS + 1:
        return False
    *maps, written = indexing_maps(producer)
    whole = [position for position, map_ in enumerate(maps) if len(map_.results) == map_.n_dims and _is_permutation(map_)]
    if len(whole) != 1 or not _is_permutation(written) or not written.n_dims:
        return False
    last = written.results[written.n_dims - 1]
    columns = [map_ for position, map_ in enumerate(maps) if position not in whole]
    if not columns or any(last not in list(map_.results) for map_ in columns):
        return False
    source = producer.operands[whole[0]]
    while (reshape := made_by(source, *RESHAPES)) is not None:
        source = reshape.operands[0]
    made = made_by(source, "linalg.generic")
    return made is None or not any(iterators(made))


def _reduces_rows(generic: ir.Operation) -> bool:
    """Whether all elements of one array are combined along other axes than its last."""
    if not any(iterators(generic)) or _input_count(generic) != 1 or len(generic.results) != 1:
        return False
    read, written = indexing_maps(generic)
    if not accumulations(generic) or not _is_permutation(read) or not read.n_dims or not len(written.results):
        return False
    last = read.results[read.n_dims - 1]
    return not iterators(generic)[last.position] and written.results[len(written.results) - 1] == last


def _maps_of_both(producer: ir.Operation, consumer: ir.Operation) -> tuple[list[int], list[ir.AffineMap], ir.AffineMap]:
    """Which inputs the consumer keeps when it takes the producer in; the maps of these, of the producer's, and of what is
    written; and by which it reads the producer's result."""
    inner_inputs, outer_inputs = _input_count(producer), _input_count(consumer)
    maps = indexing_maps(consumer)
    kept = [position for position in range(outer_inputs) if consumer.operands[position] != producer.results[0]]
    read = maps[next(position for position in range(outer_inputs) if position not in kept)]
    moved = _composed(indexing_maps(producer), read)[:inner_inputs]
    return kept, [*(maps[position] for position in kept), *moved, *maps[outer_inputs:]], read


def _fused(producer: ir.Operation, consumer: ir.Operation) -> ir.Operation:
    taken = producer.results[0]
    inner_inputs, outer_inputs = _input_count(producer), _input_count(consumer)
    kept, maps, read = _maps_of_both(producer, consumer)
    inputs = [consumer.operands[position] for position in kept] + list(producer.operands)[:inner_inputs]
    outputs = list(consumer.operands)[outer_inputs:]
    with ir.InsertionPoint(consumer), ir.Location.fused([producer.location, consumer.location]):
        fused = GenericOp(
            [result.type for result in consumer.results],
            inputs,
            outputs,
            map_attributes(maps),
            consumer.attributes["iterator_types"],
        )
        inner, outer = producer.regions[0].blocks[0], consumer.regions[0].blocks[0]
        sources = [outer.arguments[position] for position in kept]
        sources += list(inner.arguments)[:inner_inputs]
        sources += list(outer.arguments)[outer_inputs:]
        block = fused.regions[0].blocks.append(*[source.type for source in sources])
        mapping: dict[ir.Value, ir.Value] = dict(zip(sources, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            value = _copy_body(inner, mapping, _places(indexing_maps(producer), read))[0]
            for position in range(outer_inputs):
                if position not in kept:
                    mapping[outer.arguments[position]] = value
            YieldOp(_copy_body(outer, mapping))
    for old, new in zip(consumer.results, fused.results, strict=True):
        old.replace_all_uses_with(new)
    consumer.erase()
    if not list(taken.uses):
        producer.erase()
    operation: ir.Operation = fused.operation
    return operation


def _composed(inner: list[ir.AffineMap], read: ir.AffineMap) -> list[ir.AffineMap]:
    """The maps ``inner`` of a producer over the loops of a consumer that reads its result by ``read``."""
    places = _places(inner, read)
    return [ir.AffineMap.get(read.n_dims, 0, [substitute(e, places) for e in map_.results]) for map_ in inner]


def _places(inner: list[ir.AffineMap], read: ir.AffineMap) -> list[ir.AffineExpr]:
    """What each loop of the producer is over those of the consumer."""
    # Dim d of the producer is the consumer's expression for the place where the result's map has d.
    places: list[ir.AffineExpr] = list(read.results)
    for place, expression in enumerate(inner[-1].results):
        places[expression.position] = read.results[place]
    return places


def _copy_body(
    block: ir.Block, mapping: dict[ir.Value, ir.Value], places: Sequence[ir.AffineExpr] = ()
) -> list[ir.Value]:
    """Copy the operations of a body to the insertion point, whose loops stand at ``places``; what it yields, there."""
    operations = [operation.operation for operation in block.operations]
    for operation in operations[:-1]:
        copy = copied(operation, mapping)
        for one in (copy, *nested(copy)) if places else ():
            if one.name == "linalg.index":
                loop = ir.AffineDimExpr(places[int(one.attributes["dim"])]).position
                one.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop)
    return [mapping.get(value, value) for value in operations[-1].operands]


def _input_count(generic: ir.Operation) -> int:
    return int(next(iter(generic.attributes["operandSegmentSizes"])))


def _is_pointwise(generic: ir.Operation) -> bool:
    return not any(iterators(generic)) and len(generic.results) > 0


def _is_permutation(map_: ir.AffineMap) -> bool:
    positions = [e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in map_.results]
    return sorted(positions) == list(range(map_.n_dims))
