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
    """A disagreement of ``reference`` (the beginning of its name) on operators whose names match ``op`` as a whole."""

    op: str
    reference: str
    reason: str
    until: int = 10**6
    since: int = 1
    when: Callable[[Case], bool] = lambda case: True


def _of(*names: str) -> Callable[[Case], bool]:
    return lambda case: case.dtype in names


KNOWN = (
    Known(
        "Softmax|LogSoftmax|Hardmax",
        "onnx.reference",
        "it knows only the meaning since 13; before, the input is flattened to a matrix at the axis",
        until=12,
    ),
    Known(
        "Gelu",
        "onnx.reference",
        "the function body's constants are float32, so float64 results have float32's accuracy",
        when=_of("double"),
    ),
    Known(
        "Selu",
        "onnx.reference",
        "it takes the defaults of version 6, which has more digits of alpha and gamma",
        until=5,
        when=lambda case: not {"alpha", "gamma"} <= set(case.attributes),
    ),
    Known(
        "Greater|Less|Equal|And|Or|Xor|Add|Sub|Mul|Div|Pow",
        "onnx.reference",
        "it does not know the attribute axis, which says where the second operand is aligned",
        until=6,
        when=lambda case: "axis" in case.attributes,
    ),
)


def known(case: Case, reference: str) -> str:
    """Why ``reference`` is known to differ on ``case``, or the empty string."""
    for entry in KNOWN:
        in_range = entry.since <= case.opset <= entry.until and reference.startswith(entry.reference)
        if in_range and re.fullmatch(entry.op, case.op) and entry.when(case):
            return entry.reason
    return ""
