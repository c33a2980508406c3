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

    ``rtol`` and ``atol`` say how far it goes; without them everything may differ.
    """

    op: str
    reference: str
    reason: str
    until: int = 10**6
    since: int = 1
    when: Callable[[Case], bool] = lambda case: True
    rtol: float = 0.0
    atol: float = 0.0


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
        rtol=1e-5,
        atol=1e-6,
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
    Known(
        "BlackmanWindow|HammingWindow|HannWindow",
        "on",
        "the function body computes in float32, where the last digits depend on the cosine",
        rtol=1e-5,
        atol=1e-6,
    ),
    Known(
        "Dropout",
        "onnxruntime",
        "at inference its mask is all zeros before version 12, and all ones since; ONNX's evaluator always gives ones",
        until=11,
        when=lambda case: len(case.outputs) == 2,
    ),
    Known(
        "Attention",
        "onnx.reference",
        "its softcap is float32 for inputs of float64 too",
        when=lambda case: "double" in case.types and "softcap" in case.attributes,
        rtol=1e-5,
        atol=1e-5,
    ),
    Known(
        "GridSample",
        "onnx.reference",
        "it computes in the type of the grid",
        when=lambda case: "double" in case.types,
        rtol=1e-4,
        atol=1e-4,
    ),
    Known(
        "Resize|Upsample",
        "onnx.reference",
        "its scales are float32 for results of float64 too",
        when=_of("double"),
        rtol=1e-4,
        atol=1e-4,
    ),
    Known(
        "Resize|Upsample",
        "onnx.reference",
        "integers are cut off after a sum that its float32 scales put beside the whole number",
        when=lambda case: "int" in case.dtype,
        atol=1.0,
    ),
    Known("AveragePool", "onnx.reference", "it counts padding, which versions before 7 do not", until=6),
    Known(
        "MaxPool|AveragePool|LpPool",
        "onnx.reference",
        "its shapes and places are wrong where padding is not the same at both ends",
        when=lambda case: case.dtype != "float" and bool({"pads", "auto_pad", "ceil_mode"} & set(case.attributes)),
    ),
    Known(
        "GlobalMaxPool",
        "onnx.reference",
        "its result for one spatial axis has lost a dim",
        when=lambda case: case.inputs[0] is not None and case.inputs[0].array.ndim == 3,
    ),
    Known("LRN", "onnx.reference", "its window leaves out channels", when=_of("double", "float16", "bfloat16")),
    Known(
        "RNN|GRU|LSTM",
        "onnx.reference",
        "it knows neither clip, input_forget, sequence_lens, direction nor layout",
        when=lambda case: (
            bool({"clip", "layout", "direction", "input_forget"} & set(case.attributes))
            or (len(case.inputs) > 4 and case.inputs[4] is not None)
        ),
    ),
)


def known(case: Case, reference: str) -> Known | None:
    """The entry that says why ``reference`` differs on ``case``, or None."""
    for entry in KNOWN:
        in_range = entry.since <= case.opset <= entry.until and reference.startswith(entry.reference)
        if in_range and re.fullmatch(entry.op, case.op) and entry.when(case):
            return entry
    return None
