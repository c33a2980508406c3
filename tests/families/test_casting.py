"""Conversions of element types, identity, dropout, running sums and products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

NUMBERS = np.array([0, 1, 2, 3.75, 100, 127.5], np.float64)
TYPES = {
    TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
    TensorProto.INT8: np.int8, TensorProto.INT16: np.int16, TensorProto.INT32: np.int32, TensorProto.INT64: np.int64,
    TensorProto.UINT8: np.uint8, TensorProto.UINT16: np.uint16, TensorProto.UINT32: np.uint32,
    TensorProto.UINT64: np.uint64, TensorProto.BOOL: np.bool_,
}  # fmt: skip


@pytest.mark.parametrize("source", TYPES.values())
@pytest.mark.parametrize("to", TYPES)
def test_every_pair(source: Any, to: int) -> None:
    data = NUMBERS.astype(source)
    native = source in (np.float32, np.uint64) or to == TensorProto.UINT64
    agrees("Cast", [data], opset=13, to=to, dynamic=True, native=native, expected=[data.astype(TYPES[to])])


NARROWED = [
    (np.int16, TensorProto.INT8, 200), (np.int64, TensorProto.UINT8, -3), (np.uint64, TensorProto.INT64, 2**64 - 5),
]  # fmt: skip


@pytest.mark.parametrize(("source", "to", "number"), NARROWED)
def test_integers_keep_their_low_bits(source: Any, to: int, number: int) -> None:
    data = np.array([number], source)
    agrees("Cast", [data], opset=13, to=to, expected=[data.astype(TYPES[to])], rtol=0, atol=0)


def test_negative_floats_are_truncated() -> None:
    agrees("Cast", [np.array([-1.5, -0.5, 0.5, 1.9], np.float32)], opset=13, to=TensorProto.INT32)


FLOAT8 = {
    TensorProto.FLOAT8E4M3FN: (448.0, np.nan), TensorProto.FLOAT8E4M3FNUZ: (240.0, np.nan),
    TensorProto.FLOAT8E5M2: (57344.0, np.inf), TensorProto.FLOAT8E5M2FNUZ: (57344.0, np.nan),
}  # fmt: skip


@pytest.mark.parametrize("to", FLOAT8)
@pytest.mark.parametrize("saturate", [0, 1])
def test_float8_saturates_or_overflows(to: int, saturate: int) -> None:
    largest, beyond = FLOAT8[to]
    data = np.array([1.1, -largest, largest * 4, -np.inf, np.nan, largest * 1.02, 0.0], np.float32)
    over = largest if saturate else beyond
    expected = np.array([1.125 if largest < 500 else 1.0, -largest, over, -over, np.nan, largest, 0.0], np.float32)
    agrees("Cast", [data], opset=19, to=to, saturate=saturate, expected=[expected])


def test_bfloat16() -> None:
    data = np.array([1.0, 3.1415926, 1e38, -2.5], np.float32)
    expected = data.astype(ml_dtypes.bfloat16).astype(np.float32)
    agrees("Cast", [data], opset=13, to=TensorProto.BFLOAT16, expected=[expected])


BITS = [
    (np.float32, TensorProto.INT32), (np.int32, TensorProto.FLOAT), (np.float64, TensorProto.UINT64),
    (np.int64, TensorProto.DOUBLE), (np.uint16, TensorProto.FLOAT16), (np.float16, TensorProto.INT16),
    (np.uint8, TensorProto.INT8), (np.int32, TensorProto.UINT32), (np.bool_, TensorProto.UINT8),
]  # fmt: skip


@pytest.mark.parametrize(("source", "to"), BITS)
def test_bits_read_as_another_type(source: Any, to: int) -> None:
    data = np.array([[0, 1, 3], [100, 127, 64]]).astype(source)
    agrees("BitCast", [data], opset=26, to=to, dynamic=True, expected=[data.view(TYPES[to])], rtol=0, atol=0)


def test_bits_of_another_width_are_refused() -> None:
    with pytest.raises(Refusal, match="width"):
        agrees("BitCast", [NUMBERS], opset=26, to=TensorProto.FLOAT, expected=[None])


def test_names_before_opset_6() -> None:
    data = np.array([1.5, 2.5], np.float32)
    agrees("Cast", [data], opset=1, to="INT32", native=False, expected=[np.array([1, 2], np.int32)])
    with pytest.raises(Refusal, match="no element type"):
        agrees("Cast", [data], opset=1, to="INT33", expected=[None])


def test_strings_are_made_on_the_host() -> None:
    program = agrees("Cast", [np.array([1, -2])], opset=13, to=TensorProto.STRING, expected=[None])
    assert program.compile().run([np.array([1, -2])])[0].tolist() == ["1", "-2"]


@pytest.mark.parametrize("opset", [15, 19, 24])
def test_cast_like(opset: int) -> None:
    agrees("CastLike", [NUMBERS, np.zeros(1, np.int64)], opset=opset, expected=[NUMBERS.astype(np.int64)])


@pytest.mark.parametrize("opset", [1, 14, 25])
def test_identity(opset: int) -> None:
    agrees("Identity", [NUMBERS], opset=opset, dynamic=True, expected=[NUMBERS])


@pytest.mark.parametrize("opset", [1, 6, 7, 10, 13])
def test_dropout_in_inference(opset: int) -> None:
    mask = np.float32 if opset < 10 else np.bool_
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    test: dict[str, Any] = {"is_test": 1} if opset < 7 else {}
    agrees("Dropout", [data], opset=opset, outputs=2, dynamic=True, expected=[data, np.ones((2, 3), mask)], **test)
    agrees("Dropout", [data], opset=opset, expected=[data], **test)


def test_dropout_without_a_ratio_drops_nothing() -> None:
    data, training = np.ones(3, np.float32), np.array(True)
    agrees("Dropout", [data, np.array(0.0, np.float32), training], opset=13, known=[1, 2], expected=[data])
    agrees("Dropout", [data, np.array(0.5, np.float32), np.array(False)], opset=13, known=[2], expected=[data])


def running(data: Any, axis: int, exclusive: int, reverse: int, function: Any, start: int) -> Any:
    moved = np.moveaxis(data, axis, 0)
    moved = moved[::-1] if reverse else moved
    result = function(moved, axis=0)
    if exclusive:
        result = np.concatenate([np.full_like(result[:1], start), result[:-1]])
    return np.moveaxis(result[::-1] if reverse else result, 0, axis).astype(data.dtype)


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("known", [(), (1,)])
def test_running(op: str, dtype: Any, exclusive: int, reverse: int, known: tuple[int, ...]) -> None:
    data = np.arange(1, 7).reshape(2, 3).astype(dtype)
    function, start = (np.cumsum, 0) if op == "CumSum" else (np.cumprod, 1)
    expected = running(data, -1, exclusive, reverse, function, start)
    agrees(
        op,
        [data, np.array(-1, np.int64)],
        opset=26,
        known=known,
        dynamic=True,
        native=dtype is np.int32,
        expected=[expected],
        exclusive=exclusive,
        reverse=reverse,
    )
