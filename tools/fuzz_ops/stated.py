"""A case stated in another way: the node that stands in for it, and what is done with its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tools.fuzz_ops.case import Array, Case, Given

Finish = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Stated:
    """A case that means the same after ``finish`` has been applied to its results; ``how`` is "" for the case itself."""

    case: Case
    how: str = ""
    finish: Finish = list


def at(op: str, version: int) -> str:
    return f"as {op}-{version}"


def changed(case: Case, version: int, *, drop: Sequence[str] = (), **attributes: Any) -> Stated:
    """``case`` at ``version`` with some attributes dropped, others given."""
    kept = {name: value for name, value in case.attributes.items() if name not in ("consumed_inputs", *drop)}
    return Stated(replace(case, opset=version, attributes={**kept, **attributes}), at(case.op, version))


def array_of(case: Case, index: int) -> Array | None:
    item = case.inputs[index] if index < len(case.inputs) else None
    return None if item is None else np.asarray(item.array)


def giving(stated: Stated, arrays: Sequence[Array | None]) -> Stated:
    """``stated`` with these inputs in place of its own."""
    given = tuple(None if array is None else Given(array, array.shape) for array in arrays)
    return replace(stated, case=replace(stated.case, inputs=given))


def arrays_of(case: Case) -> list[Array | None]:
    return [array_of(case, index) for index in range(len(case.inputs))]
