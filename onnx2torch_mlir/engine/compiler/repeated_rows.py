"""Groups of nests that are alike, as those of a network's layers: the loop that was written for the first serves all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.extents import Length
from onnx2torch_mlir.engine.compiler.kernels import is_constant
from onnx2torch_mlir.engine.compiler.likeness import likeness, made_alike, uses
from onnx2torch_mlir.engine.compiler.nests import Nest
from onnx2torch_mlir.engine.compiler.walks import copied, made_by

_MADE_FROM_NOTHING = ("arith.constant", "complex.constant", "memref.alloca")


@dataclass(frozen=True)
class Alike:
    """What groups with the same ``key`` do alike, each with its own ``values``."""

    key: object
    values: list[ir.Value]


def alike(rows: Sequence[Length], nests: Sequence[Nest], private: Collection[ir.Value]) -> Alike | None:
    """What the ``nests`` over the same ``rows`` do, of whose buffers some are ``private``; None where a length is open."""
    if not all(isinstance(length, int) for lengths in (rows, *(nest.lengths for nest in nests)) for length in lengths):
        return None
    values: dict[ir.Value, int] = {}
    key: list[object] = [tuple(rows)]
    for nest in nests:
        like = likeness(nest.operation)
        buffers = tuple(
            (values.setdefault(place.root, len(values)), place.root.type, place.root in private, str(place.indices))
            for place in nest.buffers
            if place.root is not None
        )
        places = tuple(values.setdefault(value, len(values)) for value in like.values)
        key.append((like.key, places, buffers, tuple(made_alike(v) if is_constant(v) else None for v in like.values)))
    return Alike(tuple(key), list(values))


@dataclass(frozen=True)
class _Model:
    loop: ir.Operation
    places: dict[ir.Value, int]
    """The values that it uses of the group for which it was written."""
    made: list[ir.Value]
    """What else it uses: each copy has its own."""


@dataclass
class RepeatedRows:
    """The loops over rows of a function, by what they do."""

    _models: dict[object, _Model] = field(default_factory=dict)

    def copy(self, group: Alike | None) -> ir.Operation | None:
        """The loop for a group, at the insertion point, if there is one already for a group that is alike."""
        model = self._models.get(group.key) if group is not None else None
        if group is None or model is None:
            return None
        mapping = {value: group.values[place] for value, place in model.places.items()}
        for value in model.made:
            copied(value.owner.operation, mapping)
        loop = copied(model.loop, mapping)
        loop.location = ir.Location.current
        return loop

    def keep(self, group: Alike | None, loop: ir.Operation) -> None:
        """Let the ``loop`` that was written for a group serve those that are alike, if it uses nothing that only it has."""
        if group is None:
            return
        numbers = {value: place for place, value in enumerate(group.values)}
        used = uses(loop)
        made = [value for value in used if value not in numbers]
        if all(made_by(value, *_MADE_FROM_NOTHING) is not None for value in made):
            places = {value: numbers[value] for value in used if value in numbers}
            self._models[group.key] = _Model(loop, places, made)
