"""The weights of a lowered program: its parameters, buffers and constant tensors, and results that are computed from these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.core.weights import weight_name
from onnx2torch_mlir.lowering.constant_results import ConstantResults
from onnx2torch_mlir.lowering.context import spec_of
from onnx2torch_mlir.lowering.lowered import Weight


def weights_of(exported: ExportedProgram, nodes: Sequence[Node], constant: ConstantResults) -> tuple[Weight, ...]:
    """Those of a program: of its placeholders ``nodes``, and what is computed from them alone."""
    targets = {getattr(spec.arg, "name", None): spec.target for spec in exported.graph_signature.input_specs}
    found, tensors = list[Weight](), dict[Node, torch.Tensor]()
    for node in nodes:
        target, name = targets[node.name], weight_name(node, targets[node.name])
        tensor = exported.state_dict[target] if target in exported.state_dict else exported.constants[target]
        tensors[node] = tensor
        found.append(Weight(name, tensor, named(node.meta["val"], name)))
    taken = {weight.name for weight in found}
    for node in constant.nodes:
        name = node.name
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(Weight(name, partial(constant.value, node, tensors), named(node.meta["val"], name)))
    return tuple(found)


def named(value: Any, name: str) -> TensorSpec:
    """The spec of a fake tensor under a name."""
    spec = spec_of(value)
    return TensorSpec(name, spec.dtype, spec.shape)
