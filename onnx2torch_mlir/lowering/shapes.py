"""Reshaping by collapse and expand: which runs of dims correspond, and the operations for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import sympy
from torch_mlir import ir

from onnx2torch_mlir.core.dims import product
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.sizes import equal

_DYNAMIC = sympy.Symbol("dynamic")
"""Stands for a size whose value does not matter, only that the type says ``?``."""

Group = tuple[range, range]
"""A run of input dims and the run of output dims with the same number of elements."""


@lru_cache(maxsize=4096)
def groups(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> tuple[Group, ...]:
    """Split two shapes into the finest runs whose products are provably equal.

    One run over everything if none is: then the caller has to check the number of elements.
    """
    whole: tuple[Group, ...] = ((range(len(source)), range(len(target))),)
    if 0 in source or 0 in target:
        return whole
    prefix_s = [product(source[:i]) for i in range(len(source) + 1)]
    prefix_t = [product(target[:i]) for i in range(len(target) + 1)]
    found: list[Group] = []
    i = j = 0
    while i < len(source) and j < len(target):
        match = next(
            (
                (p, q)
                for total in range(2, len(source) - i + len(target) - j + 1)
                for p in range(i + 1, min(len(source), i + total - 1) + 1)
                for q in (j + total - (p - i),)
                if j < q <= len(target) and equal(prefix_s[p], prefix_t[q])
            ),
            None,
        )
        if match is None:
            break
        found.append((range(i, match[0]), range(j, match[1])))
        i, j = match
    rest_is_one = all(d == 1 for d in source[i:]) and all(d == 1 for d in target[j:])
    if not found:
        return whole
    last_s, last_t = found.pop()
    if rest_is_one or (i, j) == (len(source), len(target)):
        found.append((range(last_s.start, len(source)), range(last_t.start, len(target))))
    else:
        found += [(last_s, last_t), (range(i, len(source)), range(j, len(target)))]
        if i == len(source) or j == len(target):
            merged = (range(last_s.start, len(source)), range(last_t.start, len(target)))
            found[-2:] = [merged]
    return tuple(found)


@lru_cache(maxsize=4096)
def is_proven(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """Whether all products of `groups` are known to be equal."""
    pairs = groups(source, target)
    return all(equal(product([source[a] for a in s]), product([target[a] for a in t])) for s, t in pairs)


def reshape(ctx: Context, x: Operand, shape: Sequence[Dim]) -> Operand:
    """``x`` with its elements in the same order under another shape; the number of elements is checked if not known."""
    target = tuple(shape)
    if x.shape == target:
        return x
    if 0 in target:
        ctx.require_equal(product(x.shape), 0, "a reshape keeps the number of elements")
        return Operand(x.dtype, target, ctx.empty(x.dtype, target))
    pairs = groups(x.shape, target)
    if not is_proven(x.shape, target):
        # Of all elements, and in one run: where another run is empty, any sizes will do.
        pairs = ((range(x.rank), range(len(target))),)
        ctx.require_equal(product(x.shape), product(target), "a reshape keeps the number of elements")
    value = x.value
    if not x.shape or not target:
        value = _through_scalar(ctx, x, target)
    else:
        if any(len(s) != 1 for s, _ in pairs):
            value = ctx.b.make(
                "tensor.collapse_shape",
                ctx.b.tensor_type(x.dtype, _as_built(x.shape, [s for s, _ in pairs])),
                value,
                reassociation=_reassociation(ctx, [s for s, _ in pairs]),
            )
        middle = ctx.b.tensor_type(x.dtype, _as_built(target, [t for _, t in pairs]))
        if value.type != middle:
            value = ctx.b.make("tensor.cast", middle, value)
        if any(len(t) != 1 for _, t in pairs):
            value = _expand(ctx, value, x, target, [t for _, t in pairs])
    return Operand(x.dtype, target, value)


def _as_built(shape: Sequence[Dim], runs: Sequence[range]) -> list[Dim]:
    """The collapsed sizes as MLIR infers them: static where all sizes of the run are."""
    return [math.prod(int(shape[a]) for a in run) if _static(shape, run) else _DYNAMIC for run in runs]


def _static(shape: Sequence[Dim], run: range) -> bool:
    return all(isinstance(shape[a], int) for a in run)


def _expand(ctx: Context, value: ir.Value, x: Operand, target: tuple[Dim, ...], runs: Sequence[range]) -> ir.Value:
    dynamic, static = ctx.slots(target)
    operation = ctx.b.op(
        "tensor.expand_shape",
        [ctx.b.tensor_type(x.dtype, target)],
        [value, *dynamic],
        {"reassociation": _reassociation(ctx, runs), "static_output_shape": static},
    )
    return operation.results[0]


def _reassociation(ctx: Context, runs: Sequence[range]) -> ir.Attribute:
    return ctx.b.attribute(_text(tuple(runs)))


@lru_cache(maxsize=4096)
def _text(runs: tuple[range, ...]) -> str:
    return "[" + ", ".join("[" + ", ".join(f"{a} : i64" for a in run) + "]" for run in runs) + "]"


def _through_scalar(ctx: Context, x: Operand, target: tuple[Dim, ...]) -> ir.Value:
    """A reshape from or to rank 0: every size is 1."""
    b = ctx.b
    ones_in = b.tensor_type(x.dtype, [1] * x.rank)
    value = x.value if x.value.type == ones_in else b.make("tensor.cast", ones_in, x.value)
    empty = b.attribute("[]")
    if x.rank:
        value = b.make("tensor.collapse_shape", b.tensor_type(x.dtype, ()), value, reassociation=empty)
    if target:
        ones = b.tensor_type(x.dtype, [1] * len(target))
        value = b.make(
            "tensor.expand_shape", ones, value, reassociation=empty, static_output_shape=b.i64_array([1] * len(target))
        )
        wanted = b.tensor_type(x.dtype, target)
        value = value if wanted == ones else b.make("tensor.cast", wanted, value)
    return value
