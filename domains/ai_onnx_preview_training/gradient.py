"""Gradient: the derivative of one value of the model's graph with respect to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.differentiation import gradients


class Enclosing(Protocol):
    """The graph that the node stands in."""

    def function(self, inputs: Sequence[str], output: str) -> Callable[[ProgramBuilder, Sequence[Value]], Value]:
        """The value named ``output`` as a function of those named ``inputs``."""


def gradient(
    g: ProgramBuilder, *inputs: Value, xs: Sequence[str], y: str, zs: Sequence[str] | None = None, enclosing: Enclosing
) -> list[Value]:
    """The gradient of ``y`` with respect to each of ``xs``, where ``xs`` and ``zs`` take the values of ``inputs``.

    Source: ONNX Gradient. A ``y`` of several elements counts as their sum.

    Raises:
        Refusal: O2M-C005 where names and inputs do not match, O2M-C003 where a piece cannot be differentiated.
    """
    names = [*xs, *(zs or ())]
    if len(names) != len(inputs):
        raise refuse("O2M-C005", f"{len(inputs)} inputs are given for {len(names)} names", case="xs")
    for name, value in zip(xs, inputs, strict=False):
        if not value.dtype.is_floating_point:
            raise refuse("O2M-C005", f"{name} is no float and has no gradient", case="xs")
    return gradients(g, enclosing.function(names, y), inputs[: len(xs)], inputs[len(xs) :])
