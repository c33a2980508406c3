"""Reductions and positions of extrema against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

KINDS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
DATA = np.random.default_rng(3).uniform(0.5, 2.0, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_as_attribute(kind: str, keepdims: int) -> None:
    agrees(f"Reduce{kind}", [DATA], opset=11, dynamic=True, native=bool(keepdims), axes=[0, -1], keepdims=keepdims)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", [[1], [-1, 0], []])
def test_axes_as_input(kind: str, axes: list[int]) -> None:
    opset = 13 if kind == "Sum" else 18
    agrees(f"Reduce{kind}", [DATA, np.array(axes, np.int64)], opset=opset, known=[1], dynamic=True, native=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_at_run_time(kind: str, keepdims: int) -> None:
    agrees(f"Reduce{kind}", [DATA, np.array([-1, 0], np.int64)], opset=18, native=kind == "Mean", keepdims=keepdims)


@pytest.mark.parametrize("axes", [[], [1]])
@pytest.mark.parametrize("noop", [0, 1])
def test_number_of_axes_at_run_time(axes: list[int], noop: int) -> None:
    inputs = [DATA, np.array(axes, np.int64)]
    agrees("ReduceSum", inputs, opset=18, dynamic=True, native=False, noop_with_empty_axes=noop)
    with pytest.raises(Refusal, match="rank"):
        agrees("ReduceSum", inputs, opset=18, dynamic=True, keepdims=0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_axes_leave_the_pointwise_part(kind: str) -> None:
    pointwise = {
        "L1": np.abs, "L2": np.abs, "LogSum": np.log, "SumSquare": np.square,
    }.get(kind, lambda x: x)  # fmt: skip
    none = np.array([], np.int64)
    agrees(f"Reduce{kind}", [DATA, none], opset=18, known=[1], noop_with_empty_axes=1, expected=[pointwise(DATA)])


@pytest.mark.parametrize("kind", ["L1", "L2", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(kind: str, dtype: Any) -> None:
    data = np.array([[1, -7, 3], [-4, 2, 5]], dtype)
    compute = {
        "L1": lambda x: np.abs(x).sum(1), "L2": lambda x: np.trunc(np.sqrt((x * x).sum(1))), "Max": lambda x: x.max(1),
        "Mean": lambda x: np.trunc(x.sum(1) / 3), "Min": lambda x: x.min(1), "Prod": lambda x: x.prod(1),
        "Sum": lambda x: x.sum(1), "SumSquare": lambda x: (x * x).sum(1),
    }[kind]  # fmt: skip
    expected = [compute(data).astype(dtype)]
    agrees(f"Reduce{kind}", [data], opset=13 if kind != "Sum" else 11, axes=[1], keepdims=0, expected=expected)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_wide_unsigned(dtype: Any) -> None:
    data = np.array([[1, np.iinfo(dtype).max, 3], [2**31, 7, 9]], dtype)
    for kind, compute in (("Max", np.max), ("Min", np.min), ("Sum", np.sum)):
        expected = compute(data, axis=1, keepdims=True).astype(dtype)
        agrees(f"Reduce{kind}", [data], opset=12, axes=[1], expected=[expected], rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "number"), [("Max", -np.inf), ("Min", np.inf), ("Sum", 0), ("Prod", 1), ("L2", 0)])
def test_empty_sets(kind: str, number: float) -> None:
    data = np.zeros((2, 0, 3), np.float32)
    agrees(f"Reduce{kind}", [data], opset=12, axes=[1], expected=[np.full((2, 1, 3), number, np.float32)])


@pytest.mark.parametrize("shape", [(), (5,)])
@pytest.mark.parametrize("kind", ["Sum", "LogSumExp", "Prod", "Max"])
def test_scalars(kind: str, shape: tuple[int, ...]) -> None:
    data = np.full(shape, 1.5, np.float32)
    expected = {
        "Sum": data.sum(), "LogSumExp": np.log(np.exp(data).sum()), "Prod": data.prod(), "Max": data.max(),
    }[kind]  # fmt: skip
    agrees(f"Reduce{kind}", [data], opset=12, keepdims=0, expected=[np.asarray(expected, np.float32)])


def test_log_sum_exp_of_large_and_infinite_numbers() -> None:
    data = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0]], np.float32)
    agrees("ReduceLogSumExp", [data], opset=13, axes=[1], expected=[np.logaddexp.reduce(data, axis=1, keepdims=True)])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_positions(op: str, last: int, axis: int, dtype: Any) -> None:
    data = np.array([[1, 3, 3, 0], [3, 3, 1, 0], [0, 0, 3, 0]], dtype)
    agrees(op, [data], opset=13, dynamic=True, native=dtype is np.float32, axis=axis, select_last_index=last)
    agrees(op, [data], opset=11, native=False, axis=axis, keepdims=0)


def test_axes_out_of_range() -> None:
    with pytest.raises(Refusal, match="out of range"):
        agrees("ReduceSum", [DATA], opset=11, axes=[3], expected=[None])
