"""Operands of contractions that are dequantized weights become weights of their own, computed when a program is loaded.

So the driver of contractions finds weights, as it does in a program of floats, and packs them once; those that end in a
dequantization stay codes of a few bits in memory (packed_codes.py). How they are computed is written down for derived.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.loop_order import accumulations, iterators
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, nested
from onnx2torch_mlir.engine.derived import OPERATIONS, TYPES, Step

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")
_CONVERSIONS = ("arith.sitofp", "arith.uitofp")
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def derive(module: ir.Module, inputs: int) -> list[tuple[list[int], list[Step]]]:
    """Give @main (on tensors) an argument for each dequantized weight that a contraction multiplies by.

    ``inputs`` of the arguments are inputs, the others are weights. Returns the shape and the steps of each new argument, in
    their order.
    """
    (main,) = functions(module)
    block = main.regions[0].blocks[0]
    arguments = list(block.arguments)
    weights = {value: number for number, value in enumerate(arguments[inputs:])}
    found: list[tuple[list[int], list[Step]]] = []
    known: dict[ir.Value, ir.Value] = {}
    for operation in list(nested(main)):
        if not _is_contraction(operation):
            continue
        for position in range(_input_count(operation)):
            value = operation.operands[position]
            if value not in known and _is_static(value.type) and str(ir.RankedTensorType(value.type).element_type) == "f32":
                trace = _Trace(weights)
                if trace.of(value) is not None and trace.converts:
                    found.append((list(ir.RankedTensorType(value.type).shape), trace.steps))
                    known[value] = block.add_argument(value.type, operation.location)
            if value in known:
                operation.operands[position] = known[value]
    if found:
        signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        types = [argument.type for argument in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, signature.results))
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
    steps: list[Step] = field(default_factory=list)
    known: dict[ir.Value, int] = field(default_factory=dict)
    converts: bool = False
    """Whether an integer becomes a float on the way."""

    def of(self, value: ir.Value) -> int | None:
        """The number of the step that makes ``value``; None if it depends on more than weights, or is not understood."""
        if value not in self.known:
            if not _is_static(value.type) or _element(value.type) not in TYPES:
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

    def _nest(self, generic: ir.Operation) -> Step | None:
        inputs = _input_count(generic)
        block = generic.regions[0].blocks[0]
        maps = [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(generic.attributes["indexing_maps"])]
        if list(block.arguments[inputs].uses):
            return None
        places = [_places(map_) for map_ in maps]
        order = places[-1]
        if None in places or order is None or sorted(order) != list(range(maps[0].n_dims)):
            return None
        operands = [self._operand(value) for value in list(generic.operands)[:inputs]]
        if None in operands:
            return None
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
                self.converts = True
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


def _element(type_: ir.Type) -> str:
    return str(ir.RankedTensorType(type_).element_type)


def _places(map_: ir.AffineMap) -> list[int] | None:
    """The loop of each axis, -1 where it stays at 0; None for other maps."""
    places = []
    for expression in map_.results:
        if isinstance(expression, ir.AffineDimExpr):
            places.append(expression.position)
        elif isinstance(expression, ir.AffineConstantExpr) and expression.value == 0:
            places.append(-1)
        else:
            return None
    moving = [place for place in places if place >= 0]
    return places if len(set(moving)) == len(moving) else None


def _detail(operation: ir.Operation) -> Any:
    """A constant's number; a comparison's kind."""
    if operation.name == "arith.cmpi":
        return _PREDICATES[ir.IntegerAttr(operation.attributes["predicate"]).value]
    if operation.name == "arith.constant":
        attribute = operation.attributes["value"]
        if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
            return attribute.value
    return None
