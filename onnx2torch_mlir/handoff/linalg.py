"""What the lowering makes, as a module to hand on: its weights put into it, named, or saved beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch_mlir import ir

from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.handoff.arguments import INPUT_ATTRIBUTE, WEIGHT_ATTRIBUTE, Weights, check_weights
from onnx2torch_mlir.handoff.context import parse
from onnx2torch_mlir.handoff.elements import elements
from onnx2torch_mlir.handoff.function_arguments import name_arguments, replace_arguments
from onnx2torch_mlir.handoff.iree_parameters import make_parameters
from onnx2torch_mlir.handoff.module import MlirModule
from onnx2torch_mlir.hints import HINTS


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
    function.walk(_without_hints)
    names = [(INPUT_ATTRIBUTE, spec.name) for spec in lowered.inputs]
    name_arguments(function, names + [(WEIGHT_ATTRIBUTE, weight.name) for weight in lowered.weights])
    if weights == "args":
        return MlirModule(module, dialect="linalg")
    tensors = {weight.name: _tensor(weight) for weight in lowered.weights}
    numbers = dict(enumerate(tensors, len(names)))
    if weights == "inline":
        makers = {number: partial(_constant, tensors[name], name) for number, name in numbers.items()}
        with function.context, ir.Location.unknown():
            replace_arguments(function, makers)
        return MlirModule(module, dialect="linalg", referenced=list(tensors.values()))
    if weights == "irpa":
        make_parameters(module, function, numbers)
    return MlirModule(module, dialect="linalg", weights=tensors, stored=weights)


def _without_hints(operation: ir.Operation) -> ir.WalkResult:
    for hint in HINTS:
        if hint in operation.attributes:
            del operation.attributes[hint]
    return ir.WalkResult.ADVANCE


def _constant(tensor: torch.Tensor, name: str, type_: Any) -> Any:
    value = elements(tensor, name, ir.RankedTensorType(type_).element_type)
    return ir.Operation.create("arith.constant", [type_], attributes={"value": value}, loc=ir.Location.name(name)).result


def _tensor(weight: _Weight) -> torch.Tensor:
    array = weight.array() if callable(weight.array) else weight.array
    if isinstance(array, np.ndarray):
        array = torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return array.view(weight.spec.dtype).reshape([int(size) for size in weight.spec.shape])
    tensor: torch.Tensor = array
    return tensor
