"""The hunt through one row: hypothesis draws cases, each is judged, and every kind of failure is shrunk."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from onnx2torch_mlir.isolation import Worker
from onnx2torch_mlir.specs import OperatorVersion, Outcome, Row, default_ledger, default_table, resolve
from tools.fuzz_ops.case import Case
from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.execute import Verdict, judge
from tools.fuzz_ops.strategies import Strategy, strategy_of

SHRINK_SECONDS = 30.0
"""How long one failure is made smaller."""


@dataclass(frozen=True)
class Target:
    """A row with the versions of its operator; without a row, one version whose function body is expanded."""

    domain: str
    op: str
    since: int
    versions: tuple[OperatorVersion, ...]
    row: Row | None = None

    def __str__(self) -> str:
        return f"{self.domain}::{self.op} {self.since}"

    @property
    def strategy(self) -> Strategy | None:
        """How its cases are drawn, or None."""
        return strategy_of(self.domain, self.op, self.row)


@dataclass
class Hunt:
    """What became of the draws of one target; ``failures`` holds the smallest case of each kind of failure."""

    target: Target
    drawn: list[tuple[Case, Verdict]] = field(default_factory=list)
    failures: list[tuple[Case, Verdict]] = field(default_factory=list)
    note: str = ""


class _Failed(Exception):
    """Tells hypothesis that a case shows the failure that is being shrunk."""


def targets() -> Iterator[Target]:
    """Every row, and every version without one."""
    table, ledger = default_table(), default_ledger()
    for domain in ledger.domains():
        known: dict[tuple[str, int], list[OperatorVersion]] = {}
        rows: dict[tuple[str, int], Row | None] = {}
        for version in ledger.versions(domain):
            if version.deprecated:
                continue
            found = resolve(table, version)
            if found.outcome is Outcome.UNEXPLAINED:
                continue
            key = (version.op, version.since_version if found.row is None else found.row.since)
            known.setdefault(key, []).append(version)
            rows[key] = found.row
        for (op, since), versions in known.items():
            yield Target(domain, op, since, tuple(versions), rows[op, since])


def hunt(
    target: Target,
    worker: Worker,
    *,
    draws: int,
    seed: int,
    special: bool = False,
    until: float = float("inf"),
    shrink_seconds: float = SHRINK_SECONDS,
    skipped: int = 0,
) -> Hunt:
    """Judge ``draws`` cases of ``target``, fewer where time is up (``until``, of `time.monotonic`) or nothing new comes.

    The first ``skipped`` ones are not judged: hypothesis begins with the simplest that there is.
    """
    strategy = target.strategy
    result = Hunt(target)
    assert strategy is not None
    seen: set[str] = set()
    rounds = 0
    while len(result.drawn) < draws and time.monotonic() < until and rounds < 12:
        rounds += 1
        before = len(result.drawn)
        search = _Search(result, worker, draws, seen, until, shrink_seconds, skipped)
        _run(search, target, strategy, seed + 7919 * rounds, max(1, draws - before) + skipped, special)
        if search.smallest is not None:
            result.failures.append(search.smallest)
            seen.add(signature(search.smallest[1]))
        elif len(result.drawn) == before or search.error:
            result.note = search.error
            break
    return result


@dataclass
class _Search:
    """One run of hypothesis: draws until a failure of a kind not ``seen``, then shrinks it."""

    result: Hunt
    worker: Worker
    draws: int
    seen: set[str]
    until: float
    shrink_seconds: float
    skipped: int
    kind: str = ""
    shrink_until: float = 0.0
    smallest: tuple[Case, Verdict] | None = None
    error: str = ""

    def check(self, case: Case) -> None:
        if self.kind:
            if time.monotonic() > self.shrink_until:
                return
            verdict = judge(self.worker, case)
            if signature(verdict) == self.kind:
                if self.smallest is None or case.size <= self.smallest[0].size:
                    self.smallest = case, verdict
                raise _Failed
            return
        if self.skipped:
            self.skipped -= 1
            return
        if len(self.result.drawn) >= self.draws or time.monotonic() > self.until:
            return
        verdict = judge(self.worker, case)
        self.result.drawn.append((case, verdict))
        if verdict.failed and signature(verdict) not in self.seen:
            self.kind = signature(verdict)
            self.shrink_until = min(time.monotonic() + self.shrink_seconds, self.until)
            self.smallest = case, verdict
            raise _Failed


def _run(search: _Search, target: Target, strategy: Strategy, seed: int, draws: int, special: bool) -> None:
    @st.composite
    def cases(draw: st.DrawFn) -> Case:
        version = draw(st.sampled_from(target.versions[::-1]))
        drawn = Draw(draw, version, special)
        strategy(drawn)
        return drawn.case()

    @hypothesis.seed(seed)
    @settings(
        max_examples=draws,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @hypothesis.given(cases())
    def test(case: Case) -> None:
        search.check(case)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test()
    except _Failed:
        pass
    except (hypothesis.errors.Flaky, ExceptionGroup):
        # The shrinking was cut short by its time limit.
        pass
    except Exception as error:
        search.error = f"{type(error).__name__}: {error}"


def signature(verdict: Verdict) -> str:
    """The kind of a failure: two of the same kind have one cause, most likely."""
    if verdict.outcome != "differ":
        return f"{verdict.outcome} {verdict.code} {re.sub(r'[0-9.]+', 'N', verdict.reason)[:60]}"
    what = next((word for word in ("dtype", "shape", "outputs") if f" {word} " in verdict.reason), "numbers")
    return f"differ {what}"
