"""The weights of a finished program: their ONNX names, and each memory once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import Constant

_NAME = "weight_name"


def weight_name(node: torch.fx.Node, target: object) -> str:
    """The name of the weight that a placeholder stands for: that of its ONNX initializer, else its key in the program's state.

    Names are unique in a program, and the same whenever the same model is converted.
    """
    return str(node.meta.get(_NAME) or target or node.name)


def merge_and_name(constants: Sequence[Constant]) -> dict[torch.fx.Node, torch.Tensor]:
    """Load ``constants``, let those of the same memory, type and shape be one node, and name the nodes that are left.

    Initializers that were tied before the export, or that name the same range of an external file, come so. What is mapped
    is not read: only addresses are compared.
    """
    found: dict[object, torch.fx.Node] = {}
    tensors: dict[torch.fx.Node, torch.Tensor] = {}
    names: dict[str, torch.fx.Node] = {}
    for constant in constants:
        tensor = constant.load()
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()) if tensor.numel() else constant.node
        first = found.setdefault(key, constant.node)
        if first is not constant.node:
            constant.node.replace_all_uses_with(first)
            constant.node.graph.erase_node(constant.node)
            continue
        tensors[first] = tensor
        first.meta[_NAME] = _unique(constant.name, names)
        names[first.meta[_NAME]] = first
    return tensors


def _unique(name: str, taken: Mapping[str, object]) -> str:
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}.{count}", count + 1
    return candidate
