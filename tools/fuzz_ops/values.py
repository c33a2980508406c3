"""The numbers in a drawn array."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

_FINFO: Any = ml_dtypes.finfo
_IINFO: Any = ml_dtypes.iinfo

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


def fill(
    dtype: np.dtype[Any], shape: tuple[int, ...], style: str, seed: int, low: float | None = None, high: float | None = None
) -> Array:
    """An array of ``dtype``; the same ``seed`` gives the same one.

    ``style``: "small" (normally distributed, small integers), "varied" (zeros, ones, negative and larger numbers
    mixed; integers down to and up to the extremes), "zeros", "large", "special" (with NaN and infinities, as far as
    the type has them), or "within" ``low`` and ``high``, both included.
    """
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool) if style != "zeros" else np.zeros(shape, bool)
    if dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2"):
        return _integers(rng, dtype, shape, style, low, high)
    if style == "within":
        numbers = rng.uniform(-10 if low is None else low, 10 if high is None else high, shape)
    elif style == "zeros":
        numbers = np.zeros(shape)
    elif style == "large":
        numbers = rng.standard_normal(shape) * (1e3 if dtype.itemsize < 4 else 1e6)
    else:
        numbers = rng.standard_normal(shape) * 2
    if style in ("varied", "special"):
        choices = np.array([0.0, 1.0, -1.0, 0.5, -2.5, 100.0] if style == "varied" else SPECIAL)
        numbers = np.where(rng.random(shape) < 0.3, rng.choice(choices, shape), numbers)
    if dtype.kind == "c":
        return np.asarray(numbers + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.name == "float8_e8m0fnu":
        numbers = np.abs(numbers) + 0.125
    if dtype.name.startswith("float8") or dtype.name.startswith("float4"):
        limit = float(_FINFO(dtype).max)
        numbers = np.where(np.isfinite(numbers), np.clip(numbers, -limit, limit), numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(numbers).astype(dtype)


def _integers(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], style: str, low: float | None, high: float | None
) -> Array:
    limits = _IINFO(dtype)
    least, most = int(limits.min), int(limits.max)
    if style == "within":
        least, most = max(least, int(-9 if low is None else low)), min(most, int(9 if high is None else high))
    elif style != "large":
        least, most = max(least, -9), min(most, 9)
    wide = np.uint64 if dtype == np.uint64 else np.int64
    numbers = np.asarray(rng.integers(least, most, shape, wide, endpoint=True))
    if style == "zeros":
        numbers = np.zeros(shape, wide)
    if style in ("varied", "special"):
        extremes = np.array([int(limits.min), int(limits.max), 0, 1], wide)
        numbers = np.where(rng.random(shape) < 0.3, rng.choice(extremes, shape), numbers)
    return numbers.astype(dtype)
