"""What a converter's signature says about the attributes it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import pytest

from onnx2torch_mlir.conversion.handlers import inspect_handler
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.families.convolution import integer
from onnx2torch_mlir.families.pooling import average, lp


class _Needed(TypedDict):
    size: int


class _Attributes(_Needed, total=False):
    mode: str


def _converter(g: ProgramBuilder, x: Value, y: Value | None = None, *, axis: int = 0, **rest: Unpack[_Attributes]) -> Value:
    return x


def _anything(g: ProgramBuilder, x: Value, **rest: Any) -> Value:
    return x


def test_keywords_of_a_typed_dict_are_attributes() -> None:
    handler = inspect_handler(_converter)
    assert handler.keywords == {"axis", "size", "mode"}
    assert handler.required == {"size"}
    assert [(item.name, item.optional) for item in handler.inputs] == [("x", False), ("y", True)]


@pytest.mark.parametrize(
    ("function", "own", "required"),
    [
        (integer, {"group", "kernel_shape", "pads"}, set()),
        (average, {"count_include_pad", "ceil_mode", "pads", "kernel_shape"}, {"kernel_shape"}),
        (lp, {"p", "ceil_mode", "pads", "kernel_shape"}, set()),
    ],
)
def test_families_take_what_every_window_has(function: Callable[..., Any], own: set[str], required: set[str]) -> None:
    handler = inspect_handler(function)
    assert handler.keywords == own | {"auto_pad", "dilations", "strides"}
    assert handler.required == required


def _lists(g: ProgramBuilder, x: Value, *, keys: list[int], labels: Sequence[str] = (), ids: Sequence[int] = ()) -> Value:
    return x


def test_what_need_not_be_a_list() -> None:
    assert inspect_handler(_lists).sequences == {"labels", "ids"}


def test_keywords_without_names_are_refused() -> None:
    with pytest.raises(Refusal) as caught:
        inspect_handler(_anything)
    assert caught.value.findings[0].code == "O2M-S006"
