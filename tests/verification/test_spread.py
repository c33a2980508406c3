"""Differences that are no larger than those of the reference from itself."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import parser

from onnx2torch_mlir.diagnostics import Severity
from onnx2torch_mlir.model import read
from onnx2torch_mlir.verification import compare, run_reference, verify
from onnx2torch_mlir.verification.spread import as_close, moved

SENSITIVE = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 64] x, float[64, 64] w) => (float[batch, 64] y, int64[batch] z) <float f = {3e7}, float q = {0.001}> {
  s = MatMul(x, w)
  r = Tanh(s)
  t = Mul(r, f)
  u = Sin(t)
  y = Mul(u, q)
  z = ArgMax<axis = 1, keepdims = 0>(u)
}"""
EXACT = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch] x, float[batch] w) => (float[batch] y) { s = Add(x, w)  y = Floor(s) }"""


def _feeds(shape: tuple[int, ...], other: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=shape).astype(np.float32), "w": 0.05 * rng.normal(size=other).astype(np.float32)}


def _judged(text: str, feeds: dict[str, np.ndarray], error: float, index: int = 0) -> tuple[bool, float | None]:
    model = parser.parse_model(text)
    theirs = run_reference(model, feeds).outputs
    outputs = [compare(name.name, value, value) for name, value in zip(model.graph.output, theirs, strict=True)]
    ours = (theirs[index] + np.full_like(theirs[index], error)).astype(theirs[index].dtype)
    outputs[index] = compare(model.graph.output[index].name, ours, theirs[index])
    assert not outputs[index].agrees
    found = as_close(model, read(model), feeds, theirs, outputs)[index]
    return found.agrees, found.spread


def test_what_rounding_decides_is_as_close() -> None:
    feeds = _feeds((8, 64), (64, 64))
    agrees, spread = _judged(SENSITIVE, feeds, 0.0005)
    assert agrees
    assert spread is not None and 0.0005 < spread < 0.0021


def test_what_is_farther_differs() -> None:
    assert _judged(SENSITIVE, _feeds((8, 64), (64, 64)), 0.01) == (False, None)


def test_what_is_exact_has_no_spread() -> None:
    whole = {"x": np.arange(5, dtype=np.float32), "w": np.ones(5, np.float32)}
    assert _judged(EXACT, whole, 1.0) == (False, None)


def test_not_a_number_is_never_as_close() -> None:
    feeds = _feeds((8, 64), (64, 64))
    model = parser.parse_model(SENSITIVE)
    theirs = run_reference(model, feeds).outputs
    ours = theirs[0].copy()
    ours[0, 0] = np.nan
    outputs = [compare("y", ours, theirs[0]), compare("z", theirs[1], theirs[1])]
    assert as_close(model, read(model), feeds, theirs, outputs)[0].problem == "numbers"


def test_a_few_other_choices_are_as_close_and_many_are_not() -> None:
    model = parser.parse_model(SENSITIVE)
    feeds = _feeds((64, 64), (64, 64))
    theirs = run_reference(model, feeds).outputs
    same = compare("y", theirs[0], theirs[0])

    def judged(rows: int) -> bool:
        ours = theirs[1].copy()
        ours[:rows] = (ours[:rows] + 1) % 64
        return as_close(model, read(model), feeds, theirs, [same, compare("z", ours, theirs[1])])[1].agrees

    assert judged(3)
    model = parser.parse_model(SENSITIVE.replace("3e7", "1"))
    theirs = run_reference(model, feeds).outputs
    same = compare("y", theirs[0], theirs[0])
    assert not judged(3)


def test_results_of_sums_are_moved_and_nothing_else() -> None:
    model = moved(read(parser.parse_model(SENSITIVE)), 0)
    onnx.checker.check_model(model)
    added = [node.output[0] for node in model.graph.node if node.input[-1].endswith("/factor")]
    assert added == ["s", "r", "u"]


def test_explicit_limits_are_strict() -> None:
    """Our Tanh rounds otherwise, which the model makes much of: a warning, or an error where limits are given."""
    model, feeds = parser.parse_model(SENSITIVE), _feeds((64, 64), (64, 64))
    report = verify(model, feeds, eager=True)
    assert report.passed and report.exit_code == 0
    assert ("O2M-V005", Severity.WARNING) in [(item.code, item.severity) for item in report.findings if item.case == "y"]
    assert report.outputs[0].spread is not None and "as close as the reference is to itself" in str(report)
    strict = verify(model, feeds, eager=True, rtol=1e-4)
    assert "O2M-V001" in [item.code for item in strict.findings]


def test_neighbours_are_moved_by_other_shares_and_the_infinite_not_at_all() -> None:
    model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Exp(x) }')
    x = np.array([0.5, 0.5001, 0.7, 1.3, np.inf, -np.inf, np.nan], np.float32)
    (plain,) = run_reference(model, {"x": x}).outputs
    (other,) = run_reference(moved(read(model), 1), {"x": x}).outputs
    shares = other[:4] / plain[:4] - 1
    assert len(set(shares)) > 2
    assert np.abs(shares).max() <= 2.0**-22 * 1.01
    assert np.array_equal(other[4:], plain[4:], equal_nan=True)


QUANTIZED = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 256] x) => (uint8[batch, 256] y) { s = Tanh(x)  y, scale, zero = DynamicQuantizeLinear(s) }"""


def test_what_is_quantized_is_rounded_otherwise() -> None:
    x = np.random.default_rng(0).normal(size=(512, 256)).astype(np.float32)
    (plain,) = run_reference(parser.parse_model(QUANTIZED), {"x": x}).outputs
    others = [run_reference(moved(read(parser.parse_model(QUANTIZED)), seed), {"x": x}).outputs[0] for seed in range(3)]
    assert any(not np.array_equal(other, plain) for other in others)
