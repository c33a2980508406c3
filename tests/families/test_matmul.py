"""Matrix products, Einsum and determinants against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def codes(dtype: Any, shape: tuple[int, ...]) -> Any:
    return np.asarray(RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape)).astype(dtype)


SHAPES = [
    ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((2, 5, 3), (3, 4)), ((2, 5, 3), (2, 3, 4)),
    ((2, 1, 5, 3), (6, 3, 4)), ((5, 3), (2, 3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((3,), (2, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = floats(*left), floats(*right)
    agrees("MatMul", [a, b], opset=13, expected=[np.matmul(a, b)], rtol=1e-4)


@pytest.mark.parametrize(("left", "right"), [((2, 5, 3), (3, 4)), ((2, 5, 3), (2, 3, 4)), ((2, 3), (3, 4))])
def test_matmul_of_dynamic_sizes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    agrees("MatMul", [floats(*left), floats(*right)], opset=13, dynamic=True, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_matmul_of_integers_wraps(dtype: Any) -> None:
    a = np.array([[np.iinfo(dtype).max, 2], [3, 4]], dtype)
    agrees("MatMul", [a, a], opset=13, expected=[a @ a], rtol=0, atol=0)


@pytest.mark.parametrize("opset", [7, 9, 13])
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("c", [(2, 4), (4,), (1,), (2, 1), ()])
def test_gemm(opset: int, transposed: tuple[int, int], c: tuple[int, ...]) -> None:
    a = floats(3, 2) if transposed[0] else floats(2, 3)
    b = floats(4, 3) if transposed[1] else floats(3, 4)
    attributes: dict[str, Any] = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.5, "beta": 1.5}
    agrees("Gemm", [a, b, floats(*c)], opset=opset, native=opset == 13, rtol=1e-4, **attributes)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_gemm_of_integers_with_broken_factors(dtype: Any) -> None:
    a, b, c = (np.arange(size, dtype=dtype).reshape(shape) for size, shape in ((6, (2, 3)), (12, (3, 4)), (4, (4,))))
    agrees("Gemm", [a, b, c], opset=13, alpha=0.5, beta=1.25, rtol=0, atol=0)


def test_gemm_without_c_and_before_opset_7() -> None:
    a, b = floats(2, 3), floats(3, 4)
    agrees("Gemm", [a, b], opset=11, dynamic=True, rtol=1e-4)
    c = floats(4)
    agrees("Gemm", [a, b, c], opset=6, broadcast=1, expected=[a @ b + c], rtol=1e-4)
    with pytest.raises(Refusal, match="broadcast"):
        agrees("Gemm", [a, b, c], opset=6, expected=[None])


@pytest.mark.parametrize("signs", [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
@pytest.mark.parametrize("points", ["none", "scalars", "per row and column"])
def test_matmul_integer(signs: tuple[Any, Any], points: str) -> None:
    a, b = (codes(dtype, shape) for dtype, shape in zip(signs, ((3, 5), (5, 4)), strict=True))
    sizes = {"none": None, "scalars": ((), ()), "per row and column": ((3,), (4,))}[points]
    zeros = [codes(dtype, size) for dtype, size in zip(signs, sizes or (), strict=False)]
    za, zb = (item.astype(np.int32) for item in zeros) if zeros else (np.int32(0), np.int32(0))
    expected = (a.astype(np.int32) - (za[:, None] if za.ndim else za)) @ (b.astype(np.int32) - zb)
    agrees("MatMulInteger", [a, b, *zeros], opset=10, expected=[expected], rtol=0, atol=0)


EINSUMS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("iji->j", [(3, 2, 3)]), ("bii->bi", [(2, 3, 3)]), ("i,j->ij", [(3,), (4,)]),
    ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]), ("...->...", [(2, 3)]), ("i,i->", [(3,), (3,)]),
    ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]), ("ab,ab,ab->b", [(2, 3), (2, 3), (2, 3)]), (",ij->ij", [(), (2, 3)]),
    ("b...,b...->...", [(2, 3, 4), (2, 3, 4)]), ("bsnh,nhd->bsd", [(2, 3, 4, 5), (4, 5, 6)]),
    ("Ab,bC -> CA", [(2, 3), (3, 4)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]), ("aab,bc->ac", [(2, 2, 3), (3, 4)]), ("ab,c->a", [(2, 3), (4,)]),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), EINSUMS)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [floats(*shape) for shape in shapes]
    expected = np.asarray(np.einsum(equation.replace(" ", ""), *inputs), np.float32)
    agrees("Einsum", inputs, opset=12, equation=equation, expected=[expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("equation", "shapes"), [EINSUMS[0], EINSUMS[3], EINSUMS[8], EINSUMS[15], EINSUMS[19]])
def test_einsum_of_dynamic_sizes(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [floats(*shape) for shape in shapes]
    expected = np.einsum(equation, *inputs)
    agrees("Einsum", inputs, opset=12, equation=equation, dynamic=True, expected=[expected], rtol=1e-4, atol=1e-5)


MALFORMED = [("ij,jk->iz", "repeats"), ("ij,j1->i", "no term"), ("ij->ij", "terms"), ("i,jk->i", "rank")]


@pytest.mark.parametrize(("equation", "reason"), MALFORMED)
def test_equations_that_do_not_fit(equation: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        agrees("Einsum", [floats(2, 3), floats(3, 4)], opset=12, equation=equation, expected=[None])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 3, 4, 4), (7, 7), (0, 3, 3), (2, 0, 0)])
def test_determinants(shape: tuple[int, ...]) -> None:
    data = floats(*shape)
    agrees("Det", [data], opset=22, expected=[np.linalg.det(data).astype(np.float32)], rtol=1e-3, atol=1e-5)


def test_determinants_of_an_open_size() -> None:
    program = agrees("Det", [floats(2, 3, 3)], opset=22, dynamic=True, rtol=1e-4)
    for shape in [(1, 1, 1), (3, 9, 9), (2, 0, 0), (0, 4, 4)]:
        data = floats(*shape)
        data[..., :1, :1] = 0
        for way in (program.eager(), program.compile()):
            np.testing.assert_allclose(way.run([data])[0], np.linalg.det(data), rtol=1e-3, atol=1e-5)


def test_determinants_that_need_exchanges_or_are_zero() -> None:
    data = np.array([[[0, 2, 1], [1, 0, 0], [3, 1, 5]], [[1, 2, 3], [2, 4, 6], [1, 1, 1]]], np.float32)
    agrees("Det", [data], opset=11, expected=[np.array([-9, 0], np.float32)])
