"""The strict list of cases that are expected to fail, each with the stage at which it does and the reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.suite.execution import CaseResult

PATH = Path(__file__).with_name("expected_failures.yaml")

HEADER = """\
# The cases of ONNX's backend suite that are expected to fail: where, with which finding, and why. Strict: a case that
# passes, or fails elsewhere, fails the test. Written by tools/update_expected_failures.py from a measured run.
"""


@dataclass(frozen=True)
class Expectation:
    """How a case is expected to fail."""

    stage: str
    code: str
    reason: str


def load(path: Path = PATH) -> dict[str, Expectation]:
    """The expected failures by the id of the case.

    Raises:
        ValueError: for a case that is listed twice.
    """
    result: dict[str, Expectation] = {}
    for group in yaml.safe_load(path.read_text()) or [] if path.exists() else []:
        expectation = Expectation(group["stage"], group.get("code", ""), group["reason"])
        for case in group["cases"]:
            if case in result:
                raise ValueError(f"{path.name} lists {case} twice")
            result[case] = expectation
    return result


def dump(results: Iterable[CaseResult]) -> str:
    """The list for the failures among ``results``: by stage and code, the largest group first."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for result in results:
        if result.stage != "pass":
            groups[result.stage, result.code, _reason(result)].append(f"{result.kind}/{result.name}")
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], item[0][1], -len(item[1]), item[0][2]))
    document = [
        {"stage": stage, **({"code": code} if code else {}), "reason": reason, "cases": sorted(cases)}
        for (stage, code, reason), cases in ordered
    ]
    return HEADER + yaml.safe_dump(document, sort_keys=False, width=116, allow_unicode=True)


def _reason(result: CaseResult) -> str:
    """The finding's reason; of numbers that differ not how much, which varies between machines."""
    if result.stage == "numerics":
        return "the numbers differ by more than the case's own tolerance"
    text = result.reason.strip().splitlines()[0] if result.reason.strip() else "no reason is known"
    return f"{result.op}: {text}" if result.op and result.op not in text else text


def problem(result: CaseResult, expected: Expectation | None) -> str:
    """What is not as expected; "" where all is."""
    if expected is None:
        return "" if result.stage == "pass" else f"fails at {result.stage}: {result.code} {result.reason}"
    if result.stage == "pass":
        return "passes, but is listed as a failure; run tools/update_expected_failures.py"
    if (result.stage, result.code) != (expected.stage, expected.code):
        found, wanted = f"{result.stage} {result.code}".strip(), f"{expected.stage} {expected.code}".strip()
        return f"fails at {found} ({result.reason}), but is expected to fail at {wanted}"
    return ""


def problems(results: Iterable[CaseResult], expected: Mapping[str, Expectation]) -> list[str]:
    """`problem` of many cases, with their ids."""
    found = [(f"{item.kind}/{item.name}", item) for item in results]
    return [f"{name} {text}" for name, item in found if (text := problem(item, expected.get(name)))]
