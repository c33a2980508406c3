"""Pointwise operators against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

RANDOM = np.random.default_rng(2)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return (RANDOM.standard_normal(shape) * 2).astype(dtype)


def whole(dtype: Any, *shape: int, low: int = 1, high: int = 120) -> Any:
    return RANDOM.integers(low, high, shape).astype(dtype)


def broadcast(op: str, inputs: list[Any], **options: Any) -> None:
    """Static sizes: one that is only known at run time never stands for 1."""
    agrees(op, inputs, **options)


def both(op: str, inputs: list[Any], **options: Any) -> None:
    """Static sizes in eager PyTorch, dynamic ones natively too."""
    agrees(op, inputs, native=False, **options)
    agrees(op, inputs, dynamic=True, **options)


UNARY = "Abs Atan Ceil Cos Erf Exp Floor Neg Relu Round Sigmoid Sign Sin Softplus Softsign Sqrt Tanh".split()


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    data = floats(2, 3)
    both(op, [np.abs(data) if op == "Sqrt" else data], opset=13 if op != "Softsign" else 1, rtol=2e-5)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 1, 3)])
def test_unary_of_any_shape(shape: tuple[int, ...]) -> None:
    both("Exp", [floats(*shape)], opset=13)


WIDE = {
    np.uint16: np.array([0, 1, 7, 255, 40000, 65535], np.uint16),
    np.uint32: np.array([0, 1, 7, 2**31, 2**32 - 1, 12345], np.uint32),
    np.uint64: np.array([0, 1, 7, 2**63, 2**64 - 1, 2**63 + 5], np.uint64),
}


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize(
    "op", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Less", "GreaterOrEqual", "Equal", "BitwiseXor"]
)
def test_wide_unsigned(op: str, dtype: Any) -> None:
    a = WIDE[dtype][:, None]
    b = np.array([[1, 2, 3, 300, np.iinfo(dtype).max, np.iinfo(dtype).max // 2 + 3]], dtype)
    compute = {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.floor_divide, "Mod": np.remainder,
        "Max": np.maximum, "Min": np.minimum, "Less": np.less, "GreaterOrEqual": np.greater_equal, "Equal": np.equal,
        "BitwiseXor": np.bitwise_xor,
    }  # fmt: skip
    broadcast(op, [a, b], opset=18, expected=[compute[op](a, b)], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integer_division_truncates(dtype: Any) -> None:
    low = 0 if dtype == np.uint8 else -100
    a, b = whole(dtype, 4, 5, low=low), whole(dtype, 5, low=1, high=9)
    b = b if dtype == np.uint8 else (b * np.array([1, -1, 1, -1, 1])).astype(dtype)
    both("Div", [a, b], opset=14, expected=[np.trunc(a / b).astype(dtype)])


@pytest.mark.parametrize(
    ("dtype", "fmod"), [(np.int32, 0), (np.int32, 1), (np.int64, 0), (np.uint8, 0), (np.float32, 1), (np.float16, 1)]
)
def test_mod(dtype: Any, fmod: int) -> None:
    a = whole(dtype, 4, 5, low=0 if dtype == np.uint8 else -50)
    b = whole(dtype, 5, low=1, high=9) if dtype == np.uint8 else np.array([3, -3, 5, -7, 1], dtype)
    both("Mod", [a, b], opset=13, fmod=fmod, expected=[np.fmod(a, b) if fmod else np.mod(a, b)])


POWERS = [
    (np.float32, np.float32), (np.float32, np.int64), (np.int64, np.float32), (np.int32, np.int32),
    (np.float64, np.float32), (np.float32, np.uint32), (np.int32, np.int64),
]  # fmt: skip


@pytest.mark.parametrize(("base", "exponent"), POWERS)
def test_pow_gives_the_dtype_of_the_base(base: Any, exponent: Any) -> None:
    x, y = whole(base, 3, 4, low=1, high=6), whole(exponent, 4, low=0, high=4)
    both("Pow", [x, y], opset=15, expected=[np.power(x.astype(np.float64), y).astype(base)])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_bit_shift(dtype: Any, direction: str) -> None:
    bits = np.dtype(dtype).itemsize * 8
    x = np.array([[1, 3, np.iinfo(dtype).max, 200]], dtype)
    y = np.array([[0], [1], [7], [bits - 1], [bits], [bits + 9]], dtype)
    wide = [[(int(v) << int(s)) if direction == "LEFT" else (int(v) >> int(s)) for v in x[0]] for (s,) in y]
    expected = np.array([[v % 2**bits for v in row] for row in wide], dtype)
    broadcast("BitShift", [x, y], opset=11, direction=direction, expected=[expected], rtol=0, atol=0)


def test_signed_shifts() -> None:
    x, y = np.array([-8, 7, -1, 5], np.int32), np.array([1, -1, 40, 31], np.int32)
    for direction, expected in (("RIGHT", [-4, 0, -1, 0]), ("LEFT", [-16, 0, 0, -(2**31)])):
        agrees("BitShift", [x, y], opset=28, direction=direction, expected=[np.array(expected, np.int32)])


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_variadic(op: str, count: int) -> None:
    shapes = [(2, 1, 4), (3, 1), (1, 3, 4), (4,)]
    broadcast(op, [floats(*shape) for shape in shapes[:count]], opset=13)
    both(op, [floats(2, 3) for _ in range(count)], opset=13)


@pytest.mark.parametrize("op", ["Add", "Greater", "Pow", "Div"])
@pytest.mark.parametrize(("axis", "shape"), [(0, (2,)), (1, (3, 4)), (-1, (4,)), (None, (3, 4)), (1, (3,))])
def test_broadcasting_before_opset_7(op: str, axis: int | None, shape: tuple[int, ...]) -> None:
    a, b = np.abs(floats(2, 3, 4)) + 1, np.abs(floats(*shape)) + 1
    attributes = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    aligned = b if axis is None else b.reshape(b.shape + (1,) * (3 - axis % 3 - b.ndim))
    compute = {"Add": np.add, "Greater": np.greater, "Pow": np.power, "Div": np.divide}[op]
    agrees(op, [a, b], opset=6, native=False, expected=[compute(a, aligned)], **attributes)
    agrees(op, [a, b], opset=6, native=False, dynamic=True, expected=[compute(a, aligned)], **attributes)


def test_no_broadcasting_before_opset_7_unless_asked() -> None:
    with pytest.raises(Refusal, match="broadcast"):
        agrees("Add", [floats(2, 3), floats(3)], opset=6, expected=[None])


@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize("positive", [0, 1])
def test_is_inf(negative: int, positive: int) -> None:
    data = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    both("IsInf", [data], opset=10, detect_negative=negative, detect_positive=positive)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.uint16, np.float64])
def test_where(dtype: Any) -> None:
    condition = np.array([[True], [False]])
    broadcast("Where", [condition, whole(dtype, 2, 3), whole(dtype, 3)], opset=16)


def test_logic() -> None:
    a, b = np.array([[True], [False]]), np.array([True, False])
    for op in ("And", "Or", "Xor"):
        broadcast(op, [a, b], opset=7)
    both("Not", [a], opset=1)
