"""The operators on optional values."""

from __future__ import annotations

from typing import Any

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import Form, OptionalForm, OptionalValue, SequenceValue, describe, element_of, form_of
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def optional(
    g: ProgramBuilder, input: Value | SequenceValue | None = None, *, type: Form | None = None
) -> OptionalValue:
    """``input`` as an optional, or without it an absent value of ``type``.

    Source: https://onnx.ai/onnx/operators/onnx__Optional.html
    """
    form = type if input is None else form_of(input)
    if form is None or isinstance(form, OptionalForm):
        raise refuse("O2M-C005", f"an optional is made from {describe(form)}", case="type")
    return OptionalValue(g.scalar(input is not None, torch.bool), input, form)


def optional_has_element(g: ProgramBuilder, input: Any = None) -> Value:
    """Whether there is a value, 0-d bool; what is no optional is there.

    Source: https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html
    """
    return input.has if isinstance(input, OptionalValue) else g.scalar(input is not None, torch.bool)


def optional_get_element(g: ProgramBuilder, input: Any) -> Value | SequenceValue:
    """The value, which must be there; what is no optional is given back.

    Source: https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html

    Raises:
        Refusal: O2M-C006 where it is known to be absent; asserted when the program runs if that is not known.
    """
    if not isinstance(input, OptionalValue):
        found: Value | SequenceValue = input
        return found
    return element_of(g, input)
