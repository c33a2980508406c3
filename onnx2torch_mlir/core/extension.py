"""Primitives that plug-ins add to the closed list: custom PyTorch operators with a shape rule of their own.

A plug-in defines the operator with ``torch.library`` (its eager implementation), gives it a shape rule over symbolic sizes
here, and names the module that holds its lowering rule, which may import MLIR and is loaded only when something is lowered::

    @torch.library.custom_op("com_example::stretch", mutates_args=())
    def stretch(x: torch.Tensor, times: int) -> torch.Tensor:
        return x.repeat_interleave(times)

    @primitive("com_example.stretch.default", lowering="onnx2torch_com_example.lowering")
    def stretched(g: ProgramBuilder, x: Value, times: Dim) -> TensorType:
        return TensorType(x.dtype, (to_dim(x.shape[0] * times),))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx2torch_mlir.core.nodes import overload
from onnx2torch_mlir.core.primitives import PRIMITIVES
from onnx2torch_mlir.core.shapes import rules
from onnx2torch_mlir.core.shapes.rules import Rule, TensorType

__all__ = ["ADDED", "Added", "TensorType", "primitive"]


@dataclass(frozen=True)
class Added:
    """A primitive of a plug-in: the module that registered it, and the one that lowers it ("" where none does)."""

    module: str
    lowering: str


ADDED: dict[str, Added] = {}
"""By the overload's name, as ``com_example.stretch.default``."""


def primitive(name: str, *, lowering: str = "") -> Callable[[Rule], Rule]:
    """Register the decorated shape rule, ``rule(g, *args, **kwargs) -> TensorType`` (or a tuple of them), for ``name``.

    ``name`` is an overload of an operator that ``torch.library`` knows; a module that is imported again replaces its own.

    Raises:
        ValueError: another module has registered the name, or it is one of the closed list.
        AttributeError: PyTorch has no such operator.
    """
    if name.count(".") != 2:
        raise ValueError(f"{name} is not written as namespace.operator.overload")
    overload(name)

    def register(function: Rule) -> Rule:
        known = ADDED.get(name)
        if name in PRIMITIVES or (known is not None and known.module != function.__module__):
            raise ValueError(f"{name} is a primitive already{f', of {known.module}' if known is not None else ''}")
        ADDED[name] = Added(function.__module__, lowering)
        rules.set_rule(name, function)
        return function

    return register
