"""Sums in 64 bits of products of bytes, of which the run tells how many there are, against numpy."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.options import Options
from tests.engine import programs
from tests.engine.programs import M, N
from tests.engine.test_integer_tiles import MATRIX, SIGNS, TURNED, codes, contraction, program

I64 = torch.int64
COLUMNS = 37
MOST = 33_025
"""So many products of bytes a sum of 32 bits holds."""


def wide(dtypes, zeros=(None, None), *, turned=False, start=0, extra=(), inputs=()):
    """A program of a product of [m, k] and [k, n] bytes whose sums are i64."""
    shapes = (M, N), ((COLUMNS, N) if turned else (N, COLUMNS)), (M, COLUMNS)
    body = contraction(TURNED if turned else MATRIX, dtypes, shapes, zeros, start, sizes=[(0, 0)], extra=extra)
    zero, product = f"%z = arith.constant {start} : i", "arith.addi %t, %p : i32"
    for narrow, long in (
        (programs.tensor(torch.int32, shapes[2]), programs.tensor(I64, shapes[2])),
        (f"{zero}32", f"{zero}64"),
        ("ins(%z : i32)", "ins(%z : i64)"),
        ("%t: i32)", "%t: i64)"),
        (f"%q = {product}", "%l = arith.extsi %p : i32 to i64\n%q = arith.addi %t, %l : i64"),
        ("linalg.yield %q : i32", "linalg.yield %q : i64"),
    ):
        assert narrow in body
        body = body.replace(narrow, long)
    given = [(dtype, shape) for dtype, shape in zip(dtypes, shapes[:2], strict=True)]
    return program(body, [*given, *inputs], [(I64, shapes[2])])


def calls_the_driver(made):
    return b"o2m_pairs" in build(made.bytecode, Options(inputs=len(made.inputs)))["object"]


@pytest.mark.parametrize("dtypes", SIGNS)
@pytest.mark.parametrize("turned", [False, True])
def test_as_many_products_as_the_run_has(dtypes, turned):
    code = engine.compile(wide(dtypes, (3, -7), turned=turned))
    for rows, count in ((1, 1), (13, 64), (5, 0), (0, 9), (40, 333)):
        x, y = codes(dtypes[0], rows, count), codes(dtypes[1], count, COLUMNS)
        found = code.run([x, np.ascontiguousarray(y.T) if turned else y])[0]
        np.testing.assert_array_equal(found, (x.astype(np.int64) - 3) @ (y.astype(np.int64) + 7))


@pytest.mark.parametrize("count", [MOST, MOST + 1, 2 * MOST + 5])
def test_the_largest_sums(count):
    code = engine.compile(wide((torch.uint8, torch.uint8)))
    x, y = np.full((2, count), 255, np.uint8), np.full((count, COLUMNS), 255, np.uint8)
    np.testing.assert_array_equal(code.run([x, y])[0], np.full((2, COLUMNS), count * 255 * 255))


def test_tiles_do_it_where_they_can():
    dtypes = torch.uint8, torch.int8
    assert calls_the_driver(wide(dtypes, (3, -7)))
    assert not calls_the_driver(wide(dtypes, start=5)), "sums that are added to something stay loops"
    scalar = ("%a2", "tensor<i32>", "()")
    assert not calls_the_driver(wide(dtypes, ("e0", None), extra=[scalar], inputs=[(torch.int32, ())]))


@pytest.mark.parametrize("zero", [7, -40_000])
def test_loops_do_the_rest(zero):
    dtypes = torch.uint8, torch.int8
    x, y = codes(dtypes[0], 9, 50), codes(dtypes[1], 50, COLUMNS)
    expected = x.astype(np.int64) @ y
    np.testing.assert_array_equal(engine.compile(wide(dtypes, start=5)).run([x, y])[0], expected + 5)
    scalar = ("%a2", "tensor<i32>", "()")
    code = engine.compile(wide(dtypes, ("e0", None), extra=[scalar], inputs=[(torch.int32, ())]))
    found = code.run([x, y, np.array(zero, np.int32)])[0]
    np.testing.assert_array_equal(found, (x.astype(np.int64) - zero) @ y.astype(np.int64))
