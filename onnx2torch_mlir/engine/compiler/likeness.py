"""What an operation says whatever values it is given: of those that are alike, layers of a network say, only one is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch_mlir import ir

MODEL = "o2m.model"
"""Of a loop without nests inside, which are what passes write anew: it does what others with the same attribute do, each with
values of its own."""


class Likeness(NamedTuple):
    """Of two operations with the same ``key`` one is the other with its own ``values`` in place of the other's.

    Those that have the same ``said`` are so but for the types of the values, the shapes of arrays say.
    """

    said: object
    values: list[ir.Value]
    """What the operation and those inside of it use and none of them makes, in the order of the first use."""
    captured: list[ir.Value]
    """Those that operations inside use, in the order of the first use there."""

    @property
    def key(self) -> object:
        """What it says, and the types of its values."""
        return self.said, tuple(value.type for value in self.values)


def likeness(operation: ir.Operation) -> Likeness:
    """The likeness of ``operation``, whose values count by their types and by where the same ones are used."""
    used = _used(operation)
    results = tuple(result.type for result in operation.results)
    is_known = MODEL in operation.attributes and not used.has_nests
    said = operation.attributes[MODEL] if is_known else _text(operation)
    return Likeness((said, tuple(used.places), results), list(used.numbers), list(used.captured))


def uses(operation: ir.Operation) -> list[ir.Value]:
    """Values that the operation and those inside of it use and that none of them makes, in the order of the first use."""
    return list(_used(operation).numbers)


def captured(operation: ir.Operation) -> list[ir.Value]:
    """Values that operations inside of ``operation`` use and that none of them makes, in the order of the first use."""
    return list(_used(operation).captured)


def made_alike(values: Sequence[ir.Value], is_own: Callable[[ir.Value], bool]) -> tuple[object, ...]:
    """For each of ``values`` what the operation says that makes it, from nothing, if it ``is_own``: a constant's number."""
    return tuple(_made(value) if is_own(value) else None for value in values)


def _made(value: ir.Value) -> object:
    operation = value.owner.operation
    return operation.name, tuple((name, operation.attributes[name]) for name in operation.attributes), value.type


def _text(operation: ir.Operation) -> str:
    """The operation as it is alone, where all values that it is given have the same name, without their types.

    A text of an operation inside of a function would take the numbers of that function's values, and long to count them.
    """
    with ir.Location.unknown(operation.context):
        module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        alone = operation.clone()
    text = alone.get_asm(use_local_scope=True, assume_verified=True, print_generic_op_form=True)
    # Last come the types of operands and results.
    return text[: text.rindex(" : (")]


@dataclass
class _Used:
    """The values from outside, numbered; those of them that are used inside; the number for each use, in order; and whether
    there are nests inside."""

    numbers: dict[ir.Value, int] = field(default_factory=dict)
    captured: dict[ir.Value, None] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    has_nests: bool = False


def _used(operation: ir.Operation) -> _Used:
    used = _Used()
    numbers, captured, places = used.numbers, used.captured, used.places
    inside: set[ir.Value] = set()

    def see(each: ir.Operation) -> ir.WalkResult:
        outermost = not inside and each == operation
        used.has_nests |= not outermost and each.name == "linalg.generic"
        for value in each.operands:
            if value not in inside:
                places.append(numbers.setdefault(value, len(numbers)))
                if not outermost:
                    captured[value] = None
        inside.update(each.results)
        for region in each.regions:
            for block in region.blocks:
                inside.update(block.arguments)
        return ir.WalkResult.ADVANCE

    operation.walk(see, ir.WalkOrder.PRE_ORDER)
    return used
