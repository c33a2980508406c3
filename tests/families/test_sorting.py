"""TopK, NonZero, Unique against onnxruntime: ties, orders, counts only known at run time."""

from __future__ import annotations

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

NATIVE = True

TIES = np.float32([[1, 3, 3, 2, 0], [5, 5, 1, 5, 2]])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("axis", "k"), [(-1, 3), (0, 1), (1, 5), (0, 2)])
def test_top_k(axis, k, largest, known):
    inputs = [TIES, np.array([k])]
    agrees(
        "TopK",
        inputs,
        opset=11,
        axis=axis,
        largest=largest,
        outputs=2,
        known=[1] if known else [],
        dynamic=known,
        native=NATIVE,
    )


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8"])
def test_top_k_dtypes(dtype):
    agrees("TopK", [TIES.astype(dtype), np.array([2])], opset=11, outputs=2, known=[1], native=NATIVE)


def test_top_k_of_old_opsets():
    agrees("TopK", [TIES], opset=1, k=2, outputs=2, native=NATIVE)
    agrees("TopK", [TIES, np.array([2])], opset=10, outputs=2, known=[1], native=NATIVE)


def test_top_k_of_too_many():
    with pytest.raises(Refusal, match="at most"):
        agrees("TopK", [TIES, np.array([6])], opset=11, outputs=2, known=[1], expected=[None, None])
    with pytest.raises(Refusal, match="at most"):
        agrees("TopK", [TIES, np.array([6])], opset=11, outputs=2, expected=[None, None], native=False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "int32"])
def test_non_zero(dtype, dynamic):
    data = np.array([[0, 2, 0], [1, 0, 3]]).astype(dtype)
    agrees("NonZero", [data], opset=13, dynamic=dynamic, native=dynamic)
    agrees("NonZero", [np.zeros((2, 2), dtype)], opset=9, dynamic=dynamic, native=dynamic)


UNIQUES = [
    (np.float32([2, 1, 1, 3, 4, 3]), None),
    (np.int64([[5, 5], [1, 5]]), None),
    (np.float32([[1, 0, 0], [1, 0, 0], [2, 3, 4]]), 0),
    (np.float32([[1, 2, 1], [0, 3, 0]]), 1),
    (np.int64([[[1, 1], [0, 1], [2, 1], [0, 1]], [[1, 1], [0, 1], [2, 1], [0, 1]]]), 1),
    (np.float32([7]), None),
]


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize(("data", "axis"), UNIQUES)
def test_unique(data, axis, in_order):
    attributes = {} if axis is None else {"axis": axis}
    agrees("Unique", [data], opset=11, sorted=in_order, outputs=4, native=NATIVE, **attributes)
    if axis is None:
        agrees("Unique", [data], opset=11, sorted=in_order, outputs=4, dynamic=True, native=NATIVE)


def test_unique_slices_of_an_open_size():
    data = np.round(np.random.default_rng(0).standard_normal((9, 2))).astype(np.float32)
    program = agrees("Unique", [data], opset=11, axis=0, outputs=4, dynamic=True, native=NATIVE)
    for rows in (np.float32([[1, 2, 3], [1, 2, 0], [1, 2, 3]]), np.ones((3, 1), np.float32)):
        wanted = np.unique(rows, True, True, True, axis=0)
        for way in (program.eager(), program.compile()):
            for result, want in zip(way.run([rows]), wanted, strict=True):
                np.testing.assert_array_equal(result, want)


def test_unique_of_nothing():
    empty = np.zeros(0, np.float32)
    counts = np.zeros(0, np.int64)
    agrees(
        "Unique", [empty], opset=11, outputs=4, dynamic=True, expected=[empty, counts, counts, counts], native=NATIVE
    )
