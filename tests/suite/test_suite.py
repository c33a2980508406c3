"""All of ONNX's backend suite on Linalg and native code; what fails is listed, with its stage and reason."""

from __future__ import annotations

import pytest

from tests.suite.cases import Case, load_cases
from tests.suite.conftest import Outcomes
from tests.suite.execution import CaseResult
from tests.suite.expectations import Expectation, dump, load, problem

CASES = load_cases()
EXPECTED = load()


def test_the_suite_is_complete() -> None:
    assert len(CASES) == 2033
    assert len({case.id for case in CASES}) == len(CASES)


def test_expected_failures_name_cases() -> None:
    assert EXPECTED.keys() <= {case.id for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case: Case, outcome: Outcomes) -> None:
    told = problem(outcome(case), EXPECTED.get(case.id))
    assert not told, f"{case.id} {told}"


FAILED = CaseResult("test_a", "node", "convert", "O2M-C001", "Foo", "", "there is none")


@pytest.mark.parametrize(
    ("result", "expected", "accepted"),
    [
        (FAILED, None, False),
        (FAILED, Expectation("convert", "O2M-C001", "whatever it says"), True),
        (FAILED, Expectation("lower", "O2M-C001", ""), False),
        (FAILED, Expectation("convert", "O2M-C003", ""), False),
        (CaseResult("test_a", "node", "pass"), None, True),
        (CaseResult("test_a", "node", "pass"), Expectation("convert", "O2M-C001", ""), False),
    ],
)
def test_the_list_is_strict(result: CaseResult, expected: Expectation | None, accepted: bool) -> None:
    assert (problem(result, expected) == "") is accepted


def test_the_list_is_read_back_as_it_was_written(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "list.yaml"
    path.write_text(dump([FAILED, CaseResult("test_b", "simple", "numerics", reason="3 of 4 differ")]))
    found = load(path)
    assert found["node/test_a"] == Expectation("convert", "O2M-C001", "Foo: there is none")
    assert found["simple/test_b"].stage == "numerics"
