"""A short run of the differential tester: a draw of every row, always the same one. ``make fuzz`` is the long run."""

import io
import math
import os
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from rich.console import Console

from onnx2torch_mlir.isolation import Worker
from onnx2torch_mlir.model import read as load
from onnx2torch_mlir.verification import load_inputs
from tools.fuzz_ops import OUTCOMES
from tools.fuzz_ops.case import Case, Given
from tools.fuzz_ops.execute import Verdict, judge, run
from tools.fuzz_ops.hunt import Hunt, hunt, targets
from tools.fuzz_ops.report import is_refused, print_report, records, write_reproducer
from tools.fuzz_ops.strategies import UNDRAWN

DRAWS = 1
SHARDS = 6

OPEN: dict[str, str] = {}
"""Rows on which a draw of this run fails, with the reason; one that no longer fails has to leave the list."""


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX2MLIR_CACHE", "off")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rows(shard: int) -> None:
    wanted = [item for item in targets() if item.strategy is not None and not is_refused(item)][shard::SHARDS]
    worker = Worker()
    try:
        hunts = [hunt(item, worker, draws=DRAWS, seed=1, shrink_seconds=0, skipped=1) for item in wanted]
    finally:
        worker.close()
    assert not [f"{item.target}: {item.note}" for item in hunts if item.note]
    failed = {
        str(item.target): [f"{verdict.outcome}: {case.command()}: {verdict.reason}" for case, verdict in item.failures]
        for item in hunts
        if item.failures
    }
    listed = {str(item) for item in wanted} & set(OPEN)
    assert {name: told for name, told in failed.items() if name not in listed} == {}
    assert listed - set(failed) == set(), "these rows agree now: take them out of OPEN"


def test_every_row_is_drawn_or_says_why_not() -> None:
    bare = {(item.domain, item.op) for item in targets() if item.strategy is None and not is_refused(item)}
    assert bare == set(UNDRAWN)
    assert all(UNDRAWN.values())


def given(array: np.ndarray, *dims: int | str) -> Given:
    return Given(array, dims or array.shape)


ADD = Case("ai.onnx", "Add", 14, (given(np.ones(3, np.float32), "n"), given(np.ones(1, np.float32))), dtype="float")


def test_a_case_that_agrees() -> None:
    verdict = run(ADD)
    assert (verdict.outcome, verdict.reached) == ("agree", "ran")
    assert ADD.dynamic


def test_a_model_that_no_reference_runs() -> None:
    broken = replace(ADD, inputs=(given(np.ones(3, np.float32)), given(np.ones(2, np.float32))))
    assert run(broken).outcome == "both-refuse"


def test_wrong_numbers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz_ops.execute._ours", lambda case, model: [np.zeros(3, np.float32)])
    verdict = run(ADD)
    assert verdict.outcome == "differ" and verdict.failed


def test_a_reproducer_holds_the_inputs(tmp_path: Path) -> None:
    bf16 = np.array([1.5, -2.0, 3.0]).astype(ml_dtypes.bfloat16)
    parts = Given([np.ones(2, np.float32), np.zeros(3, np.float32)], (), type=onnx.helper.make_sequence_type_proto(FLOATS))
    for drawn in (replace(ADD, inputs=(given(bf16), given(bf16))), replace(ADD, op="SequenceLength", inputs=(parts,))):
        folder = write_reproducer(tmp_path, drawn, Verdict("differ", "ran", reason="wrong"), 0)
        assert folder is not None and "--inputs inputs.npz" in (folder / "command.sh").read_text()
        read = load_inputs(load(folder / "model.onnx"), folder / "inputs.npz")
        for name, value in drawn.feeds().items():
            assert len(read[name]) == len(value)
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(read[name], value, strict=True))


FLOATS = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)


def abort(case: Case) -> None:
    os.abort()


def test_a_crash_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz_ops.execute.TASK", "tests.fuzz.test_fuzz:abort")
    worker = Worker()
    try:
        assert judge(worker, ADD).outcome == "crash"
    finally:
        worker.close()


def test_the_summary_counts_every_draw() -> None:
    relu = next(item for item in targets() if item.op == "Relu")
    verdicts = [
        Verdict("agree", "ran", oracle="onnxruntime 1.31.1"),
        Verdict("agree", "ran", oracle="onnxruntime 1.31.1 as Relu-13 (float64 as float32)"),
        Verdict("refused", code="O2M-C003", reason="no"),
        Verdict("disputed", "ran", reason="as onnx.reference; onnxruntime: 3 numbers differ"),
        Verdict("both-refuse"),
        Verdict("differ", "ran", reason="numbers"),
    ]
    console = Console(width=200, file=io.StringIO(), record=True)
    print_report(console, [Hunt(relu, [(ADD, item) for item in verdicts], [(ADD, verdicts[-1])])], [], 3.0)
    told = dict(line.strip().split(": ", 1) for line in console.export_text().splitlines()[-8:])
    assert told == {
        "rows": "1 (0 refuse by themselves, 0 have no strategy)",
        "draws": "6 in 3 s",
        "agreed": "2 (onnxruntime 1, onnxruntime restated, in other types 1)",
        "refused": "1 (O2M-C003 1)",
        "disputed": "1 (as onnx.reference 1)",
        "no reference": "1",
        "failed": "1 (differ 1)",
        "kinds of failure": "1",
    }


def test_draws_are_the_same_for_the_same_seed() -> None:
    relu = next(item for item in targets() if item.op == "Relu")
    worker = Worker()
    try:
        first, second = (hunt(relu, worker, draws=4, seed=5) for _ in range(2))
    finally:
        worker.close()
    assert [case.command() for case, _ in first.drawn] == [case.command() for case, _ in second.drawn]
    told = records([first], [])
    assert sum(item["count"] for item in told) == 4
    assert all(item["outcome"] in OUTCOMES and not math.isnan(item["since"]) for item in told)
