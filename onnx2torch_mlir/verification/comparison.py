"""Two tensors held against each other: what differs, how much, and where first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onnx2torch_mlir.verification.leaves import form, leaves
from onnx2torch_mlir.verification.tolerances import tolerance_of

Array = np.ndarray[Any, Any]


class Limits(NamedTuple):
    """How far results may be apart, where not as `tolerances` says: ``rtol`` and ``atol`` replace parts of the tolerance of
    the dtype; ``ulp`` replaces all of it by a number of steps between representable numbers (0: the same bits, but for -0)."""

    rtol: float | None = None
    atol: float | None = None
    ulp: int | None = None


@dataclass(frozen=True)
class Statistics:
    """A tensor in a few numbers; of its finite elements, as float64."""

    dtype: str
    shape: tuple[int, ...]
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    std: float | None = None
    nans: int = 0
    infinities: int = 0

    def __str__(self) -> str:
        text = f"{self.dtype}{list(self.shape)}"
        if self.minimum is not None:
            text += f" min {self.minimum:.6g}, max {self.maximum:.6g}, mean {self.mean:.6g}, std {self.std:.6g}"
        if self.nans or self.infinities:
            text += f", {self.nans} NaN, {self.infinities} infinite"
        return text


def statistics(array: Array) -> Statistics:
    """The statistics of ``array``."""
    array = np.asarray(array)
    if not _is_number(array.dtype) or array.size == 0:
        return Statistics(array.dtype.name, array.shape)
    wide = np.abs(array.astype(np.complex128)) if array.dtype.kind == "c" else array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    nans, infinities = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
    if finite.size == 0:
        return Statistics(array.dtype.name, array.shape, nans=nans, infinities=infinities)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = (float(finite.min()), float(finite.max()), float(finite.mean()), float(finite.std()))
    return Statistics(array.dtype.name, array.shape, *numbers, nans, infinities)


@dataclass(frozen=True)
class Comparison:
    """One value of ours against the reference's.

    ``problem`` is "" where they agree, else "dtype", "shape", "numbers", or "run" where ours could not be computed, with the
    reason in ``note``. ``max_abs`` and ``max_rel`` are over
    elements that are finite on both sides, ``max_ulp`` counts representable numbers between them (None for dtypes
    where that says nothing). ``wrong`` is the number of elements outside the tolerance, ``first`` the index of the
    first of them, with both values; ``not_finite`` is how many of them are NaN or infinite on one side, or infinite with
    another sign. ``ulp`` is the limit in steps, where there is one. ``spread`` is how far the reference is from itself
    (`spread`), where that is why ours agrees.
    """

    name: str
    problem: str
    ours: Statistics
    theirs: Statistics
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int | None = None
    wrong: int = 0
    size: int = 0
    first: tuple[int, ...] | None = None
    first_values: tuple[str, str] | None = None
    rtol: float = 0.0
    atol: float = 0.0
    ulp: int | None = None
    not_finite: int = 0
    note: str = ""
    spread: float | None = None

    @property
    def allowed(self) -> str:
        """The tolerance in words."""
        return f"{self.rtol:g} x |reference| + {self.atol:.3g}" if self.ulp is None else f"{self.ulp} ULP"

    @property
    def agrees(self) -> bool:
        """Whether dtype and shape are the same and every number is within the tolerance, or the reference's own spread."""
        return not self.problem

    def reason(self) -> str:
        """What differs, in one sentence."""
        if self.problem in ("dtype", "shape"):
            ours, theirs = getattr(self.ours, self.problem), getattr(self.theirs, self.problem)
            return f"{self.name} has {self.problem} {ours}, the reference {theirs}"
        if self.problem == "run":
            return f"{self.name} cannot be computed: {self.note}"
        if self.problem:
            values = self.first_values or ("", "")
            ulp = "" if self.max_ulp is None else f", {self.max_ulp} ULP"
            not_finite = f"; {self.not_finite} are NaN or infinite on one side only" if self.not_finite else ""
            return (
                f"{self.wrong} of {self.size} numbers of {self.name} differ by more than {self.allowed};"
                f" the largest error is {self.max_abs:.3g} ({self.max_rel:.3g} relative{ulp}){not_finite};"
                f" the first is at {list(self.first or ())}: {values[0]}, the reference has {values[1]}"
            )
        if self.spread is not None:
            return (
                f"{self.wrong} of {self.size} numbers of {self.name} differ by more than {self.allowed}, by at most"
                f" {self.max_abs:.3g}; onnxruntime differs from itself by {self.spread:.3g} when it optimizes the model, or"
                " when its sums change in the last place"
            )
        return f"{self.name} agrees"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "agrees": self.agrees,
            "problem": self.problem,
            "note": self.note,
            "ours": _stat_dict(self.ours),
            "reference": _stat_dict(self.theirs),
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "max_ulp": self.max_ulp,
            "wrong": self.wrong,
            "size": self.size,
            "not_finite": self.not_finite,
            "first": None if self.first is None else list(self.first),
            "first_values": None if self.first_values is None else list(self.first_values),
            "rtol": self.rtol,
            "atol": self.atol,
            "ulp": self.ulp,
            "spread": self.spread,
        }


def _stat_dict(stats: Statistics) -> dict[str, Any]:
    return {
        "dtype": stats.dtype,
        "shape": list(stats.shape),
        "min": stats.minimum,
        "max": stats.maximum,
        "mean": stats.mean,
        "std": stats.std,
        "nans": stats.nans,
        "infinities": stats.infinities,
    }


def compare(
    name: str, ours: Array, theirs: Array, rtol: float | None = None, atol: float | None = None, ulp: int | None = None
) -> Comparison:
    """``ours`` against the reference ``theirs``, with the tolerance of the reference's dtype (`tolerance_of`), or `Limits`."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    described = statistics(ours), statistics(theirs)
    if ours.dtype != theirs.dtype:
        return Comparison(name, "dtype", *described, size=theirs.size)
    if ours.shape != theirs.shape:
        return Comparison(name, "shape", *described, size=theirs.size)
    if not _is_number(theirs.dtype):
        return _numbers(name, described, ours, theirs, ours != theirs)
    a, b = _widened(ours), _widened(theirs)
    if theirs.dtype.kind in "iub":
        return _numbers(name, described, ours, theirs, ours != theirs, _distance(a, b), b)
    row = tolerance_of(theirs.dtype, rtol, atol)
    absolute = row.atol(b)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a - b)
        finite = np.isfinite(a) & np.isfinite(b)
        within = finite & (error <= row.rtol * np.abs(b) + absolute)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    error = np.where(finite, error, 0.0)
    steps = ulp_distances(ours, theirs)
    if ulp is not None and steps is not None:
        within = finite & (steps <= ulp)
    bad = ~(within | same)
    result = _numbers(name, described, ours, theirs, bad, error, b)
    return replace(
        result,
        max_ulp=int(steps[finite].max()) if steps is not None and finite.any() else None,
        rtol=row.rtol,
        atol=absolute,
        ulp=ulp if steps is not None else None,
        not_finite=int(np.count_nonzero(bad & ~finite)),
    )


def not_computed(name: str, theirs: Any, why: str) -> Comparison:
    """The comparison of a value that our side failed to compute."""
    held = next(iter(leaves(name, theirs).values()), np.empty(0))
    return Comparison(name, "run", Statistics("nothing", ()), statistics(held), size=held.size, note=why)


def compare_values(
    name: str, ours: Any, theirs: Any, rtol: float | None = None, atol: float | None = None, ulp: int | None = None
) -> list[Comparison]:
    """`compare` for a value that may be a sequence, a map, or absent: one comparison for each array it holds."""
    held, wanted = leaves(name, ours), leaves(name, theirs)
    if held.keys() != wanted.keys():
        return [compare(f"{name} (its parts)", form(held), form(wanted))]
    return [compare(key, held[key], wanted[key], rtol, atol, ulp) for key in wanted]


def _is_number(dtype: np.dtype[Any]) -> bool:
    # ml_dtypes' types are of kind "V", some of "f".
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.names is None and dtype.itemsize <= 2)


def _widened(array: Array) -> Array:
    if array.dtype.kind in "iub":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _distance(a: Array, b: Array) -> Array:
    """|a - b| of integers, exact enough to be shown."""
    return np.abs(a.astype(np.float64) - b.astype(np.float64))


def _numbers(
    name: str,
    described: tuple[Statistics, Statistics],
    ours: Array,
    theirs: Array,
    bad: Array,
    error: Array | None = None,
    reference: Array | None = None,
) -> Comparison:
    count = int(np.count_nonzero(bad))
    first = tuple(int(i) for i in np.argwhere(np.asarray(bad))[0]) if count else None
    values = None if first is None else (str(ours[first]), str(theirs[first]))
    largest = relative = 0.0
    if error is not None and reference is not None and error.size:
        largest = float(np.max(error))
        magnitude = np.abs(reference.astype(np.complex128 if reference.dtype.kind == "c" else np.float64))
        nonzero = np.isfinite(magnitude) & (magnitude > 0)
        relative = float(np.max(error[nonzero] / magnitude[nonzero])) if nonzero.any() else 0.0
    return Comparison(
        name,
        "numbers" if count else "",
        *described,
        max_abs=largest,
        max_rel=relative,
        wrong=count,
        size=int(theirs.size),
        first=first,
        first_values=values,
    )


_ORDERED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def ulp_distance(a: Array, b: Array) -> int | None:
    """The largest number of steps between representable numbers from ``a`` to ``b`` (same floating-point dtype).

    Over elements finite on both sides; None where there are none.
    """
    steps = ulp_distances(a, b)
    finite = np.isfinite(_widened(a)) & np.isfinite(_widened(b))
    return int(steps[finite].max()) if steps is not None and finite.any() else None


def ulp_distances(a: Array, b: Array) -> Array | None:
    """The same for every element (of no meaning where one is not finite); None for complex numbers."""
    kind = _ORDERED.get(a.dtype.itemsize)
    if kind is None or a.dtype.kind == "c":
        return None
    signed = a.dtype.name != "float8_e8m0fnu"

    def ordered(values: Array) -> Array:
        # Sign and magnitude to a line: negative numbers count downwards from zero.
        bits = np.ascontiguousarray(values).view(kind if signed else np.uint8).reshape(values.shape)
        wide = bits.astype(np.int64)
        line: Array = np.where(bits < 0, int(np.iinfo(kind).min) - wide, wide)
        return line

    x, y = ordered(a), ordered(b)
    if a.dtype.itemsize < 8:
        return np.abs(x - y)
    # From one end of the float64 line to the other is more than an int64 holds.
    high, low = np.maximum(x, y), np.minimum(x, y)
    return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.uint64)
