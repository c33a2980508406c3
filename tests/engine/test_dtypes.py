import ml_dtypes
import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from tests.engine import programs

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = tuple(dtype for dtype in programs.MLIR if not dtype.is_floating_point and dtype != torch.bool)


def floats(dtype):
    """Normal, subnormal, huge, special values, and ties of the narrower types."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(400) * 10.0 ** rng.uniform(-9, 6, 400)
    ties = [
        1 + 2**-11,
        1 + 2**-11 + 2**-40,
        1 + 2**-8,
        3 * 2**-25,
        2**-25,
        2**-25 + 2**-60,
        65519.999999999,
        65520,
        1e300,
    ]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    with np.errstate(all="ignore"):
        return np.concatenate([spread, ties, special]).astype(programs.NUMPY[dtype])


def same(result, expected):
    assert result.dtype == expected.dtype and result.shape == expected.shape
    assert np.array_equal(result.astype(np.float64), expected.astype(np.float64), equal_nan=True)
    assert np.array_equal(
        np.signbit(result.astype("d"))[~np.isnan(result.astype("d"))],
        np.signbit(expected.astype("d"))[~np.isnan(expected.astype("d"))],
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("name", "function"), [("addf", np.add), ("mulf", np.multiply), ("divf", np.divide)])
def test_float_arithmetic_rounds_once(dtype, name, function):
    x = floats(dtype)
    y = x[::-1].copy()
    result = programs.run_pointwise(f"%r = arith.{name} %x0, %x1 : {programs.MLIR[dtype]}", [dtype] * 2, dtype, [x, y])
    with np.errstate(all="ignore"):
        same(result, function(x, y))


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_float_conversions(source, target):
    if source.itemsize == target.itemsize:
        pytest.skip("not a conversion of widths")
    x = floats(source)
    name = "extf" if target.itemsize > source.itemsize else "truncf"
    scalar = f"%r = arith.{name} %x0 : {programs.MLIR[source]} to {programs.MLIR[target]}"
    result = programs.run_pointwise(scalar, [source], target, [x])
    with np.errstate(all="ignore"):
        if (source, target) == (torch.float64, torch.bfloat16):
            expected = nearest_bfloat16(x)
        else:
            expected = x.astype(programs.NUMPY[target])
    same(result, expected)


def nearest_bfloat16(x):
    """One rounding from float64, which ml_dtypes does in two."""
    below = (x.astype(np.float32).view(np.uint32) & 0xFFFF0000).astype(np.int64)
    candidates = np.stack([(below + (step << 16)).astype(np.uint32) for step in (-1, 0, 1)]).view(np.float32)
    distance = np.abs(candidates.astype(np.float64) - x)
    odd = (candidates.view(np.uint32) >> 16) & 1
    best = np.lexsort((odd, np.where(np.isnan(distance), np.inf, distance)), axis=0)[0]
    exact = np.take_along_axis(candidates, best[None], 0)[0]
    plain = x.astype(ml_dtypes.bfloat16)
    ordinary = np.isfinite(x) & (np.abs(x) < 1e38)
    return np.where(ordinary, exact, plain.astype(np.float32)).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sqrt", "rsqrt", "log1p", "sin", "round", "roundeven", "floor"])
def test_float_functions(dtype, name):
    x = np.array([0.25, 0.5, 1.5, 2.5, 3.0], programs.NUMPY[dtype])
    functions = {
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "erf": lambda v: torch.erf(torch.from_numpy(v)).numpy(),
        "round": lambda v: np.floor(v + 0.5),
        "roundeven": np.rint,
    }
    expected = functions.get(name, getattr(np, name, None))(x.astype("d"))
    result = programs.run_pointwise(f"%r = math.{name} %x0 : {programs.MLIR[dtype]}", [dtype], dtype, [x])
    tolerance = {2: 1e-2, 4: 1e-6, 8: 1e-14}[dtype.itemsize]
    np.testing.assert_allclose(result.astype("d"), expected, rtol=tolerance)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic_wraps(dtype):
    info = np.iinfo(programs.NUMPY[dtype])
    x = np.array([info.min, info.max, 3, 7, info.max], info.dtype)
    y = np.array([info.max, info.max, 5, 2, 1], info.dtype)
    name = programs.MLIR[dtype]
    divide = "divui" if info.min == 0 else "divsi"
    scalar = (
        f"%p = arith.muli %x0, %x1 : {name}\n%s = arith.addi %p, %x0 : {name}\n%r = arith.{divide} %s, %x1 : {name}"
    )
    result = programs.run_pointwise(scalar, [dtype] * 2, dtype, [x, y])
    with np.errstate(over="ignore"):
        total = x * y + x
        expected = (total // y) if info.min == 0 else np.trunc(total.astype("g") / y.astype("g")).astype(info.dtype)
    assert result.dtype == info.dtype and np.array_equal(result, expected)


def test_bool():
    x = np.array([True, False, True, False])
    y = np.array([2, 1, 0, 0], np.uint8).view(np.bool_)  # True is any byte but zero
    result = programs.run_pointwise("%r = arith.andi %x0, %x1 : i1", [torch.bool] * 2, torch.bool, [x, y])
    assert result.tolist() == [True, False, False, False]


def test_bools_of_any_bytes_in_later_calls():
    both = [(torch.bool, (programs.N,))]
    compiled = engine.compile(programs.lowered("return %a0 : tensor<?xi1>", both, both))
    plain, odd = np.array([True, False, True]), np.array([1, 0, 255], np.uint8).view(np.bool_)
    for given in (plain, plain, odd, plain, odd[::-1], plain[:0]):
        result = compiled.run({"a0": given})[0]
        assert np.array_equal(result.view(np.uint8), (given.view(np.uint8) != 0).view(np.uint8))


def test_float_integer_conversions():
    for dtype in FLOATS:
        x = np.array([-3.7, -0.5, 0.0, 2.5, 100.0], programs.NUMPY[dtype])
        name = programs.MLIR[dtype]
        whole = programs.run_pointwise(f"%r = arith.fptosi %x0 : {name} to i64", [dtype], torch.int64, [x])
        assert whole.tolist() == [-3, 0, 0, 2, 100]
        back = programs.run_pointwise(f"%r = arith.sitofp %x0 : i64 to {name}", [torch.int64], dtype, [whole])
        assert back.dtype == programs.NUMPY[dtype] and back.astype("d").tolist() == [-3, 0, 0, 2, 100]


def test_every_dtype_passes_through():
    for dtype, name in programs.MLIR.items():
        x = np.arange(6).astype(programs.NUMPY[dtype])
        body = f"return %a0, %a0 : tensor<?x{name}>, tensor<?x{name}>"
        first, second = programs.run(body, [(dtype, (programs.N,))], [(dtype, (programs.N,))] * 2, [x])
        assert first.dtype == x.dtype and np.array_equal(first, x) and np.array_equal(second, x)
        assert not np.shares_memory(first, x) and not np.shares_memory(first, second)


def test_constants_of_two_types_with_like_names():
    """bf16 is i16 in the finished module; the globals of both types have names that differ in the type only."""
    body = """
  %c = arith.constant dense<[1.5, -2.0, 0.0]> : tensor<3xbf16>
  %d = arith.constant dense<[7, 8, 9]> : tensor<3xi16>
  return %c, %d : tensor<3xbf16>, tensor<3xi16>"""
    outputs = [(torch.bfloat16, (3,)), (torch.int16, (3,))]
    first, second = programs.run(body, [(torch.float32, (1,))], outputs, [np.zeros(1, np.float32)])
    assert first.astype(np.float32).tolist() == [1.5, -2.0, 0.0] and second.tolist() == [7, 8, 9]
