"""Two tensors against each other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnx2torch_mlir.verification import compare, compare_values, tolerance_of, ulp_distance
from onnx2torch_mlir.verification.tolerances import EXACT

F32 = np.float32


def test_small_errors_agree_and_are_measured() -> None:
    reference = np.array([1.0, -2.0, 4.0], F32)
    ours = np.nextafter(reference, F32(10), dtype=F32)
    result = compare("y", ours, reference)
    assert result.agrees
    assert result.max_ulp == 1
    assert 0 < result.max_abs < 1e-6


@pytest.mark.parametrize(
    ("ours", "reference", "problem"),
    [
        (np.zeros(3, F32), np.zeros(3, np.float64), "dtype"),
        (np.zeros((3, 1), F32), np.zeros(3, F32), "shape"),
        (np.array([1, 2], np.int64), np.array([1, 3], np.int64), "numbers"),
        (np.array([True]), np.array([False]), "numbers"),
        (np.array([1.0, np.nan], F32), np.array([1.0, 2.0], F32), "numbers"),
        (np.array([np.inf], F32), np.array([-np.inf], F32), "numbers"),
        (np.array([1.0], F32), np.array([1.001], F32), "numbers"),
        (np.array(["a"], object), np.array(["b"], object), "numbers"),
        (np.array(1.0, F32), np.array(2.0, F32), "numbers"),
    ],
)
def test_differences_are_seen(ours: np.ndarray, reference: np.ndarray, problem: str) -> None:
    result = compare("y", ours, reference)
    assert result.problem == problem
    assert "y" in result.reason()


@pytest.mark.parametrize(
    "value",
    [
        np.array([np.nan, np.inf, -np.inf, 0.0], F32),
        np.zeros((0, 4), F32),
        np.array(3.0, np.float16),
        np.array([1, 2], ml_dtypes.bfloat16),
        np.array([1, 448], ml_dtypes.float8_e4m3fn),
        np.array([1 + 2j], np.complex64),
        np.array(["a", "b"], object),
        np.array([2**63 - 1], np.int64),
    ],
)
def test_a_value_agrees_with_itself(value: np.ndarray) -> None:
    assert compare("y", value.copy(), value).agrees


def test_the_first_wrong_element_is_named() -> None:
    reference = np.zeros((2, 3), F32)
    reference[0, 0] = 5
    ours = reference.copy()
    ours[1, 1] = ours[1, 2] = 1
    result = compare("y", ours, reference)
    assert result.first == (1, 1)
    assert result.wrong == 2
    assert result.size == 6


def test_the_absolute_part_grows_with_the_largest_element_but_not_for_small_tensors() -> None:
    large = np.array([1e4, 0.0], F32)
    assert compare("y", large + F32(0.05), large).agrees
    small = np.array([1e-6, 0.0], F32)
    assert not compare("y", small + F32(1e-6), small).agrees


def test_given_tolerances_replace_the_table_but_never_for_integers() -> None:
    reference = np.array([1.0], F32)
    assert compare("y", reference * F32(1.05), reference, rtol=0.1, atol=0).agrees
    assert not compare("y", np.array([2]), np.array([1]), rtol=10, atol=10).agrees
    assert tolerance_of(np.dtype(np.int8)) is EXACT


def test_ulps_are_counted_across_zero() -> None:
    tiny = np.finfo(F32).smallest_subnormal
    assert ulp_distance(np.array([tiny], F32), np.array([-tiny], F32)) == 2
    assert ulp_distance(np.array([np.nan], F32), np.array([1], F32)) is None
    assert ulp_distance(np.array([1.0]), np.nextafter(np.array([1.0]), 2)) == 1


def test_floats_out_of_maps_are_compared_as_the_float32_they_are():
    third = float(np.float32(1 / 3))
    near = float(np.nextafter(np.float32(third), np.float32(1)))
    (compared,) = compare_values("p", [{0: third}], [{0: near}])
    assert compared.agrees and compared.max_ulp == 1
    (compared,) = compare_values("p", {"a": third + 1e-3}, {"a": third})
    assert not compared.agrees
    (compared,) = compare_values("p", {"a": 1 / 3}, {"a": 1 / 3 + 1e-6})
    assert not compared.agrees and compared.theirs.dtype == "float64"
