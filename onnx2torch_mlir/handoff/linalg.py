"""What the lowering makes, as a module to hand on: its weights put into it, named, or saved beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch_mlir import ir

from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.handoff.arguments import INPUT_ATTRIBUTE, WEIGHT_ATTRIBUTE, Weights, check_weights, name_arguments
from onnx2torch_mlir.handoff.context import parse
from onnx2torch_mlir.handoff.elements import elements
from onnx2torch_mlir.handoff.module import MlirModule


class _Weight(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def array(self) -> Any: ...
    @property
    def spec(self) -> TensorSpec: ...


class _Lowered(Protocol):
    """A module whose ``main`` takes inputs, then weights; see `onnx2torch_mlir.lowering.lowered`."""

    @property
    def bytecode(self) -> bytes: ...
    @property
    def inputs(self) -> Sequence[TensorSpec]: ...
    @property
    def weights(self) -> Sequence[_Weight]: ...


def to_linalg(lowered: _Lowered, *, weights: Weights = "inline") -> MlirModule:
    """``lowered`` (linalg on tensors) as a module with its weights as `to_torch` has them.

    Inline weights are ``arith.constant`` operations that point into the memory of the weights.
    """
    check_weights(weights)
    module = parse(lowered.bytecode)
    function = ir.SymbolTable(module.operation)["main"].operation
    names = [(INPUT_ATTRIBUTE, spec.name) for spec in lowered.inputs]
    tensors = {} if weights == "args" else {weight.name: _tensor(weight) for weight in lowered.weights}
    if weights == "inline":
        _inline(function, lowered, tensors)
    else:
        names += [(WEIGHT_ATTRIBUTE, weight.name) for weight in lowered.weights]
    name_arguments(function, names)
    if weights == "external":
        return MlirModule(module, dialect="linalg", weights=tensors)
    return MlirModule(module, dialect="linalg", referenced=list(tensors.values()))


def _inline(function: Any, lowered: _Lowered, tensors: Mapping[str, torch.Tensor]) -> None:
    entry = function.regions[0].blocks[0]
    first = len(lowered.inputs)
    with function.context, ir.Location.unknown():
        for weight, argument in zip(lowered.weights, list(entry.arguments)[first:], strict=True):
            value = elements(tensors[weight.name], weight.name, ir.RankedTensorType(argument.type).element_type)
            constant = ir.Operation.create(
                "arith.constant",
                [argument.type],
                attributes={"value": value},
                loc=ir.Location.name(weight.name),
                ip=ir.InsertionPoint.at_block_begin(entry),
            )
            argument.replace_all_uses_with(constant.result)
        for index in reversed(range(first, len(entry.arguments))):
            entry.erase_argument(index)
        before = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        after = ir.FunctionType.get(before.inputs[:first], before.results)
        function.attributes["function_type"] = ir.TypeAttr.get(after)


def _tensor(weight: _Weight) -> torch.Tensor:
    array = weight.array() if callable(weight.array) else weight.array
    if isinstance(array, np.ndarray):
        array = torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return array.view(weight.spec.dtype).reshape([int(size) for size in weight.spec.shape])
    tensor: torch.Tensor = array
    return tensor
