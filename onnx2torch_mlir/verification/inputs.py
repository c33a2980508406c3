"""Inputs to run a model on, generated from what the model does with them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType
from onnx2torch_mlir.verification.dims import input_shapes, tensor_of
from onnx2torch_mlir.verification.uses import Use, index_bound, uses_of

Array = np.ndarray[Any, Any]
Maker = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _fill(number: float) -> Maker:
    return lambda rng, shape: np.full(shape, number)


def _between(low: float, high: float) -> Maker:
    return lambda rng, shape: rng.uniform(low, high, shape)


def _leading_minus_one(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A target shape that every tensor can be brought to: [-1, 1, 1 …]."""
    result = np.ones(shape)
    result.reshape(-1)[:1] = -1
    return result


ROLES: dict[tuple[str, int], Maker] = {
    ("Reshape", 1): _leading_minus_one,
    ("Expand", 1): _fill(1),
    ("Tile", 1): _fill(1),
    ("ConstantOfShape", 0): _fill(2),
    ("Slice", 1): _fill(0),
    ("Slice", 2): _fill(2**30),
    ("Slice", 3): lambda rng, shape: np.arange(np.prod(shape)).reshape(shape),
    ("Slice", 4): _fill(1),
    ("Pad", 1): _fill(1),
    ("TopK", 1): _fill(1),
    ("Range", 0): _fill(0),
    ("Range", 1): _fill(5),
    ("Range", 2): _fill(1),
    ("OneHot", 1): _fill(5),
    ("CumSum", 1): _fill(0),
    ("Trilu", 1): _fill(0),
    ("Loop", 0): _fill(3),
    ("Loop", 1): _fill(1),
    ("Resize", 1): _fill(0),
    ("Resize", 2): _fill(1),
    ("Upsample", 1): _fill(1),
    ("Clip", 1): _fill(-1),
    ("Clip", 2): _fill(1),
    ("Dropout", 1): _fill(0.5),
    ("Dropout", 2): _fill(0),
    ("BatchNormalization", 4): _between(0.5, 2),
    ("QuantizeLinear", 1): _between(0.01, 0.1),
    ("DequantizeLinear", 1): _between(0.01, 0.1),
    ("Log", 0): _between(0.1, 4),
    ("Sqrt", 0): _between(0, 4),
    ("Acosh", 0): _between(1, 4),
    ("Acos", 0): _between(-0.95, 0.95),
    ("Asin", 0): _between(-0.95, 0.95),
    ("Atanh", 0): _between(-0.95, 0.95),
    ("Div", 1): _between(1, 9),
    ("Mod", 1): _between(1, 9),
    ("Reciprocal", 0): _between(0.5, 2),
    **{(f"Reduce{name}", 1): _fill(0) for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare")},
}
"""Input positions of operators that take only some values; a direct reader decides what is generated."""

ELEMENTS = 3
"""Length of a sequence."""

HELD = 0.4
"""Share of the numbers of a sparse tensor that are not 0."""

_SIGNED_USES = frozenset({"Abs", "Neg", "Sign", "Add", "Sub", "Mul", "Max", "Min", "Relu", "Less", "Greater", "Equal"})


def generate_inputs(loaded: LoadedModel, dims: Mapping[str, int] | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Inputs for ``loaded``, the same ones for the same model, ``dims`` and ``seed``.

    Sizes: `input_shapes`. Values: indices lie within what they index, masks are 0 and 1 with every row begun by ones,
    positions count up, lengths lie within the sequence, other integers are small, floats are normally distributed.

    A sequence has `ELEMENTS` tensors of one shape (a matrix where its type leaves the rank open); an optional is present.

    Raises:
        Refusal: O2M-U003 for an input that is a map, or a tensor without a declared rank.
    """
    shapes = input_shapes(loaded.inputs, dims or {})
    values = {value.name: value for value in loaded.ir.graph.inputs}
    return {
        described.name: _generate(
            described, values[described.name], shapes, np.random.default_rng(_seed(described, seed))
        )
        for described in loaded.inputs
    }


def _seed(described: ValueType, seed: int) -> list[int]:
    return [seed, zlib.crc32(described.name.encode())]


def _generate(
    described: ValueType, value: ir.Value, shapes: dict[str, tuple[int, ...]], rng: np.random.Generator
) -> Any:
    inner = described.element if described.kind is Kind.OPTIONAL else described
    if inner is not None and inner.kind is Kind.SEQUENCE and (element := tensor_of(inner)) is not None:
        whole = replace(element, name=described.name, shape=(2, 3) if element.shape is None else element.shape)
        sizes = {**shapes, described.name: (2, 3)} if element.shape is None else shapes
        return [_tensor(whole, [], sizes, rng) for _ in range(ELEMENTS)]
    if inner is not None and inner is not described:
        return _tensor(replace(inner, name=described.name), [], shapes, rng)
    if described.kind is Kind.SPARSE_TENSOR:
        made = _tensor(replace(described, kind=Kind.TENSOR), [], shapes, rng)
        return np.where(rng.random(made.shape) < HELD, made, made.dtype.type(0))
    return _tensor(described, list(uses_of(value)), shapes, rng)


def _tensor(
    described: ValueType, uses: Sequence[Use], shapes: dict[str, tuple[int, ...]], rng: np.random.Generator
) -> Array:
    name, shape = described.name, shapes.get(described.name, ())
    if described.kind is not Kind.TENSOR or described.dtype is None or described.shape is None:
        what = described.kind if described.kind is not Kind.TENSOR else "tensor without a declared rank"
        raise refuse("O2M-U003", f"no values can be made up for input {name}, a {what}", hint="give inputs", case=name)
    if described.dtype is ir.DataType.STRING:
        words = np.array(["the", "quick", "brown", "fox", ""], object)
        return np.asarray(words[rng.integers(0, len(words), shape)], object)
    dtype = described.dtype.numpy()
    made = _by_name(name.lower(), dtype, shape, uses, shapes, rng)
    if made is None:
        made = _by_use(dtype, shape, uses, shapes, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(made).astype(dtype).reshape(shape)


def _bound(uses: Sequence[Use], shapes: dict[str, tuple[int, ...]]) -> int | None:
    bounds = [bound for use in uses if (bound := index_bound(use, shapes)) is not None]
    return max(1, min(bounds)) if bounds else None


def _by_name(
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    uses: Sequence[Use],
    shapes: dict[str, tuple[int, ...]],
    rng: np.random.Generator,
) -> Array | None:
    """What the names that exporters give say about integers and bools."""
    if dtype.kind not in "iub" or not shape:
        return None
    bound = _bound(uses, shapes)
    if "mask" in name and bound is None:
        lengths = rng.integers((shape[-1] + 1) // 2, shape[-1] + 1, shape[:-1] or (1,))
        return (np.arange(shape[-1]) < lengths[..., None]).astype(np.int64)
    if "token_type" in name or "segment" in name:
        return rng.integers(0, min(2, bound or 2), shape)
    if "position" in name:
        return np.broadcast_to(np.arange(shape[-1]) % (bound or shape[-1] or 1), shape)
    return None


def _by_use(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    uses: Sequence[Use],
    shapes: dict[str, tuple[int, ...]],
    rng: np.random.Generator,
) -> Array:
    if dtype.kind in "iu":
        bound = _bound(uses, shapes)
        if bound is not None:
            return rng.integers(0, bound, shape)
        for use in uses:
            if use.op in ("LSTM", "GRU", "RNN") and use.position == 4 and use.node.inputs[0] is not None:
                sequence = shapes.get(use.node.inputs[0].name or "", (1,))
                return rng.integers(1, max(2, sequence[0] + 1), shape)
    for use in uses:
        if use.direct and (use.op, use.position) in ROLES:
            made = ROLES[use.op, use.position](rng, shape)
            return np.round(made) if dtype.kind in "iu" else made
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape)
    if dtype.kind in "iu":
        signed = dtype.kind == "i" and bool(uses) and all(use.op in _SIGNED_USES for use in uses)
        return rng.integers(-9 if signed else 0, 10, shape)
    if dtype.kind == "c":
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if dtype.name in ("int4", "uint4", "int2", "uint2"):
        bits = int(dtype.name[-1])
        return rng.integers(0, 2**bits, shape) - (2 ** (bits - 1) if dtype.name.startswith("int") else 0)
    made = rng.standard_normal(shape)
    return np.abs(made) + 0.1 if dtype.name == "float8_e8m0fnu" else made
