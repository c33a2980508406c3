"""One case, run natively and held against the references. Runs in a worker process."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from onnx2torch_mlir.isolation import TaskFailed, Worker, WorkerCrashed, WorkerTimeout
from tools.fuzz_ops.case import Array, Case
from tools.fuzz_ops.known import Known, known
from tools.fuzz_ops.oracle import Oracle, oracle
from tools.fuzz_ops.properties import Property, property_of
from tools.fuzz_ops.widen import Wanted

TASK = "tools.fuzz_ops.execute:run"
REFERENCE_TASK = "tools.fuzz_ops.execute:reference"
TIMEOUT = 60.0


@dataclass(frozen=True)
class Verdict:
    """How a case ended: the fields of a record (see the package), in ``detail`` more than one line, and the ``oracle``."""

    outcome: str
    reached: str = ""
    code: str = ""
    reason: str = ""
    detail: str = ""
    oracle: str = ""

    @property
    def failed(self) -> bool:
        """Whether something has to be mended."""
        return self.outcome in ("differ", "traceback", "crash")


def judge(worker: Worker, case: Case) -> Verdict:
    """The verdict on ``case``, run in ``worker``; a process that ends is a verdict too."""
    try:
        verdict: Verdict = worker.call(TASK, case, timeout=TIMEOUT)
        return verdict
    except (WorkerCrashed, WorkerTimeout) as crash:
        try:
            worker.call(REFERENCE_TASK, case, timeout=TIMEOUT)
        except (WorkerCrashed, WorkerTimeout):
            return Verdict("both-refuse", reason="the reference's process ended")
        except Exception:
            pass
        return Verdict("crash", reason=str(crash).strip().splitlines()[0])
    except TaskFailed as failure:
        return Verdict("traceback", reason=str(failure).strip().splitlines()[-1], detail=str(failure))
    except Exception as error:
        return Verdict("traceback", reason=f"{type(error).__name__}: {error}")


def run(case: Case) -> Verdict:
    """Convert, compile and run ``case``, and compare."""
    from onnx2torch_mlir.diagnostics import Refusal

    try:
        model = case.model()
        found = oracle(case)
    except Refusal as refusal:
        # A model that no reference takes must not end in a traceback either.
        ours = _ours(case, model)
        if isinstance(ours, Verdict) and ours.outcome == "traceback":
            return ours
        return Verdict("both-refuse", reason=refusal.findings[0].reason)
    except Exception as error:
        return Verdict("both-refuse", reason=f"no model: {type(error).__name__}: {error}")
    return replace(_held_against(found), oracle=found.name)


def _held_against(found: Oracle) -> Verdict:
    case, wanted = found.case, found.wanted
    ours = _ours(case, case.model())
    if isinstance(ours, Verdict):
        return ours
    if found.name.startswith("onnx.reference"):
        wanted = [Wanted(value) for value in _as_declared(found.values, ours)]
    if holds := property_of(case):
        return _held(case, holds, ours, [item.plain for item in wanted])
    difference = _difference(ours, wanted)
    if not difference:
        return Verdict("agree", "ran")
    if found.name.startswith("onnxruntime"):
        second = _evaluated(case)
        if second is not None and not _difference(ours, [Wanted(value) for value in _as_declared(second, ours)]):
            return Verdict("disputed", "ran", reason=f"as onnx.reference; {found.name}: {difference}")
    entry = known(case, found.name)
    if entry is not None and not _difference(ours, wanted, entry):
        return Verdict("disputed", "ran", reason=f"{found.name}: {entry.reason}")
    return Verdict("differ", "ran", reason=f"{difference} ({found.name})")


def _held(case: Case, holds: Property, ours: list[Any], theirs: list[Any]) -> Verdict:
    """The verdict on random numbers: of the reference's types and shapes, and with the property that they have."""
    shape = [(item.dtype, item.shape) for item in ours]
    wanted = [(item.dtype, item.shape) for item in theirs]
    if shape != wanted:
        return Verdict("differ", "ran", reason=f"types and shape {shape}, the reference {wanted}")

    def again() -> list[Any]:
        found = _ours(case, case.model())
        return [] if isinstance(found, Verdict) else found

    broken = holds(case, ours, again)
    return Verdict("differ", "ran", reason=broken) if broken else Verdict("agree", "ran")


def _as_declared(theirs: list[Any], ours: list[Any]) -> list[Any]:
    """The results of onnx.reference in the types that ONNX declares (ours): it leaves NumPy's promoted ones."""
    if isinstance(theirs, list) != isinstance(ours, list):
        return theirs
    pairs = zip(theirs, [*ours, *[None] * (len(theirs) - len(ours))], strict=False)
    return [_as_declared_item(their, mine) for their, mine in pairs]


def _as_declared_item(their: Any, mine: Any) -> Any:
    if isinstance(their, list) and isinstance(mine, list):
        return _as_declared(their, mine)
    if isinstance(their, np.ndarray | np.generic) and isinstance(mine, np.ndarray) and _kind(their.dtype) == _kind(mine.dtype):
        return np.asarray(their).astype(mine.dtype)
    return their


def _kind(dtype: np.dtype[Any]) -> str:
    return "f" if dtype.name in ("bfloat16", "float16") else dtype.kind


def reference(case: Case) -> None:
    """Run the reference alone."""
    oracle(case)


def _evaluated(case: Case) -> list[Any] | None:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results: Any = ReferenceEvaluator(case.model()).run(None, case.feeds())
            return [item if isinstance(item, list | dict) or item is None else np.asarray(item) for item in results]
    except Exception:
        return None


def _ours(case: Case, model: onnx.ModelProto) -> list[Array] | Verdict:
    from onnx2torch_mlir.diagnostics import Refusal, Severity
    from onnx2torch_mlir.model import read
    from onnx2torch_mlir.program import convert

    reached = ""
    try:
        program = convert(read(model))
        reached = "converted"
        engine = program.compile()
        reached = "lowered"
        feeds: Mapping[str, Any] = case.feeds()
        return list(engine.run(feeds))
    except Refusal as refusal:
        errors = [finding for finding in refusal.findings if finding.severity is Severity.ERROR] or refusal.findings
        first = errors[0]
        outcome = "traceback" if first.code == "O2M-C009" else "refused"
        return Verdict(outcome, reached, first.code, f"[{first.case}] {first.reason}" if first.case else first.reason)
    except Exception as error:
        line = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {line[0] if line else ''}"
        return Verdict("traceback", reached, type(error).__name__, reason, traceback.format_exc())


def _difference(ours: list[Any], wanted: list[Wanted], entry: Known | None = None) -> str:
    """What differs, in words, or ""; more of it is allowed by ``entry``."""
    from onnx2torch_mlir.verification.comparison import compare_values

    if len(ours) != len(wanted):
        return f"{len(ours)} outputs, the reference has {len(wanted)}"
    rtol, atol = (None, None) if entry is None else (entry.rtol, entry.atol)
    for index, (mine, theirs) in enumerate(zip(ours, wanted, strict=True)):
        if entry is not None and index in entry.outputs:
            continue
        mine, value = theirs.in_its_type(mine)
        if entry is not None and entry.nan and mine.shape == value.shape:
            mine = np.where(np.isnan(mine) | np.isnan(value), value, mine)
        if entry is not None and entry.steps and mine.dtype == value.dtype and mine.shape == value.shape:
            near = np.abs(mine.astype(np.int64) - value.astype(np.int64)) <= entry.steps
            mine = np.where(near, value, mine)
        for compared in compare_values(f"out{index}", mine, value, rtol, atol):
            if not compared.agrees:
                return compared.reason()
    return ""
