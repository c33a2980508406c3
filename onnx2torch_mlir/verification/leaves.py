"""Outputs that are no arrays (sequences, maps, absent optionals) as the arrays that they hold, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx2torch_mlir.hosting import settled

Array = np.ndarray[Any, Any]


def leaves(name: str, value: Any) -> dict[str, Array]:
    """The arrays of ``value``: those of a list under ``name[0]`` …, the values of a map under ``name['key']``.

    Maps of equal keys in a list (what ZipMap gives) are one array for each key. What is absent holds nothing.
    """
    if value is None:
        return {}
    if isinstance(value, dict):
        return {f"{name}[{key!r}]": _values(item) for key, item in value.items()}
    if not isinstance(value, list):
        return {name: np.asarray(settled(value))}
    if value and all(isinstance(item, dict) and item.keys() == value[0].keys() for item in value):
        return {f"{name}[:][{key!r}]": _values([item[key] for item in value]) for key in value[0]}
    found: dict[str, Array] = {}
    for index, item in enumerate(value):
        found |= leaves(f"{name}[{index}]", item)
    return found


def _values(items: Any) -> Array:
    """What maps hold, with the precision it has: a float32 out of a map (all that ZipMap makes) is a Python float."""
    array = np.asarray(items)
    if array.dtype != np.float64 or isinstance(items, np.ndarray | np.generic):
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    return narrow if np.array_equal(narrow, array, equal_nan=True) else array


def form(held: dict[str, Array]) -> Array:
    """The names of leaves as an array of strings."""
    return np.array(list(held), object)
