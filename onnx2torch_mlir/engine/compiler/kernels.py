"""Each loop nest becomes a private function of its own, and equal ones become the same function.

One function with every loop of a network costs LLVM minutes; a network has few different loop nests. A function of its
own also carries what alias analysis found: a nest that writes a buffer nobody else can reach says so (``noalias``),
which is what lets LLVM keep accumulators in registers and vectorise without checks.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler.asking_loops import FAR
from onnx2torch_mlir.engine.compiler.collapse import (
    Loops,
    Product,
    indexing_map,
    pointwise_loops,
    relaxed_types,
)
from onnx2torch_mlir.engine.compiler.constant_arguments import GIVEN
from onnx2torch_mlir.engine.compiler.distinct_memory import distinct
from onnx2torch_mlir.engine.compiler.flatten import assemble, dynamic_strides, parts, without_offset
from onnx2torch_mlir.engine.compiler.likeness import MODEL, Likeness, likeness, made_alike
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, best_order, interchange, iterators
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.parallel_loops import SERIAL
from onnx2torch_mlir.engine.compiler.streams import pays
from onnx2torch_mlir.engine.compiler.walks import functions, is_memref, made_by, named, nested, root_of, symbol

_PREFIX = "o2m_kernel_"


def outline(module: ir.Module, loops: Sequence[ir.Operation] = ()) -> dict[str, list[int]]:
    """Move every ``linalg.generic`` of @main, and each of the ``loops`` there, into a function.

    Returns for each function the positions of its pointers whose memory no other argument reaches. The generics are
    brought into their best loop order on the way.
    """
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    kernels = Outlined(module, _PREFIX)
    for loop in loops:
        _outline_loop(loop, kernels)
    for operation in named(main, "memref.copy", "linalg.generic"):
        if operation.name == "memref.copy" and not all(_is_dense(operand.type) for operand in operation.operands):
            operation = copy_as_generic(operation)
        if operation.name == "linalg.generic":
            _outline_one(operation, kernels)
    return kernels.exclusive


def _is_dense(type_: ir.Type) -> bool:
    return isinstance(type_, ir.MemRefType) and not isinstance(type_.layout, ir.StridedLayoutAttr)


def copy_as_generic(copy: ir.Operation) -> ir.Operation:
    """A ``linalg.generic`` instead of a ``memref.copy``."""
    rank = ir.MemRefType(copy.operands[0].type).rank
    identity = ir.AffineMap.get_identity(rank)
    with ir.InsertionPoint(copy), copy.location:
        generic = GenericOp(
            [],
            [copy.operands[0]],
            [copy.operands[1]],
            map_attributes([identity] * 2),
            iterator_types([False] * rank),
        )
        element = ir.MemRefType(copy.operands[0].type).element_type
        block = generic.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            YieldOp([block.arguments[0]])
    copy.erase()
    operation: ir.Operation = generic.operation
    return operation


def relax_sums(generic: ir.Operation) -> None:
    """Let sums be taken in any order and with fused multiply-adds, as every BLAS does, and let extremes be either zero
    where both occur; nothing else.

    An extreme has its new term first: LLVM asks of the first whether it is NaN, and the next turn would wait for that.
    """
    if not any(iterators(generic)):
        return
    running = list(generic.regions[0].blocks[0].arguments)
    for operation in accumulations(generic):
        if operation.name in ("arith.maximumf", "arith.minimumf"):
            operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<nsz>")
            first, second = operation.operands
            if first in running[-len(accumulations(generic)) :]:
                operation.operands[0], operation.operands[1] = second, first
        if operation.name != "arith.addf":
            continue
        operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc,contract>")
        for operand in operation.operands:
            product = made_by(operand, "arith.mulf")
            if product is not None:
                product.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<contract>")


@dataclass
class _Argument:
    """A value that a kernel takes: its type there, its pieces at the call, and the types of these."""

    value: ir.Value
    type: ir.Type
    pieces: list[ir.Value]

    def received(self, given: list[ir.Value]) -> ir.Value:
        """The value inside the kernel, of the block arguments that stand for the pieces."""
        return assemble(ir.MemRefType(self.type), given) if is_memref(self.type) else given[0]


def _outline_one(generic: ir.Operation, kernels: Outlined) -> None:
    loops = pointwise_loops(generic)
    if loops is None:
        interchange(generic, best_order(generic))
        relax_sums(generic)
    like = likeness(generic)
    with ir.InsertionPoint(generic), generic.location:
        operands = _pointwise_operands(generic, loops) if loops is not None else _operands(generic)
        arguments = operands + [_plain(value) for value in like.captured if not _is_copied(value)]
    maps = None if loops is None else tuple(indexing_map(strides) for strides in loops.strides)
    _move(_Moved(generic, like, arguments, len(operands), maps), kernels)


def _writes_by_itself(operation: ir.Operation) -> bool:
    """Whether the body of a generic writes memory besides what it yields: then turns may meet."""
    return operation.name == "linalg.generic" and bool(named(operation, "memref.store", "memref.atomic_rmw", "llvm.store"))


def _outline_loop(loop: ir.Operation, kernels: Outlined) -> None:
    like = likeness(loop)
    with ir.InsertionPoint(loop), loop.location:
        arguments = [_plain(value) for value in like.values if not _is_copied(value)]
    _move(_Moved(loop, like, arguments), kernels)


@dataclass(frozen=True)
class _Moved:
    """What becomes a function: an operation, and the arguments that the function takes; of these the first are its
    ``operands``, along whose axes it goes by ``maps`` there, if not as before."""

    operation: ir.Operation
    like: Likeness
    arguments: list[_Argument]
    operands: int = 0
    maps: tuple[ir.AffineMap, ...] | None = None

    @property
    def copied(self) -> list[ir.Value]:
        """What the function makes itself."""
        return [value for value in (self.like.captured if self.operands else self.like.values) if _is_copied(value)]

    def key(self) -> object:
        """What makes it another function than others."""
        types = tuple(argument.type for argument in self.arguments)
        return self.like.said, types, self.maps, made_alike(self.like.values, _is_copied)


def _move(moved: _Moved, kernels: Outlined) -> None:
    """Replace the operation by a call of a function that holds it."""
    arguments = moved.arguments
    alone = _alone([argument.value for argument in arguments])
    starts = [sum(len(argument.pieces) for argument in arguments[:position]) for position in alone]
    name = kernels.name(moved.key(), starts, lambda: _function(moved, kernels.module))
    if pays(argument.value.type for argument in arguments):
        kernels.functions[name].attributes[FAR] = ir.UnitAttr.get()
    with ir.InsertionPoint(moved.operation), moved.operation.location:
        pieces = [piece for argument in arguments for piece in argument.pieces]
        func.CallOp([], ir.FlatSymbolRefAttr.get(name), pieces)
    moved.operation.erase()


def _function(moved: _Moved, module: ir.Module) -> ir.Operation:
    """The function that holds the operation."""
    arguments, operation = moved.arguments, moved.operation
    types = [piece.type for argument in arguments for piece in argument.pieces]
    with ir.Location.unknown():
        kernel = func.FuncOp("kernel", (types, []), visibility="private", ip=ir.InsertionPoint(module.body))
        block = kernel.add_entry_block()
        given = iter(block.arguments)
        with ir.InsertionPoint(block):
            inside = [argument.received([next(given) for _ in argument.pieces]) for argument in arguments]
            mapping = {a.value: value for a, value in list(zip(arguments, inside, strict=True))[moved.operands :]}
            for value in moved.copied:
                mapping[value] = value.owner.operation.clone().results[0]
            body = operation.clone().operation
            if MODEL in body.attributes:
                # Functions of different models may still be the same.
                del body.attributes[MODEL]
            for position in range(moved.operands):
                body.operands[position] = inside[position]
            if moved.maps is not None:
                body.attributes["indexing_maps"] = map_attributes(moved.maps)
                body.attributes["iterator_types"] = iterator_types([False] * moved.maps[0].n_dims)
            for each in (body, *nested(body)) if not moved.operands else nested(body):
                for position, operand in enumerate(each.operands):
                    if operand in mapping:
                        each.operands[position] = mapping[operand]
                if each.name == "memref.collapse_shape" and _begins_at_once(each.operands[0].type):
                    # So does the view, whose type still has the offset that the argument had outside.
                    each.results[0].set_type(without_offset(ir.MemRefType(each.results[0].type)))
            func.ReturnOp([])
    if _writes_by_itself(operation):
        # The turns may depend on each other (parallel_loops.py).
        kernel.attributes[SERIAL] = ir.UnitAttr.get()
    made: ir.Operation = kernel.operation
    return made


def _begins_at_once(type_: ir.Type) -> bool:
    """Whether a memref has no offset."""
    return bool(without_offset(ir.MemRefType(type_)) == type_)


def _plain(value: ir.Value) -> _Argument:
    if not is_memref(value.type):
        return _Argument(value, value.type, [value])
    type_ = without_offset(ir.MemRefType(value.type))
    return _Argument(value, type_, parts(value, type_))


def _operands(generic: ir.Operation) -> list[_Argument]:
    relaxed = relaxed_types(generic)
    found = []
    for position, value in enumerate(generic.operands):
        type_ = relaxed.get(position)
        found.append(_plain(value) if type_ is None else _Argument(value, type_, parts(value, type_)))
    return found


def _pointwise_operands(generic: ir.Operation, loops: Loops) -> list[_Argument]:
    emitted = functools.cache(Product.emitted)
    found = []
    for operand, value in enumerate(generic.operands):
        if not is_memref(value.type):
            found.append(_plain(value))
            continue
        source = ir.MemRefType(value.type)
        type_ = loops.kernel_type(operand, source.element_type)
        moving = loops.moving(operand)
        pieces = parts(value, without_offset(source))[:1]
        pieces += [emitted(loops.extents[loop]) for axis, loop in enumerate(moving) if type_.is_dynamic_dim(axis)]
        pieces += [emitted(loops.strides[operand][moving[axis]]) for axis in dynamic_strides(type_)]
        found.append(_Argument(value, type_, pieces))
    return found


def is_constant(value: ir.Value) -> bool:
    """Whether the value is a constant scalar, and not one that functions are given."""
    made = made_by(value, "arith.constant", "complex.constant")
    return made is not None and GIVEN not in made.attributes


def _is_copied(value: ir.Value) -> bool:
    """Whether a function has its own: a constant, or memory for the time of a call."""
    return is_constant(value) or made_by(value, "memref.alloca") is not None


def _alone(passed: list[ir.Value]) -> list[int]:
    """Positions of memrefs that share no memory with another one, as far as the program text proves it."""
    roots = [root_of(value) if is_memref(value.type) else None for value in passed]
    found = []
    for position, root in enumerate(roots):
        others = [other for place, other in enumerate(roots) if place != position and other is not None]
        if root is not None and all(distinct(root, other) for other in others):
            found.append(position)
    return found
