"""Operands of contractions that are computed from weights alone become weights of their own, made when a program is loaded.

Dequantized weights, those of narrow floats that sums of float32 take, and those that are laid out anew (a transposed
convolution's mirrored kernel). So the driver of contractions finds weights and packs them once; those that end in a
dequantization stay codes of a few bits in memory (packed_codes.py). How they are computed is written down for derived.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.borders import value_around
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, coefficient, indexing_maps, iterators, origin
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, nested
from onnx2torch_mlir.engine.derived import OPERATIONS, TYPES, Step
from onnx2torch_mlir.engine.layout import INTEGERS

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")
_CONVERSIONS = ("arith.sitofp", "arith.uitofp")
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_MOST_GROWTH = 4
"""Times the numbers of its weights that one has at most that is only laid out anew; more are repeated as the program runs."""


class Made(NamedTuple):
    """A weight that is computed from others: its shape, how (derived.py), and which codes it may stay: see `Weights.codes`."""

    shape: list[int]
    steps: list[Step]
    codes: str


def derive(module: ir.Module, inputs: int) -> list[Made]:
    """Give @main (on tensors) an argument for each operand of a contraction that only depends on weights.

    ``inputs`` of the arguments are inputs, the others are weights. What a contraction can read where it lies, a transposed
    weight for instance, stays. Returns the new arguments, in their order.
    """
    (main,) = functions(module)
    block = main.regions[0].blocks[0]
    arguments = list(block.arguments)
    weights = {value: number for number, value in enumerate(arguments[inputs:])}
    constant = _constant(main, weights)
    found: list[Made] = []
    known: dict[ir.Value, ir.Value] = {}
    for operation in nested(main):
        if not _is_contraction(operation):
            continue
        for position in range(_input_count(operation)):
            value = operation.operands[position]
            if value not in known and _is_static(value.type) and str(ir.RankedTensorType(value.type).element_type) == "f32":
                trace = _Trace(weights, constant)
                if trace.of(value) is not None and trace.pays(value):
                    found.append(Made(list(ir.RankedTensorType(value.type).shape), trace.steps, trace.codes))
                    known[value] = block.add_argument(value.type, operation.location)
            if value in known:
                operation.operands[position] = known[value]
    if found:
        signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        types = [argument.type for argument in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, signature.results))
    return found


def values_of_weights(main: ir.Operation, inputs: int) -> set[ir.Value]:
    """The values of a function that depend on nothing but its arguments behind the first ``inputs``."""
    return _constant(main, list(main.regions[0].blocks[0].arguments)[inputs:])


def _constant(main: ir.Operation, weights: Collection[ir.Value]) -> set[ir.Value]:
    """The values of a function that depend on weights alone, or on nothing."""
    found = set(weights)
    for operation in nested(main):
        if all(operand in found for operand in operation.operands):
            found.update(operation.results)
    return found


def _is_contraction(operation: ir.Operation) -> bool:
    """Whether products of two operands are summed up: a matrix product or a convolution."""
    if operation.name == "linalg.generic":
        sums = accumulations(operation) if any(iterators(operation)) else []
        return _input_count(operation) == 2 and len(sums) == 1 and sums[0].name == "arith.addf"
    return operation.name.startswith(("linalg.conv_", "linalg.depthwise_conv_")) or operation.name in (
        "linalg.matmul",
        "linalg.batch_matmul",
        "linalg.matvec",
        "linalg.vecmat",
        "linalg.dot",
    )


def _input_count(operation: ir.Operation) -> int:
    return int(next(iter(operation.attributes["operandSegmentSizes"])))


def _is_static(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


@dataclass
class _Trace:
    """The steps by which a value is computed from weights alone."""

    weights: dict[ir.Value, int]
    constant: Collection[ir.Value]
    """Values that it may be: to look for others' steps would take the time of all paths to them."""
    steps: list[Step] = field(default_factory=list)
    known: dict[ir.Value, int] = field(default_factory=dict)
    codes: str = ""
    """What becomes a float32 on the way: integers, or floats of a type."""
    computes: bool = False

    def pays(self, value: ir.Value) -> bool:
        """Whether ``value`` is worth a weight of its own: it is computed, or laid out as no contraction reads it in place."""
        if self.computes:
            return True
        kinds = {step[0] for step in self.steps}
        read = [weight for weight in self.weights if weight in self.known]
        small = _count(value) <= _MOST_GROWTH * max(map(_count, read), default=0)
        return small and (bool(kinds & {"flip", "pad"}) or kinds >= {"nest", "reshape"})

    def of(self, value: ir.Value) -> int | None:
        """The number of the step that makes ``value``; None if it depends on more than weights, or is not understood."""
        if value not in self.known:
            if value not in self.constant or not _is_static(value.type) or _element(value.type) not in TYPES:
                return None
            if value in self.weights:
                step: Step | None = ["weight", self.weights[value]]
            else:
                made = made_by(value)
                step = None if made is None else self._step(made)
            if step is None:
                return None
            self.steps.append(step)
            self.known[value] = len(self.steps) - 1
        return self.known[value]

    def _step(self, operation: ir.Operation) -> Step | None:
        if len(operation.results) != 1:
            return None
        type_ = ir.RankedTensorType(operation.results[0].type)
        if operation.name in _RESHAPES:
            source = self.of(operation.operands[0])
            return None if source is None else ["reshape", source, list(type_.shape)]
        if operation.name == "tensor.extract_slice":
            return self._slice(operation, list(type_.shape))
        if operation.name == "tensor.pad":
            return self._pad(operation)
        if operation.name == "linalg.fill":
            value = constant_of(operation.operands[0])
            return None if value is None else ["full", value, _element(type_), list(type_.shape)]
        if operation.name == "linalg.generic" and not any(iterators(operation)):
            return self._nest(operation)
        return None

    def _slice(self, operation: ir.Operation, shape: list[int]) -> Step | None:
        places = [list(ir.DenseI64ArrayAttr(operation.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides")]
        if len(operation.operands) > 1:
            return None
        source = self.of(operation.operands[0])
        if source is None or places[1] == shape:
            return None if source is None else ["slice", source, *places]
        self.steps.append(["slice", source, *places])
        return ["reshape", len(self.steps) - 1, shape]

    def _pad(self, operation: ir.Operation) -> Step | None:
        around = value_around(operation)
        number = None if around is None else constant_of(around)
        if number is None or len(operation.operands) > 1:
            return None
        low, high = (list(ir.DenseI64ArrayAttr(operation.attributes[f"static_{side}"])) for side in ("low", "high"))
        source = self.of(operation.operands[0])
        return None if source is None else ["pad", source, number, low, high]

    def _nest(self, generic: ir.Operation) -> Step | None:
        inputs = _input_count(generic)
        block = generic.regions[0].blocks[0]
        maps = indexing_maps(generic)
        if list(block.arguments[inputs].uses):
            return None
        read = [_read(value, map_) for value, map_ in zip(generic.operands, maps, strict=True)]
        order, mirrored = read[-1] or ([], [])
        if None in read or mirrored or sorted(order) != list(range(maps[0].n_dims)):
            return None
        places = [each[0] for each in read if each is not None]
        operands = [self._operand(value) for value in list(generic.operands)[:inputs]]
        if None in operands:
            return None
        for position, each in enumerate(read[:inputs]):
            if each is not None and each[1]:
                self.steps.append(["flip", operands[position], each[1]])
                operands[position] = len(self.steps) - 1
        sizes = ir.RankedTensorType(generic.results[0].type).shape
        shape = [sizes[order.index(dim)] for dim in range(maps[0].n_dims)]
        body = self._body(block, inputs)
        return None if body is None else ["nest", operands, places[:inputs], shape, *body, order]

    def _operand(self, value: ir.Value) -> int | None:
        """The step of a nest's operand, which may be a constant number."""
        if isinstance(value.type, ir.RankedTensorType):
            return self.of(value)
        number = constant_of(value)
        if number is None or str(value.type) not in TYPES:
            return None
        self.steps.append(["full", number, str(value.type), []])
        return len(self.steps) - 1

    def _body(self, block: ir.Block, inputs: int) -> tuple[list[Any], int] | None:
        """The operations of a nest's body, and the number of what it yields."""
        numbers: dict[ir.Value, int] = {argument: i for i, argument in enumerate(list(block.arguments)[:inputs])}
        body: list[Any] = []
        *operations, terminator = [operation.operation for operation in block.operations]
        for operation in operations:
            result = operation.results[0] if len(operation.results) == 1 else None
            if operation.name not in OPERATIONS or result is None or str(result.type) not in TYPES:
                return None
            detail = _detail(operation)
            if detail is None and operation.name in ("arith.constant", "arith.cmpi"):
                return None
            if not self._known(numbers, body, operation.operands):
                return None
            if operation.name.endswith("f") and operation.name != "arith.extf" and str(result.type) != "f32":
                return None
            if operation.name in _CONVERSIONS:
                if str(result.type) != "f32":
                    return None
                self.codes = INTEGERS
            elif operation.name == "arith.extf" and str(result.type) == "f32" and not self.codes:
                self.codes = str(operation.operands[0].type)
            self.computes = True
            body.append([operation.name, [numbers[v] for v in operation.operands], str(result.type), detail])
            numbers[result] = inputs + len(body) - 1
        if not self._known(numbers, body, terminator.operands, inputs):
            return None
        return body, numbers[terminator.operands[0]]

    @staticmethod
    def _known(numbers: dict[ir.Value, int], body: list[Any], values: Any, inputs: int = 0) -> bool:
        """Whether the operands are numbered; constants from outside of the body are taken into it."""
        inputs = inputs or len(numbers) - len(body)
        for value in values:
            if value in numbers:
                continue
            number = constant_of(value)
            if number is None or str(value.type) not in TYPES:
                return False
            body.append(["arith.constant", [], str(value.type), number])
            numbers[value] = inputs + len(body) - 1
        return True


def _count(value: ir.Value) -> int:
    return math.prod(ir.RankedTensorType(value.type).shape)


def _element(type_: ir.Type) -> str:
    return str(ir.RankedTensorType(type_).element_type)


def _read(value: ir.Value, map_: ir.AffineMap) -> tuple[list[int], list[int]] | None:
    """The loop of each axis of an operand, -1 where it stays at 0, and the axes read backwards; None for other maps."""
    sizes = list(ir.RankedTensorType(value.type).shape) if isinstance(value.type, ir.RankedTensorType) else []
    places: list[int] = []
    mirrored: list[int] = []
    for axis, expression in enumerate(map_.results):
        factors = {dim: coefficient(expression, dim) for dim in range(map_.n_dims)}
        moving = {dim: factor for dim, factor in factors.items() if factor != 0}
        dim, factor = next(iter(moving.items()), (-1, 0))
        if len(moving) > 1 or (factor, origin(expression)) not in ((0, 0), (1, 0), (-1, sizes[axis] - 1)):
            return None
        places.append(dim)
        mirrored += [axis] if factor == -1 else []
    moved = [place for place in places if place >= 0]
    return (places, mirrored) if len(set(moved)) == len(moved) else None


def _detail(operation: ir.Operation) -> Any:
    """A constant's number; a comparison's kind."""
    if operation.name == "arith.cmpi":
        return _PREDICATES[ir.IntegerAttr(operation.attributes["predicate"]).value]
    if operation.name == "arith.constant":
        attribute = operation.attributes["value"]
        if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
            return attribute.value
    return None
