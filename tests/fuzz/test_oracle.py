"""What stands in for a reference that does not know a version or a type, held against numbers computed by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.hosting import OnnxruntimeSession
from tools.fuzz_ops.case import Case, Given
from tools.fuzz_ops.execute import _difference
from tools.fuzz_ops.known import KNOWN, known
from tools.fuzz_ops.oracle import oracle
from tools.fuzz_ops.restate import restated
from tools.fuzz_ops.widen import Unsuitable, Wanted, _exactly, narrowed, widened

X = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], np.float32)
SELU = 1.0507 * np.where(X > 0, X, 1.6732 * (np.exp(X) - 1))
HALF = np.float32(0.5)
ROW = np.arange(5, dtype=np.float32).reshape(1, 1, 5)


def case(op: str, opset: int, *inputs: Any, outputs: tuple[bool, ...] = (True,), **attributes: Any) -> Case:
    given = tuple(None if array is None else Given(np.asarray(array), np.asarray(array).shape) for array in inputs)
    return Case("ai.onnx", op, opset, given, attributes, outputs)


RESTATED: tuple[tuple[Case, Any], ...] = (
    (case("Add", 6, X, X[:, 0], axis=0, broadcast=1), X + X[:, :1]),
    (case("Sub", 1, X, X[0], broadcast=1), X - X[0]),
    (case("Less", 1, X.astype(np.float64), X[:, 0].astype(np.float64), axis=0, broadcast=1), X[:, :1] > X),
    (case("Gemm", 6, X, X.T, X[0, :2], broadcast=1), X @ X.T + X[0, :2]),
    (case("PRelu", 6, X, np.array([2, 3, 4], np.float32)), np.where(X < 0, X * [2, 3, 4], X)),
    (case("AveragePool", 1, ROW, kernel_shape=[3], pads=[1, 1]), [[[0.5, 1, 2, 3, 3.5]]]),
    (case("Selu", 1, X), SELU),
    (case("LpPool", 1, ROW, kernel_shape=[5], p=1.0), [[[10]]]),
    (case("Concat", 1, X, X), np.concatenate([X, X], 1)),
    (case("Pad", 1, X, paddings=[0, 1, 0, 2], value=7.0), np.pad(X, ((0, 0), (1, 2)), constant_values=7)),
    (case("Tile", 1, X, np.float32(2), np.float32(1)), np.tile(X, (1, 2))),
    (case("Cast", 1, X, to="INT32"), X.astype(np.int32)),
    (case("Clip", 1, X, max=2.0), np.minimum(X, 2)),
    (case("Clip", 6, X.astype(np.float64), min=-1.0), np.maximum(X, -1)),
    (case("Split", 1, X, split=[3], axis=1), X),
    (case("Abs", 1, X.astype(np.float64), consumed_inputs=[0]), np.abs(X)),
    (case("Upsample", 1, X[None, None], height_scale=2.0, width_scale=1.0), X[None, None].repeat(2, 2)),
    (case("Resize", 13, np.arange(4.0), None, np.float32([0.5]), mode="linear"), [0.5, 2.5]),
    (case("GlobalMaxPool", 22, np.zeros((0, 2, 3, 1, 4))), np.zeros((0, 2, 1, 1, 1))),
    (case("BitShift", 28, np.array([8, 9], np.uint16), np.array([1, 3], np.uint16), direction="RIGHT"), [4, 1]),
    (case("Mod", 28, X, X[0], fmod=1), np.fmod(X, X[0])),
    (
        case("QLinearConv", 10, np.uint8([[[3, 5]]]), HALF, np.uint8(1), np.int8([[[2]]]), HALF, np.int8(0), HALF, np.int8(-3)),
        [[[-1, 1]]],
    ),
    (case("SpaceToDepth", 28, ROW[..., None, :4], blocksize=1), ROW[..., None, :4]),
)


@pytest.mark.parametrize(("drawn", "expected"), RESTATED, ids=[f"{item.op}-{item.opset}" for item, _ in RESTATED])
def test_an_old_node_stated_by_another(drawn: Case, expected: Any) -> None:
    found = oracle(drawn)
    assert found.name.startswith("onnxruntime") and " as " in found.name
    np.testing.assert_allclose(np.asarray(found.values[0], np.float64), np.asarray(expected, np.float64), rtol=1e-5)


def test_recurrent_layout_is_a_transposition() -> None:
    rng = np.random.default_rng(0)
    data, w, r = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (1, 5, 4), (1, 5, 5)))
    found = oracle(case("RNN", 14, data, w, r, hidden_size=5, layout=1, outputs=(True, True)))
    state = np.zeros((2, 5))
    for step in range(3):
        state = np.tanh(data[:, step] @ w[0].T + state @ r[0].T)
        np.testing.assert_allclose(found.values[0][:, step, 0], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.values[1][:, 0], state, rtol=1e-5, atol=1e-6)


def test_versions_that_differ_in_meaning_are_not_exchanged() -> None:
    opsets = [stated.case.opset for stated in restated(case("Softmax", 1, X))]
    assert 13 not in opsets and opsets == []
    assert [stated.case.opset for stated in restated(case("Celu", 28, X))] == [12]


def test_doubles_are_compared_as_the_floats_they_were_computed_in() -> None:
    found = oracle(case("Softsign", 22, np.linspace(0.1, 0.7, 6)))
    assert "float64 as float32" in found.name
    held = found.case.inputs[0]
    assert held is not None and np.array_equal(held.array, held.array.astype(np.float32))
    ours = found.wanted[0].value.astype(np.float64)
    assert _difference([ours * (1 + 1e-7)], found.wanted) == ""
    assert _difference([ours * 1.01], found.wanted) != ""
    assert "dtype" in _difference([ours.astype(np.float32)], found.wanted)


def test_integers_are_widened_only_where_they_are_exact() -> None:
    with pytest.raises(Unsuitable):
        _exactly(np.array([2**62 + 1]), np.dtype(np.float64))
    with pytest.raises(Unsuitable):
        _exactly(np.array([2**63], np.uint64), np.dtype(np.int64))
    types = {item.array.dtype.name for wide in widened(case("Add", 14, np.int16([1]), np.int16([2]))) for item in wide.inputs}
    assert types == {"int64", "int32", "float64", "float32"}
    # The result's type is part of what it means.
    assert not list(widened(case("QuantizeLinear", 13, X, np.float32(1), np.int8(0))))[1:]


def test_fractions_are_cut_off_only_where_the_operator_does_so() -> None:
    value, whole = np.array([1.5, -2.5, 3.0], np.float32), np.dtype(np.int64)
    with pytest.raises(Unsuitable):
        narrowed(case("ReduceMean", 13, X), [value], [whole])
    rounded = narrowed(case("Resize", 13, X, mode="cubic"), [value], [whole])
    for ours, agrees in (([2, -2, 3], True), ([2, -3, 3], True), ([2, -3, 2], False)):
        assert (_difference([np.array(ours)], rounded) == "") is agrees
    wanted = narrowed(case("Resize", 13, X, mode="linear"), [value], [whole])
    agreeing = ([1, -2, 3], [1, -2, 2])
    assert [_difference([np.array(ours)], wanted) for ours in agreeing] == ["", ""]
    for wrong in ([2, -2, 3], [1, -3, 3], [1, -2, 4]):
        assert _difference([np.array(wrong)], wanted)


def test_complex_numbers_by_their_parts() -> None:
    data = np.array([[1 + 2j, 3 - 4j]], np.complex128)
    found = oracle(case("Resize", 13, data, None, np.float32([1, 2]), coordinate_transformation_mode="asymmetric"))
    assert found.name.endswith("by parts")
    np.testing.assert_array_equal(found.values[0], [[1 + 2j, 1 + 2j, 3 - 4j, 3 - 4j]])


def test_what_nothing_runs_has_no_oracle() -> None:
    with pytest.raises(Refusal):
        oracle(case("Add", 14, np.ones(3, np.float32), np.ones(2, np.float32)))


# Each known disagreement: the case it is about, the output, and what is right.

NAN = np.array([[[np.nan, 1.0, 2.0]]], np.float32)
TURNS = 2 * np.pi * np.arange(12) / 12
BYTES = np.full((1, 1, 1, 2), -5, np.int8)
BIAS = np.ones((1, 6), np.float32)
GATES = np.ones((1, 3, 1), np.float32)
ONES = np.linspace(-3, 3, 40, dtype=np.float32).reshape(1, 40, 1, 1)
CHANNELS = np.float32([1e5, 1]).reshape(1, 2, 1, 1)
GROUPED = np.random.default_rng(1).standard_normal((1, 6, 1, 2, 5))
CENTRED = GROUPED.reshape(1, 2, 15, 2) - GROUPED.reshape(1, 2, -1).mean(-1).reshape(1, 2, 1, 1)

# Its mean less 7, times 0.05 / 0.1, is 47.5, and the even number beside it is 48.
FIFTH = np.float32(0.2)
TIE = np.uint8([74, 72, 107, 62, 45, 252]).reshape(1, 1, 1, 6)

PROOFS: dict[str, tuple[Case, int, Any]] = {
    "Dropout": (case("Dropout", 10, X, outputs=(True, True)), 1, np.ones(X.shape, bool)),
    "GroupNormalization": (
        case("GroupNormalization", 21, GROUPED, np.ones(6), np.zeros(6), num_groups=2),
        0,
        (CENTRED / np.sqrt(CENTRED.reshape(1, 2, -1).var(-1).reshape(1, 2, 1, 1) + 1e-5)).reshape(GROUPED.shape),
    ),
    "BlackmanWindow|HammingWindow|HannWindow": (
        case("BlackmanWindow", 17, np.int64(12), output_datatype=11),
        0,
        0.42 - 0.5 * np.cos(TURNS) + 0.08 * np.cos(2 * TURNS),
    ),
    "GRU|LSTM": (case("GRU", 14, NAN[:, :, :1], GATES, GATES, BIAS, hidden_size=1, clip=0.5), 0, NAN[None, :, :, :1]),
    "QLinearSoftmax|QLinearSigmoid|QLinear(Global)?AveragePool": (
        replace(
            case("QLinearGlobalAveragePool", 1, TIE, FIFTH / 4, np.uint8(7), FIFTH / 2, np.uint8(0)), domain="com.microsoft"
        ),
        0,
        np.full((1, 1, 1, 1), 48, np.uint8),
    ),
    "MaxPool": (case("MaxPool", 12, NAN, kernel_shape=[3]), 0, NAN[:, :, :1]),
}


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: entry.op)
def test_a_known_disagreement_is_the_references_fault(entry: Any) -> None:
    """An entry whose reference is right by now has to go."""
    drawn, index, expected = PROOFS[entry.op]
    found = oracle(drawn)
    assert known(drawn, found.name) is entry
    right = [item.value for item in found.wanted]
    right[index] = np.asarray(expected)
    assert _difference(right, found.wanted), "the reference agrees with what is right"
    assert _difference(right, found.wanted, entry) == ""
    wrong = [item.value if item.value.dtype.kind == "b" else np.nan_to_num(item.value) + 2 for item in found.wanted]
    assert _difference(wrong, found.wanted, entry) or entry.outputs, "an entry does not let everything pass"


def test_an_entry_lets_nothing_else_pass() -> None:
    entry = next(entry for entry in KNOWN if entry.op == "Dropout")
    wanted = [Wanted(X), Wanted(np.zeros(X.shape, bool))]
    assert _difference([X, np.ones(X.shape, bool)], wanted, entry) == ""
    assert _difference([X + 1, np.ones(X.shape, bool)], wanted, entry)


DETOURS: tuple[tuple[Case, Any], ...] = (
    (case("ReduceLogSumExp", 11, np.array([[9, 8, 8, 8, 8, 8, 8, 8]]), axes=[1]), np.array([[10]])),
    (case("ReduceSum", 13, np.zeros((2, 0, 3), np.float32), np.array([0, 1, -1])), np.zeros((1, 1, 1))),
    (case("MeanVarianceNormalization", 13, ONES), np.zeros(ONES.shape)),
    (case("LRN", 13, CHANNELS, size=1, alpha=1.0, beta=1.0), CHANNELS / np.float32([1 + 1e10, 2]).reshape(1, 2, 1, 1)),
    (case("Resize", 18, BYTES, None, np.float32([1, 1, 1, 2]), mode="linear", antialias=1), BYTES.repeat(2, 3)),
)


@pytest.mark.parametrize(("drawn", "expected"), DETOURS, ids=lambda item: getattr(item, "op", ""))
def test_a_detour_is_needed(drawn: Case, expected: Any) -> None:
    """A detour past what onnxruntime does right by now has to go."""
    (plain,) = OnnxruntimeSession(drawn.model()).run(drawn.feeds())
    assert not np.array_equal(plain, expected)
    assert np.array_equal(oracle(drawn).values[0], expected)
