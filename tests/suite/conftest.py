"""The suite's cases are run by worker processes of their own; the tests look at what came out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol

import pytest

from onnx2torch_mlir.isolation import Worker
from tests.suite.cases import Case
from tests.suite.execution import CaseResult
from tests.suite.pool import run_case_in, run_cases


class Outcomes(Protocol):
    """Gives the result of a case."""

    def __call__(self, case: Case) -> CaseResult: ...


@pytest.fixture(scope="session")
def outcome(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """Runs cases: all that are selected, in two workers at once; under pytest-xdist each as it comes, in one worker."""
    if hasattr(request.config, "workerinput"):
        worker = Worker()
        yield lambda case: run_case_in(worker, case)
        worker.close()
        return
    cases = [_case(item) for item in request.session.items]
    yield _Background([case for case in cases if case is not None])


def _case(item: pytest.Item) -> Case | None:
    found = getattr(getattr(item, "callspec", None), "params", {}).get("case")
    return found if isinstance(found, Case) else None


class _Background:
    """Runs all cases at once in the background; a caller waits for the one it asks for."""

    def __init__(self, cases: list[Case]) -> None:
        self._results: dict[str, CaseResult] = {}
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=run_cases, args=(cases,), kwargs={"done": self._done}, daemon=True)
        self._thread.start()

    def _done(self, result: CaseResult) -> None:
        with self._changed:
            self._results[f"{result.kind}/{result.name}"] = result
            self._changed.notify_all()

    def __call__(self, case: Case) -> CaseResult:
        with self._changed:
            while case.id not in self._results:
                assert self._thread.is_alive(), "the workers ended without a result"
                self._changed.wait(timeout=1)
            return self._results[case.id]
