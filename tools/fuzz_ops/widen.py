"""A case with its tensors in other types, for a reference that has no kernel for the drawn ones, and the way back.

A type constraint is widened as a whole, so that inputs that have to be of one type stay so, and only to a type that the
operator takes. Integers go where their numbers are exact. There is no type above double: it becomes float, and the
comparison is then made in float, on numbers that a float holds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx2torch_mlir.specs import Formal, OperatorVersion, default_ledger
from tools.fuzz_ops.case import Array, Case, Given, Surroundings
from tools.fuzz_ops.draw import numpy_dtype

WIDER = {
    "float16": ("float", "double"),
    "bfloat16": ("float", "double"),
    "double": ("float",),
    "bool": ("uint8", "int32", "float"),
    **{f"int{bits}": (*(("int64", "int32") if bits < 32 else ("int64",)), "double", "float") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ("int64", *(("int32",) if bits < 32 else ()), "uint64", "double", "float") for bits in (8, 16, 32, 64)},
}
"""The types to take in place of a type, in this order. Integers only to wider ones, where sums and products wrap alike."""

_BY_TYPE = "Cast|CastLike|BitCast|QuantizeLinear|DynamicQuantizeLinear|QLinear.*"
"""Operators whose result depends on the type that it has: that type is kept."""

_INTERPOLATES = "Resize|Upsample"
"""Operators that compute integers as real numbers, and never beyond their limits by much: int32 may stand for int64."""


def _to_whole(case: Case) -> str:
    """How ``case`` makes integers of numbers: interpolated linearly, cut off as by onnxruntime, else rounded as by the
    reference; logarithms cut off."""
    if case.op == "ReduceLogSumExp":
        return "trunc"
    if not re.fullmatch(_INTERPOLATES, case.op) or case.attributes.get("antialias"):
        return ""
    return "trunc" if case.attributes.get("mode") == "linear" else "rint"


class Unsuitable(Exception):
    """Results in the other type do not say what they would be in the drawn one."""


@dataclass(frozen=True)
class Wanted:
    """A result of a reference: ``value`` as it was computed, ``dtype`` the type that the case declares for it.

    Where ``value`` is a tensor of a narrower floating-point type, it is compared in that. ``whole`` names the
    function of NumPy's that makes the declared integers of the floats of ``value``.
    """

    value: Any
    dtype: np.dtype[Any] | None = None
    whole: str = ""

    @property
    def plain(self) -> Any:
        """The value in the declared type."""
        return self.value if self.dtype is None else np.asarray(self.value).astype(self.dtype)

    def in_its_type(self, ours: Any) -> tuple[Any, Any]:
        """Ours and theirs, as they are to be compared."""
        theirs = self.value
        if self.dtype is None or not isinstance(theirs, np.ndarray) or not isinstance(ours, np.ndarray):
            return ours, theirs
        if self.dtype == theirs.dtype:
            return ours, theirs
        if ours.dtype != self.dtype or ours.shape != theirs.shape:
            return ours, theirs.astype(self.dtype)
        if not self.whole:
            with np.errstate(over="ignore"):
                return ours.astype(theirs.dtype), theirs
        from onnx2torch_mlir.verification.tolerances import tolerance_of

        # A sum beside the border between two numbers may fall on either side of it.
        row = tolerance_of(theirs.dtype)
        near = row.rtol * np.abs(theirs) + row.atol(theirs)
        whole = getattr(np, self.whole)
        wide = ours.astype(theirs.dtype)
        within = (wide >= whole(theirs - near)) & (wide <= whole(theirs + near))
        return ours, np.where(within, ours, whole(theirs).astype(self.dtype))


def held_by_float(case: Case) -> Case:
    """``case`` with doubles that float holds, so that a result in float is one for the same numbers."""
    inputs = tuple(
        replace(item, array=item.array.astype(_NARROW[item.array.dtype.name]).astype(item.array.dtype))
        if item is not None and isinstance(item.array, np.ndarray) and item.array.dtype.name in _NARROW
        else item
        for item in case.inputs
    )
    return replace(case, inputs=inputs)


_NARROW = {"float64": np.float32, "complex128": np.complex64}


def widened(case: Case) -> Iterator[Case]:
    """``case`` with one or several type constraints in other types, the fewest first."""
    version = _version(case)
    if version is None or case.around != Surroundings():
        return
    formals = _formals(version.inputs, len(case.inputs))
    drawn = drawn_types(case, version)
    kept = {formal.type for formal in version.outputs} if re.fullmatch(_BY_TYPE, case.op) else set()
    options = []
    for name, kind in drawn.items():
        taken = version.type_constraints[name] if name not in kept else ()
        options.append((kind, *(wide for wide in _candidates(case, kind) if f"tensor({wide})" in taken)))
    choices = sorted(itertools.product(*options), key=lambda chosen: sum(map(str.__ne__, chosen, drawn.values())))
    for chosen in choices[1:32]:
        types = dict(zip(drawn, chosen, strict=True))
        try:
            inputs = tuple(
                None if item is None else _given(item, types.get(formal.type))
                for formal, item in zip(formals, case.inputs, strict=False)
            )
        except Unsuitable:
            continue
        yield replace(case, inputs=inputs)


def _candidates(case: Case, kind: str) -> tuple[str, ...]:
    smaller = ("int32",) if re.fullmatch(_INTERPOLATES, case.op) and kind in ("int64", "uint32", "uint64") else ()
    return (*smaller, *WIDER.get(kind, ()))


def _version(case: Case) -> OperatorVersion | None:
    operator = default_ledger().operator(case.domain, case.op)
    return None if operator is None else operator.version_for(case.opset)


def _formals(formals: Sequence[Formal], count: int) -> list[Formal]:
    """The formal of each of ``count`` values."""
    last = list(formals[-1:]) if formals and formals[-1].kind == "variadic" else []
    return [*formals, *last * (count - len(formals))]


def drawn_types(case: Case, version: OperatorVersion) -> dict[str, str]:
    """The type that each type constraint has in ``case``."""
    formals = _formals(version.inputs, len(case.inputs))
    places = [(formal.type, item) for formal, item in zip(formals, case.inputs, strict=False) if item is not None]
    return {name: _type_of(item) for name, item in places if name in version.type_constraints}


def _type_of(item: Given) -> str:
    if not isinstance(item.array, np.ndarray) or item.type is not None:
        return ""
    return onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(item.array.dtype)).lower()


def _given(item: Given, kind: str | None) -> Given:
    if kind in (None, "", _type_of(item)):
        return item
    assert kind is not None
    return replace(item, array=_exactly(item.array, numpy_dtype(kind)))


def _exactly(array: Array, dtype: np.dtype[Any]) -> Array:
    """``array`` in ``dtype`` with the same numbers, but for doubles as floats; raises `Unsuitable`."""
    with np.errstate(all="ignore"):
        wide = array.astype(dtype)
    if array.dtype.kind in "iu":
        exact = (wide >= 0) == (array >= 0)
        if dtype.kind == "f":
            exact &= np.abs(wide) < _whole(dtype)
        elif not (exact & (wide.astype(array.dtype) == array)).all():
            raise Unsuitable
        if not exact.all():
            raise Unsuitable
    return wide


def _whole(dtype: np.dtype[Any]) -> float:
    """The number up to which ``dtype`` holds all integers."""
    return float(2 ** (np.finfo(dtype).nmant + 1))


def declared(case: Case) -> list[np.dtype[Any] | None]:
    """The element types of the outputs, by ONNX's inference or by the type constraints; None for others."""
    kinds = [output.type.tensor_type.elem_type for output in case.model().graph.output]
    found = [helper.tensor_dtype_to_np_dtype(kind) if kind else None for kind in kinds]
    version = _version(case)
    if all(found) or version is None or case.around.results:
        return found
    drawn = drawn_types(case, version)
    formals = _formals(version.outputs, len(case.outputs))
    types = [formal.type for formal, wanted in zip(formals, case.outputs, strict=False) if wanted]
    names = [kind[7:-1] if kind.startswith("tensor(") else drawn.get(kind, "") for kind in types]
    return [known or (numpy_dtype(name) if name else None) for known, name in zip(found, names, strict=False)]


def narrowed(case: Case, values: Sequence[Any], dtypes: Sequence[np.dtype[Any] | None]) -> list[Wanted]:
    """Results computed in other types as results of ``case``, whose outputs are of ``dtypes``; raises `Unsuitable`."""
    whole = _to_whole(case)
    return [_narrowed(np.asarray(value), dtype, whole) for value, dtype in zip(values, dtypes, strict=True)]


def _narrowed(value: Array, dtype: np.dtype[Any] | None, whole: str) -> Wanted:
    if dtype is None:
        raise Unsuitable
    source = value.dtype
    if source == dtype:
        return Wanted(value, dtype)
    floats, integers = ("float16", "bfloat16", "float32", "float64"), "iu"
    if dtype.name in floats and source.name in floats:
        coarser = dtype.itemsize > source.itemsize
        with np.errstate(over="ignore"):
            return Wanted(value if coarser else value.astype(dtype), dtype)
    if dtype.kind in integers and source.kind in integers:
        return Wanted(value.astype(dtype), dtype)
    if dtype.kind == "b" and source.kind in "iuf" and np.isin(value, (0, 1)).all():
        return Wanted(value.astype(dtype), dtype)
    if dtype.kind in integers and source.kind == "f" and np.isfinite(value).all():
        if (value == np.trunc(value)).all() and (np.abs(value) < _whole(source)).all():
            return Wanted(value.astype(np.int64).astype(dtype), dtype)
        limits = np.iinfo(dtype)
        if whole and (value > limits.min).all() and (value < limits.max).all():
            return Wanted(value, dtype, whole)
    raise Unsuitable
