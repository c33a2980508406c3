"""Products of bfloat16 by the processor's instruction for two of them: rows that turn out to be bfloat16, and what is left to
floats."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import brain_products, brain_rows, vector_unit
from onnx2torch_mlir.engine.compiler.task import build
from tests.engine.programs import N, lowered
from tests.engine.test_ahead_of_time import compiled, needs_compiler
from tests.engine.test_coded_bytes import compiled_here, options
from tests.engine.test_wide_operands import agrees, numbers, product

B, F = torch.bfloat16, torch.float32
BRAIN = ml_dtypes.bfloat16
needs_products = pytest.mark.skipif(
    not vector_unit.of_host().multiplies_brain_floats, reason="the processor has no instruction for products of bfloat16"
)
TINY, HUGE = 2.0**-130, 2.0**100
"""A subnormal number, and one whose products with it are none."""


def program(weight, left=B):
    """[N, K] times ``weight`` [K, columns]; rows of ``left`` float32 are multiplied as they are."""
    steps, columns = weight.shape
    body = product(B, (N, steps), weight.shape, (N, columns))
    if left is F:
        body = body.replace(f"tensor<?x{steps}xbf16>", f"tensor<?x{steps}xf32>")
        body = body.replace("^bb0(%p: bf16, %q", "^bb0(%p: f32, %q").replace("%u = arith.extf %p : bf16 to f32", "")
        body = body.replace("mulf %u, %v", "mulf %p, %v")
    return lowered(body, [(left, (N, steps))], [(B, (N, columns))], [(weight, B, weight.shape)])


def as_if_normal(made, x, monkeypatch):
    """The result if subnormal numbers of rows were multiplied by pairs as others are."""
    with monkeypatch.context() as patch:
        patch.setattr(brain_rows, "_SMALLEST_NORMAL", 1)
        return compiled_here(made, 1).run([x])[0]


@needs_products
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("columns", "steps"), [(1, 1), (31, 2), (32, 31), (65, 300), (130, 33), (200, 1030)])
def test_rows_times_weights(columns, steps, threads):
    weight = numbers(B, steps, columns)
    code = engine.compile(program(weight), threads=threads)
    for count in (0, 1, 2, 3, 7, 8, 9, 16, 31, 36, 250):
        x = numbers(B, count, steps)
        assert agrees(code.run([x])[0], x, weight), count


@needs_products
@pytest.mark.parametrize("steps", [20, 70])
@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_it_is_pairs_that_are_multiplied(count, steps, monkeypatch):
    """Seen by what they make of subnormal numbers; a row or two are none, and any of those numbers makes all rows floats."""
    weight = np.full((steps, 40), HUGE, BRAIN)
    x = np.full((count, steps), TINY, BRAIN)
    made = program(weight)
    assert bool(as_if_normal(made, x, monkeypatch).any()) == (count < 3)
    x[:-1] = 1
    found = engine.compile(made).run([x])[0].astype(np.float64)
    np.testing.assert_allclose(found[-1], steps * TINY * HUGE, rtol=1e-2)
    np.testing.assert_allclose(found[:-1], steps * HUGE, rtol=1e-2)


@needs_products
@pytest.mark.parametrize("place", [0, 39])
def test_subnormal_weights(place):
    weight = np.full((20, 40), 1, BRAIN)
    weight[7, place] = TINY
    x = np.zeros((9, 20), BRAIN)
    x[:, 7] = HUGE
    found = engine.compile(program(weight)).run([x])[0].astype(np.float64)
    np.testing.assert_allclose(found[:, place], TINY * HUGE)


@needs_products
@pytest.mark.parametrize("which", [0, 63, 99])
def test_one_row_that_is_no_bfloat16(which):
    """Then all rows are multiplied as floats: what is beyond a bfloat16 counts."""
    weight = np.ones((48, 33), BRAIN)
    x = np.zeros((100, 48), np.float32)
    x[:, 0] = 1
    x[which, :2] = 1 + 2.0**-20, -1
    found = engine.compile(program(weight, F), threads=2).run([x])[0].astype(np.float64)
    expected = np.ones((100, 33))
    expected[which] = 2.0**-20
    np.testing.assert_array_equal(found, expected)


@needs_products
def test_infinities_and_zeros_of_rows():
    weight = numbers(B, 5, 33)
    x = numbers(B, 6, 5)
    x[1, 4], x[2], x[3, 0] = np.inf, -0.0, np.nan
    found = engine.compile(program(weight)).run([x])[0].astype(np.float32)
    assert np.isinf(found[1]).all()
    assert not found[2].any()
    assert np.isnan(found[3]).all()
    assert np.isfinite(found[[0, 2, 4, 5]]).all()


def test_only_weights_that_are_bfloat16_ask_for_rows_that_are():
    weight = numbers(B, 16, 16)
    has = vector_unit.of_host().multiplies_brain_floats
    assert (b"brain_rows" in build(program(weight).bytecode, options(1))["object"]) == has
    body = product(torch.float16, (N, 16), (16, 16), (N, 16))
    half = numbers(torch.float16, 16, 16)
    made = lowered(body, [(torch.float16, (N, 16))], [(torch.float16, (N, 16))], [(half, torch.float16, (16, 16))])
    assert b"brain_rows" not in build(made.bytecode, options(1))["object"]


def test_a_matrix_unit_does_whole_tiles_where_there_is_one():
    weight = numbers(B, 64, 32)
    unit = vector_unit.of_host()
    assert (b"o2m_matrix_tdpbf16ps" in build(program(weight).bytecode, options(1))["object"]) == unit.has_brain_matrices
    without = dataclasses.replace(unit, has_brain_matrices=False)
    assert "tdpbf16ps" not in brain_products.functions(without)
    assert unit.has_brain_matrices == ("tdpbf16ps" in brain_products.functions(unit))


@needs_compiler
def test_for_c_programs(tmp_path):
    weight = numbers(B, 33, 20)
    made = program(weight)
    model, peer = compiled(made, tmp_path / "out", 1), engine.compile(made)
    for rows in (1, 5, 40):
        x = numbers(B, rows, 33)
        np.testing.assert_array_equal(model.run([x])[0], peer.run([x])[0])
