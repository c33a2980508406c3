"""Values in the order that an operation wants: as they lie, made anew, or moved."""

from __future__ import annotations

from collections.abc import Mapping

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import Groups, Order, ones_of, plain, same_memory
from onnx2torch_mlir.engine.compiler.linalg_ops import transpose
from onnx2torch_mlir.engine.compiler.reshapes import collapsed, expanded
from onnx2torch_mlir.engine.compiler.tensor_parts import Extent, dim_of, empty_of
from onnx2torch_mlir.engine.compiler.walks import made_by


class Placement:
    """The order in which each value lies, and its copies in other orders."""

    def __init__(self, orders: Mapping[ir.Value, Order]) -> None:
        """``orders`` of all values that do not lie as their dims are named; these have the type of their memory already."""
        self._orders = orders
        self._copies: dict[tuple[ir.Value, Order], ir.Value] = {}

    def is_reordered(self, value: ir.Value) -> bool:
        """Whether ``value`` does not lie as its dims are named."""
        return value in self._orders

    def ones(self, value: ir.Value) -> list[bool]:
        """For each dim of ``value``, as it is named, whether its size is the static 1."""
        lying = ones_of(value.type)
        return [lying[place] for place in inverse(self.order(value))]

    def order(self, value: ir.Value) -> Order:
        """The order in which ``value`` lies."""
        found = self._orders.get(value)
        return plain(ir.RankedTensorType(value.type).rank) if found is None else found

    def lying(self, value: ir.Value, order: Order) -> ir.Value:
        """``value`` with its dims in ``order``."""
        here = self.order(value)
        if here == order:
            return value
        found = self._copies.get((value, order))
        if found is None:
            place = (
                ir.InsertionPoint.at_block_begin(value.owner)
                if isinstance(value.owner, ir.Block)
                else ir.InsertionPoint.after(value.owner)
            )
            with place, value.location:
                found = self._made(value, [here.index(dim) for dim in order])
            self._copies[value, order] = found
        return found

    def close(self, value: ir.Value, order: Order) -> tuple[ir.Value, Order]:
        """``value`` with its dims in ``order``, or in one that is the same memory, and which."""
        here = self.order(value)
        return (value, here) if same_memory(self.ones(value), here, order) else (self.lying(value, order), order)

    def _made(self, value: ir.Value, permutation: list[int]) -> ir.Value:
        """``value`` with the dims of its memory permuted; what has no elements of its own is made anew."""
        maker = made_by(value)
        if maker is not None and maker.name == "tensor.empty":
            sizes = iter(maker.operands)
            type_ = ir.RankedTensorType(value.type)
            given: list[Extent] = [next(sizes) if type_.is_dynamic_dim(dim) else 1 for dim in range(type_.rank)]
            return empty_of(permuted_type(value.type, permutation), [given[dim] for dim in permutation])
        if maker is not None and maker.name == "linalg.fill":
            destination = self._made(maker.operands[1], permutation)
            copy = maker.clone().operation
            copy.operands[1] = destination
            copy.results[0].set_type(copy.operands[1].type)
            return copy.results[0]
        if same_memory(ones_of(value.type), plain(len(permutation)), tuple(permutation)):
            return _renamed(value, permutation)
        init = empty_of(permuted_type(value.type, permutation), [dim_of(value, dim) for dim in permutation])
        return transpose(value, init, permutation)


def permuted_type(type_: ir.Type, order: list[int] | Order) -> ir.RankedTensorType:
    """The tensor type with its sizes in ``order``."""
    ranked = ir.RankedTensorType(type_)
    return ir.RankedTensorType.get([ranked.shape[dim] for dim in order], ranked.element_type)


def inverse(order: Order) -> Order:
    """Where each dim lies."""
    return tuple(order.index(dim) for dim in range(len(order)))


def _renamed(value: ir.Value, permutation: list[int]) -> ir.Value:
    """``value`` under a type with its dims of size 1 elsewhere."""
    ones, target = ones_of(value.type), permuted_type(value.type, permutation)
    flat = collapsed(value, _groups(ones)) if any(ones) else value
    sizes = iter([dim_of(flat, place) for place in range(ir.RankedTensorType(flat.type).rank)])
    shape = [1 if one else next(sizes) for one in ones_of(target)]
    return expanded(flat, _groups(ones_of(target)), shape)


def _groups(ones: list[bool]) -> Groups:
    """Each dim that is not 1 with the ones behind it; what is before the first belongs to it."""
    groups: list[list[int]] = [[]]
    started = False
    for dim, one in enumerate(ones):
        if not one and started:
            groups.append([])
        started = started or not one
        groups[-1].append(dim)
    return groups
