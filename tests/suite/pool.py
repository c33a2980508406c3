"""Many cases in a few worker processes; a case that crashes or hangs costs its worker, nothing else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from onnx2torch_mlir.isolation import TaskFailed, Worker, WorkerCrashed, WorkerTimeout
from tests.suite.cases import Case
from tests.suite.execution import CaseResult

TASK = "tests.suite.execution:run_case"
TIMEOUT = 60.0
LIGHT_TIMEOUT = 900.0


def run_cases(
    cases: Sequence[Case],
    *,
    eager: bool = False,
    workers: int = 2,
    done: Callable[[CaseResult], None] = lambda result: None,
) -> list[CaseResult]:
    """The results of ``cases``, in their order. ``done`` is called with each as it comes."""
    results: dict[str, CaseResult] = {}
    waiting: queue.SimpleQueue[Case | None] = queue.SimpleQueue()
    # The long ones first, so that no worker is left with one at the end.
    for case in sorted(cases, key=lambda case: case.kind != "light"):
        waiting.put(case)
    for _ in range(workers):
        waiting.put(None)
    lock = threading.Lock()

    def serve() -> None:
        worker = Worker()
        try:
            while (case := waiting.get()) is not None:
                result = run_case_in(worker, case, eager)
                with lock:
                    results[case.id] = result
                    done(result)
        finally:
            worker.close()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[case.id] for case in cases]


def run_case_in(worker: Worker, case: Case, eager: bool = False) -> CaseResult:
    """The result of one case in ``worker``; a crash and a hang are results too."""
    limit = LIGHT_TIMEOUT if case.kind == "light" else TIMEOUT
    try:
        result: CaseResult = worker.call(TASK, case, eager, timeout=limit)
        return result
    except WorkerCrashed as crash:
        return CaseResult(case.name, case.kind, "crash", reason=f"{crash.manner}: {crash.last_line}")
    except WorkerTimeout as timeout:
        return CaseResult(case.name, case.kind, "timeout", reason=f"not done after {timeout.seconds:g} s")
    except TaskFailed as failure:
        return CaseResult(case.name, case.kind, "error", reason=str(failure).strip().splitlines()[-1])
