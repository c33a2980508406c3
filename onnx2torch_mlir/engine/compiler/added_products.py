"""Products of one operand with several weights that are added up become one product, with the sum of these weights.

So networks are written that are trained with branches side by side (MobileOne, RepVGG's 1 x 1 ones), and saved before these are
merged. Roundings differ from those of the program as they do with another order of the sum. The sum of the weights depends on
weights alone, and is made when the program is loaded (derivation.py).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.contraction_match import is_sum_of_products
from onnx2torch_mlir.engine.compiler.derivation import values_of_weights
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps, iterators
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, named


class _Leaf(NamedTuple):
    """What is added up: a value, and where it is read for each element of the sum."""

    value: ir.Value
    map: ir.AffineMap


class _Branch(NamedTuple):
    """A product among what is added up, of which one operand depends on weights alone."""

    leaf: _Leaf
    product: ir.Operation
    weight: int
    """Which operand that is."""

    def is_like(self, branch: _Branch) -> bool:
        """Whether the products have all but their weights in common."""
        place = self.weight
        mine, others = list(self.product.operands), list(branch.product.operands)
        weights = mine.pop(place), others.pop(place)
        alike = place == branch.weight and mine == others and weights[0].type == weights[1].type
        return alike and str(self.product.attributes) == str(branch.product.attributes)


def merge(module: ir.Module, inputs: int) -> None:
    """Merge products in @main (on tensors), of whose arguments the first ``inputs`` are no weights."""
    (main,) = functions(module)
    constant = values_of_weights(main, inputs)
    roots = [nest for nest in named(main, "linalg.generic") if _is_addition(nest) and not _is_inside(nest)]
    for root in roots:
        nests: list[ir.Operation] = []
        leaves = _leaves(root, nests)
        groups: list[list[_Branch]] = []
        for branch in (found for leaf in leaves if (found := _branch(leaf, root, constant)) is not None):
            group = next((group for group in groups if group[0].is_like(branch)), None)
            if group is None:
                groups.append(group := [])
            group.append(branch)
        merged = [group for group in groups if len(group) > 1]
        if merged:
            _rewrite(root, nests, leaves, merged)


def _is_addition(nest: ir.Operation) -> bool:
    """Whether each element of a float32 result is the sum of one of each of two operands."""
    if len(nest.operands) != 3 or len(nest.results) != 1 or any(iterators(nest)):
        return False
    is_float = isinstance(ir.RankedTensorType(nest.results[0].type).element_type, ir.F32Type)
    if not is_float or not _is_identity(indexing_maps(nest)[-1]):
        return False
    block = nest.regions[0].blocks[0]
    operations = [operation.operation for operation in block.operations]
    if [operation.name for operation in operations] != ["arith.addf", "linalg.yield"]:
        return False
    total, end = operations
    return {*total.operands} == {*list(block.arguments)[:2]} and [*end.operands] == [total.results[0]]


def _is_identity(map_: ir.AffineMap) -> bool:
    return bool(map_ == ir.AffineMap.get_identity(map_.n_dims))


def _is_inside(nest: ir.Operation) -> bool:
    """Whether another addition alone takes the sum, each element at its place."""
    uses = list(nest.results[0].uses)
    if len(uses) != 1:
        return False
    user = uses[0].owner.operation
    if user.name != "linalg.generic" or user.block != nest.block or not _is_addition(user):
        return False
    return uses[0].operand_number < 2 and _is_identity(indexing_maps(user)[uses[0].operand_number])


def _leaves(nest: ir.Operation, nests: list[ir.Operation]) -> list[_Leaf]:
    """What the additions around ``nest`` add up; they become ``nests``, each before those inside of it."""
    nests.append(nest)
    found: list[_Leaf] = []
    for value, map_ in zip(list(nest.operands)[:2], indexing_maps(nest), strict=False):
        made = made_by(value, "linalg.generic")
        if made is not None and _is_addition(made) and _is_inside(made):
            found += _leaves(made, nests)
        else:
            found.append(_Leaf(value, map_))
    return found


def _branch(leaf: _Leaf, root: ir.Operation, constant: Collection[ir.Value]) -> _Branch | None:
    """The product that is added up, nobody else uses, and begins with zeros."""
    product = made_by(leaf.value, "linalg.generic")
    if product is None or product.block != root.block or leaf.value.type != root.results[0].type:
        return None
    if not _is_identity(leaf.map) or len(list(leaf.value.uses)) != 1:
        return None
    if len(product.operands) != 3 or not any(iterators(product)) or not is_sum_of_products(product):
        return None
    fill = made_by(product.operands[2], "linalg.fill")
    if fill is None or constant_of(fill.operands[0]) != 0:
        return None
    weights = [position for position in range(2) if product.operands[position] in constant]
    if len(weights) != 1:
        return None
    type_ = ir.RankedTensorType(product.operands[weights[0]].type)
    is_plain = type_.has_static_shape and isinstance(type_.element_type, ir.F32Type)
    return _Branch(leaf, product, weights[0]) if is_plain else None


def _rewrite(root: ir.Operation, nests: list[ir.Operation], leaves: list[_Leaf], groups: list[list[_Branch]]) -> None:
    """The last product of each of the ``groups`` gets the sum of the weights, and the others are left out."""
    left_out: list[_Branch] = []
    for group in groups:
        last = group[0]
        for branch in group[1:]:
            last = branch if last.product.is_before_in_block(branch.product) else last
        others = [branch for branch in group if branch is not last]
        with ir.InsertionPoint(last.product), last.product.location:
            total = last.product.operands[last.weight]
            same = ir.AffineMap.get_identity(ir.RankedTensorType(total.type).rank)
            out = ir.Operation.create("tensor.empty", [total.type]).results[0]
            for branch in others:
                total = _sum(total, _Leaf(branch.product.operands[branch.weight], same), out)
        last.product.operands[last.weight] = total
        left_out += others
    gone = {branch.leaf.value for branch in left_out}
    begin = next(branch.leaf for branch in groups[0] if branch.leaf.value not in gone)
    with ir.InsertionPoint(root), root.location:
        total = begin.value
        for leaf in leaves:
            if leaf.value != begin.value and leaf.value not in gone:
                total = _sum(total, leaf, root.operands[2])
    root.results[0].replace_all_uses_with(total)
    for nest in nests:
        nest.erase()
    for branch in left_out:
        branch.product.erase()


def _sum(value: ir.Value, other: _Leaf, out: ir.Value) -> ir.Value:
    """The sum of a tensor and what is read for each of its elements, at the insertion point; it goes to ``out``."""
    rank = ir.RankedTensorType(value.type).rank
    identity = ir.AffineMap.get_identity(rank)
    maps = map_attributes([identity, other.map, identity])
    made = GenericOp([out.type], [value, other.value], [out], maps, iterator_types([False] * rank))
    element = ir.F32Type.get()
    block = made.regions[0].blocks.append(element, element, element)
    with ir.InsertionPoint(block):
        YieldOp([arith.AddFOp(block.arguments[0], block.arguments[1]).result])
    result: ir.Value = made.results[0]
    return result
