"""Where a reference is known to be wrong or to differ, with the reason: such a draw is disputed, not a failure.

The list is short on purpose. An entry names the reference that differs and tells its cases as narrowly as they are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tools.fuzz_ops.case import Case


@dataclass(frozen=True)
class Known:
    """A disagreement of ``reference`` (the beginning of its name) on operators whose names match ``op`` as a whole.

    ``rtol`` and ``atol`` say how far it goes, ``outputs`` which outputs it does not give: no entry lets all numbers pass.
    """

    op: str
    reference: str
    reason: str
    until: int = 10**6
    since: int = 1
    when: Callable[[Case], bool] = lambda case: True
    rtol: float | None = None
    atol: float | None = None
    outputs: tuple[int, ...] = ()


def _of(*names: str) -> Callable[[Case], bool]:
    return lambda case: case.dtype in names


def _normalizes_single_numbers(case: Case) -> bool:
    given = case.inputs[0]
    assert given is not None
    shape = given.array.shape
    return all(shape[axis] == 1 for axis in case.attributes.get("axes", (0, 2, 3)))


KNOWN: tuple[Known, ...] = (
    Known(
        "Dropout",
        "onnxruntime",
        "at inference its mask is all zeros before version 12, and all ones since; ONNX's evaluator always gives ones",
        until=11,
        when=lambda case: len(case.outputs) == 2,
        outputs=(1,),
    ),
    Known(
        "MeanVarianceNormalization",
        "onnxruntime",
        "the variance of one number, the difference of two equal squares, is rounded below 0 there: its root is NaN, not 0",
        when=_normalizes_single_numbers,
        outputs=(0,),
    ),
)


def known(case: Case, reference: str) -> Known | None:
    """The entry that says why ``reference`` differs on ``case``, or None."""
    for entry in KNOWN:
        in_range = entry.since <= case.opset <= entry.until and reference.startswith(entry.reference)
        if in_range and re.fullmatch(entry.op, case.op) and entry.when(case):
            return entry
    return None
