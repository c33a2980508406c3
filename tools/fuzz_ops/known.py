"""Where a reference is known to be wrong or to differ, with the reason: such a draw is disputed, not a failure.

The list is short on purpose. An entry names the reference that differs and tells its cases as narrowly as they are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tools.fuzz_ops.case import Case


@dataclass(frozen=True)
class Known:
    """A disagreement of ``reference`` (the beginning of its name) on operators whose names match ``op`` as a whole.

    ``rtol`` and ``atol`` say how far it goes, ``steps`` how far for integers, ``outputs`` which outputs the reference does
    not give, and ``nan`` that a NaN of one side may be a number on the other: no entry lets all numbers pass.
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
    nan: bool = False
    steps: int = 0


def _has_nan(case: Case) -> bool:
    """Whether an input has a NaN, or infinities, whose difference is one."""
    arrays = [array for item in case.given.values() for array in item.arrays()]
    return any(array.dtype.kind not in "biuOUS" and not np.isfinite(array.astype(np.complex128)).all() for array in arrays)


def _clips_nan(case: Case) -> bool:
    return "clip" in case.attributes and _has_nan(case)


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
        "GroupNormalization",
        "onnxruntime",
        "stash_type=1 has float64's statistics in float32, whose last digits depend on the order of summation",
        since=21,
        when=lambda case: "double" in case.types and case.attributes.get("stash_type", 1) == 1,
        rtol=1e-5,
        atol=1e-5,
    ),
    Known(
        "BlackmanWindow|HammingWindow|HannWindow",
        "onnxruntime",
        "the function body computes in float32, also for results of float64",
        when=lambda case: case.attributes.get("output_datatype") == onnx.TensorProto.DOUBLE,
        rtol=1e-5,
        atol=1e-6,
    ),
    Known("GRU|LSTM", "onnxruntime", "with a bias, a NaN is clipped to a number", when=_clips_nan, nan=True),
    Known(
        "QLinearSoftmax|QLinearSigmoid|QLinear(Global)?AveragePool",
        "onnxruntime",
        "a number halfway between two steps goes by the last digit of its float, which another order of sums changes",
        steps=1,
    ),
    Known("MaxPool", "onnxruntime", "a NaN counts, or not, by its place in the window", when=_has_nan, nan=True),
)


def known(case: Case, reference: str) -> Known | None:
    """The entry that says why ``reference`` differs on ``case``, or None."""
    for entry in KNOWN:
        in_range = entry.since <= case.opset <= entry.until and reference.startswith(entry.reference)
        if in_range and re.fullmatch(entry.op, case.op) and entry.when(case):
            return entry
    return None
