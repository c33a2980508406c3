"""Sizes for the dims of a model's inputs, where nobody gave them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnx2torch_mlir.diagnostics import Finding, Refusal
from onnx2torch_mlir.model import Kind, ValueType

BATCH = 2
_NAMED = (7, 5, 3, 9, 11, 6, 13, 10)
"""Sizes of named dims in the order in which they are met: small, and different from each other and from the batch."""

_ANONYMOUS = (BATCH, 7, 5, 3)
_IMAGE = (BATCH, 3, 64, 64, 64)
"""Sizes by axis of dims without a name: of images (rank 4 and 5), large enough for a few strides; and of all others."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


def input_shapes(inputs: Sequence[ValueType], given: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The sizes of every input: ``given`` ones by dim name, declared numbers, and defaults for the rest.

    Those of a sequence or an optional are the sizes of what is in it.

    A dim whose name is an expression of other dims ("past_length + length") has that value.

    Raises:
        Refusal: O2M-U002 for a name in ``given`` that no input has.
    """
    inputs = [replace(inner, name=value.name) for value in inputs if (inner := tensor_of(value)) is not None]
    names = list(dict.fromkeys(dim for value in inputs for dim in value.shape or () if isinstance(dim, str)))
    unknown = [name for name in given if name not in names]
    if unknown:
        hint = f"there are: {', '.join(names)}" if names else "there is none"
        raise Refusal(Finding("O2M-U002", f"no input of the model has a dim named {n}", hint, n) for n in unknown)
    sizes = dict(given)
    plain = [name for name in names if not _variables(name)]
    for name in plain:
        if name not in sizes:
            first = any(value.shape and value.shape[0] == name for value in inputs)
            sizes[name] = BATCH if _is_batch(name, first) else _next(sizes)
    for name in names:
        if name not in sizes:
            value = _evaluate(name, sizes)
            sizes[name] = _next(sizes) if value is None else value
    return {
        value.name: tuple(_size(dim, axis, value, sizes) for axis, dim in enumerate(value.shape or ()))
        for value in inputs
    }


def tensor_of(value: ValueType) -> ValueType | None:
    """The type of the tensors in ``value``, a tensor or a sequence or optional of them; None where there is none."""
    while value.kind in (Kind.SEQUENCE, Kind.OPTIONAL):
        if value.element is None:
            return None
        value = value.element
    return value


def _is_batch(name: str, first: bool) -> bool:
    return first and (name.lower() in ("n", "b", "bs", "bsz", "s0") or "batch" in name.lower())


def _next(sizes: Mapping[str, int]) -> int:
    taken = set(sizes.values()) | {BATCH}
    return next((size for size in _NAMED if size not in taken), _NAMED[-1])


def _size(dim: int | str | None, axis: int, value: ValueType, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return sizes[dim]
    defaults = _IMAGE if len(value.shape or ()) in (4, 5) else _ANONYMOUS
    return defaults[min(axis, len(defaults) - 1)]


def _variables(name: str) -> set[str]:
    """The dims that the name of a dim computes with; none for a plain name."""
    try:
        tree = ast.parse(name.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return set()
    return {item.id for item in ast.walk(tree) if isinstance(item, ast.Name)} if isinstance(tree, ast.BinOp) else set()


def _evaluate(name: str, sizes: Mapping[str, int]) -> int | None:
    def value(item: ast.expr) -> int:
        if isinstance(item, ast.Constant) and isinstance(item.value, int):
            return item.value
        if isinstance(item, ast.Name) and item.id in sizes:
            return sizes[item.id]
        if isinstance(item, ast.BinOp) and type(item.op) in _OPERATORS:
            return _OPERATORS[type(item.op)](value(item.left), value(item.right))
        raise ValueError(name)

    try:
        result = value(ast.parse(name.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None
    return result if result >= 0 else None
