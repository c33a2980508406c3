"""Groups of nests that are alike, as those of a network's layers: what was written for the first of them serves all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler.extents import Length
from onnx2torch_mlir.engine.compiler.kernels import is_constant
from onnx2torch_mlir.engine.compiler.likeness import MODEL, likeness, made_alike, uses
from onnx2torch_mlir.engine.compiler.nests import Nest
from onnx2torch_mlir.engine.compiler.walks import copied


@dataclass(frozen=True)
class Alike:
    """What groups with the same ``key`` do alike, each with its own ``values``."""

    key: object
    values: list[ir.Value]


def alike(
    rows: Sequence[Length], nests: Sequence[Nest], private: Collection[ir.Value], also: Sequence[ir.Value] = ()
) -> Alike | None:
    """What the ``nests`` over the same ``rows`` do, of whose buffers some are ``private``; ``also``: values that their code may
    use besides. None where a length is open."""
    if not all(isinstance(length, int) for lengths in (rows, *(nest.lengths for nest in nests)) for length in lengths):
        return None
    values = {value: number for number, value in enumerate(also)}
    key: list[object] = [tuple(rows)]
    for nest in nests:
        like = likeness(nest.operation)
        buffers = tuple(
            (values.setdefault(place.root, len(values)), place.root.type, place.root in private, str(place.indices))
            for place in nest.buffers
            if place.root is not None
        )
        places = tuple(values.setdefault(value, len(values)) for value in like.values)
        key.append((like.key, places, buffers, made_alike(like.values, is_constant)))
    return Alike(tuple(key), list(values))


@dataclass(frozen=True)
class _Model:
    """A function with the operations that were written for a group, of whose values its arguments are these; and which of the
    operations is the loop."""

    function: ir.Operation
    values: list[int]
    loop: int


class RepeatedCode:
    """What was written for groups, by what they do."""

    def __init__(self, kind: str) -> None:
        """``kind``: of the groups, which no other instance for the same module has."""
        self._kind = kind
        self._models: dict[object, _Model] = {}
        with ir.Location.unknown():
            self._module = ir.Module.create()

    def written(self, group: Alike | None, anchor: ir.Operation, write: Callable[[], ir.Operation]) -> ir.Operation:
        """The loop of what ``write`` puts before ``anchor``, where the insertion point is; or of a copy, where a group that is
        alike has been written before."""
        model = self._models.get(group.key) if group is not None else None
        if group is not None and model is not None:
            return self._copy(model, group, anchor)
        with ir.Location.unknown():
            apart = func.FuncOp("apart", ([], []), visibility="private", ip=ir.InsertionPoint(self._module.body))
        # In a block of its own what was written is all there is: to look for it among all operations of @main takes long.
        with ir.InsertionPoint(apart.add_entry_block()):
            loop = write()
        operations = [view.operation for view in apart.entry_block.operations]
        for operation in operations:
            operation.move_before(anchor)
        apart.operation.erase()
        if group is not None:
            self._keep(group, operations, operations.index(loop))
        return loop

    def _keep(self, group: Alike, operations: list[ir.Operation], loop: int) -> None:
        numbers = {value: number for number, value in enumerate(group.values)}
        made = {value for operation in operations for value in operation.results}
        used = [value for operation in operations for value in uses(operation) if value not in made]
        if all(value in numbers for value in used):
            operations[loop].attributes[MODEL] = ir.StringAttr.get(f"{self._kind} {len(self._models)}")
            values = list(dict.fromkeys(used))
            with ir.Location.unknown():
                signature: tuple[list[ir.Type], list[ir.Type]] = ([value.type for value in values], [])
                function = func.FuncOp("model", signature, visibility="private", ip=ir.InsertionPoint(self._module.body))
            block = function.add_entry_block()
            mapping = dict(zip(values, block.arguments, strict=True))
            with ir.InsertionPoint(block):
                for operation in operations:
                    copied(operation, mapping)
            self._models[group.key] = _Model(function.operation, [numbers[value] for value in values], loop)

    def _copy(self, model: _Model, group: Alike, anchor: ir.Operation) -> ir.Operation:
        with ir.InsertionPoint(self._module.body):
            function = model.function.clone().operation
        block = function.regions[0].blocks[0]
        for argument, number in zip(block.arguments, model.values, strict=True):
            argument.replace_all_uses_with(group.values[number])
        operations = [view.operation for view in block.operations]
        for operation in operations:
            operation.location = ir.Location.current
            operation.move_before(anchor)
        function.erase()
        return operations[model.loop]
