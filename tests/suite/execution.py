"""One case, run and judged. Runs in a worker process."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tests.suite.cases import Case

Array = np.ndarray[Any, Any]

_ROOMS = {
    "model": "read",
    "specs": "read",
    "conversion": "convert",
    "families": "convert",
    "domains": "convert",
    "core": "convert",
    "lowering": "lower",
    "handoff": "lower",
    "engine": "compile",
    "verification": "run",
}


@dataclass(frozen=True)
class CaseResult:
    """How a case ended.

    ``stage`` is "pass", or where it failed: a stage of a finding (read, convert, lower, compile, run), what of the
    result is wrong (structure, shape, dtype, numerics), "crash" or "timeout" of the whole case, or "error" for an
    exception that is no finding and comes from no room. ``code``, ``op``, ``case``, ``reason``: the first finding's.
    """

    name: str
    kind: str
    stage: str
    code: str = ""
    op: str = ""
    case: str = ""
    reason: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, empty fields left out."""
        return {key: value for key, value in asdict(self).items() if value != ""}


def run_case(case: Case, eager: bool) -> CaseResult:
    """Run ``case`` through the backend and compare as ONNX's runner does."""
    start = time.perf_counter()
    ended = _run(case, eager)
    return CaseResult(case.name, case.kind, **ended, seconds=round(time.perf_counter() - start, 3))


def _run(case: Case, eager: bool) -> dict[str, str]:
    import onnx

    from onnx2torch_mlir import backend
    from onnx2torch_mlir.diagnostics import Refusal, Severity

    try:
        # A light model is given as the runner gives it too: parsed, without a path.
        model = onnx.load(case.model) if isinstance(case.model, str) else onnx.ModelProto.FromString(case.model)
        prepared = backend.prepare(model, "CPU", eager=eager)
        for inputs, expected in case.data_sets:
            verdict = _judge(list(prepared.run(inputs)), expected, case)
            if verdict:
                return verdict
    except Refusal as refusal:
        errors = [finding for finding in refusal.findings if finding.severity is Severity.ERROR] or refusal.findings
        first = errors[0]
        stage = "run" if first.stage == "usage" else str(first.stage)
        op = first.node.op_type if first.node is not None else ""
        return {"stage": stage, "code": first.code, "op": op, "case": first.case, "reason": first.reason}
    except Exception as error:
        return {"stage": _stage_of(error), "code": "error", "reason": f"{type(error).__name__}: {error}"}
    return {"stage": "pass"}


def _stage_of(error: BaseException) -> str:
    """The stage by the innermost frame that lies in one of the rooms."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = frame.filename.rpartition("onnx2torch_mlir/")[2].split("/")
        if "onnx2torch_mlir/" in frame.filename and parts[0] in _ROOMS:
            return _ROOMS[parts[0]]
    return "error"


def _judge(outputs: list[Any], expected: list[Any], case: Case) -> dict[str, str]:
    """Empty where the runner's own comparison accepts ``outputs``; else what is wrong with them."""
    from onnx.backend.test.runner import Runner

    try:
        Runner.assert_similar_outputs(expected, outputs, case.rtol, case.atol)
    except (AssertionError, TypeError, AttributeError) as error:
        return _difference(outputs, expected) or {"stage": "structure", "reason": str(error).strip()}
    return {}


def _difference(outputs: list[Any], expected: list[Any]) -> dict[str, str]:
    checks: list[tuple[str, Callable[[Array], Any]]] = [("shape", lambda a: a.shape), ("dtype", lambda a: a.dtype)]
    if len(outputs) != len(expected) or not all(isinstance(item, np.ndarray) for item in outputs):
        return {}
    for index, (got, want) in enumerate(zip(outputs, map(np.asarray, expected), strict=True)):
        for stage, of in checks:
            if of(got) != of(want):
                return {"stage": stage, "reason": f"output {index} has {stage} {of(got)}, expected {of(want)}"}
    worst = [_error(got, np.asarray(want)) for got, want in zip(outputs, expected, strict=True)]
    return {"stage": "numerics", "reason": "; ".join(f"output {i}: {text}" for i, text in enumerate(worst) if text)}


def _error(got: Array, want: Array) -> str:
    if got.size == 0 or want.dtype == object:
        return "" if np.array_equal(got, want) else "differs"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b)
    unequal = int(np.sum(~((a == b) | (np.isnan(a) & np.isnan(b)))))
    finite = error[np.isfinite(error)]
    worst = float(finite.max()) if finite.size else float("nan")
    return f"{unequal} of {got.size} differ, by {worst:.3g} at most" if unequal else ""
