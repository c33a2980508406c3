"""Sums of products that are rounded once, and conversions of clamped numbers: the same numbers as without, in fewer steps."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir.engine import objects
from tests.engine.programs import MLIR, run_pointwise

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import saturation, single_rounding
from onnx2torch_mlir.engine.compiler.walks import nested

f32, f64, i8, i32 = torch.float32, torch.float64, torch.int8, torch.int32
HAS_MULTIPLY_ADD = "+fma" in objects.host().split()[-1].split(",")

NUMBERS = np.array(
    [0.0, -0.0, 0.4, -0.6, 1, 127, 127.5, 128, -128, -129, 255, 256, 3e9, -3e9, 3e38, np.inf, -np.inf, np.nan, 1e-40], "f"
)


def body_of(scalar, sources, target, rewrite):
    """The names of the operations of a body after ``rewrite``."""
    arguments = ", ".join(f"%x{i}: {MLIR[dtype]}" for i, dtype in enumerate(sources))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f({arguments}) -> {MLIR[target]} {{ {scalar} return %r : {MLIR[target]} }}")
        rewrite(module)
        assert module.operation.verify()
        names = [operation.name for operation in nested(module.operation)]
        return [name.split(".")[1] for name in names if name.startswith(("arith.", "math."))]


SUM = """
  %a = arith.uitofp %x0 : i8 to f64
  %s = arith.constant {scale} : f64
  %p = arith.mulf {factors} : f64
  %c = arith.extf %x1 : f32 to f64
  %t = arith.addf {terms} : f64
  %r = arith.truncf %t : f64 to f32"""


@pytest.mark.parametrize("factors", ["%a, %s", "%s, %a"])
@pytest.mark.parametrize("terms", ["%p, %c", "%c, %p"])
@pytest.mark.parametrize("scale", ["0.10000000149011612", "-0.0", "1.7014118346046923e38"])
def test_rounded_once(factors, terms, scale):
    scalar = SUM.format(scale=scale, factors=factors, terms=terms)
    names = body_of(scalar, [i8, f32], f32, single_rounding.use_multiply_add)
    assert sorted(names) == ["constant", "fma", "uitofp"] or not HAS_MULTIPLY_ADD
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, 5000).astype(np.uint8)
    y = np.concatenate([NUMBERS, rng.standard_normal(5000 - len(NUMBERS)).astype("f")])
    with np.errstate(all="ignore"):
        expected = (x.astype("f8") * float(scale) + y).astype("f")
    found = run_pointwise(scalar, [i8, f32], f32, [x.view(np.int8), y])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_sum_between_two_numbers():
    """Rounded to float64 first, this one would come to lie in the middle of two float32 numbers."""
    if not HAS_MULTIPLY_ADD:
        pytest.skip("the processor has no multiply-add")
    scalar = """
  %a = arith.extf %x0 : f32 to f64
  %b = arith.extf %x1 : f32 to f64
  %c = arith.extf %x2 : f32 to f64
  %p = arith.mulf %a, %b : f64
  %t = arith.addf %p, %c : f64
  %r = arith.truncf %t : f64 to f32"""
    one, least = np.float32(1 + 2**-12), np.float32(2**-80)
    # The product is 1 + 2**-11 + 2**-24: half a step of float32 above a number, and a little more than that with ``least``.
    found = run_pointwise(scalar, [f32] * 3, f32, [np.full(40, one), np.full(40, one), np.full(40, least)])
    assert (found == np.float32(1 + 2**-11 + 2**-23)).all()


def test_a_wide_integer_is_no_float32():
    scalar = SUM.format(scale="0.5", factors="%a, %s", terms="%p, %c").replace("%x0 : i8", "%x0 : i32")
    assert "fma" not in body_of(scalar, [i32, f32], f32, single_rounding.use_multiply_add)
    x = np.full(40, 16777217, np.int32)
    found = run_pointwise(scalar, [i32, f32], f32, [x, np.full(40, 0.5, "f")])
    np.testing.assert_array_equal(found, np.full(40, 8388609, "f"))


@pytest.mark.parametrize(
    "changed",
    [
        ("%x1 : f32 to f64", "%x1 : f32 to f64\n %d = arith.addf %c, %c : f64"),
        ("0.10000000149011612", "0.1"),
        ("0.10000000149011612", "1.0e300"),
    ],
)
def test_what_is_no_float32_is_added_as_it_is(changed):
    scalar = SUM.format(scale="0.10000000149011612", factors="%a, %s", terms="%p, %c").replace(*changed)
    scalar = scalar.replace("%p, %c", "%p, %d") if "%d" in scalar else scalar
    assert "fma" not in body_of(scalar, [i8, f32], f32, single_rounding.use_multiply_add)


CONVERSION = """
  %low = arith.constant {low} : f32
  %high = arith.constant {high} : f32
  %m = {first}
  %v = {second}
  %i = arith.fptosi %v : f32 to i32
  %far = arith.constant -2147483648.0 : f32
  %least = arith.constant -2147483648 : i32
  %beyond = arith.constant 2147483648.0 : f32
  %most = arith.constant 2147483647 : i32
  %nothing = arith.constant 0 : i32
  %small = arith.cmpf olt, %v, %far : f32
  %i0 = arith.select %small, %least, %i : i32
  %large = arith.cmpf oge, %v, %beyond : f32
  %i1 = arith.select %large, %most, %i0 : i32
  %nan = arith.cmpf uno, %v, %v : f32
  %r = arith.select %nan, %nothing, %i1 : i32"""
MAXIMUM_FIRST = {"first": "arith.maximumf %x0, %low : f32", "second": "arith.minimumf %m, %high : f32"}
MINIMUM_FIRST = {"first": "arith.minimumf %x0, %high : f32", "second": "arith.maximumf %m, %low : f32"}


@pytest.mark.parametrize("order", [MAXIMUM_FIRST, MINIMUM_FIRST], ids=["maximum first", "minimum first"])
@pytest.mark.parametrize(
    ("low", "high", "direct"),
    [
        (0.0, 255.0, True),
        (-128.0, 127.0, True),
        (-0.0, 0.0, True),
        (-2147483648.0, 2147483520.0, True),
        (-4294967296.0, 127.0, False),
        (0.0, 2147483648.0, False),
        (1.0, 5.0, False),
        (-9.0, -2.0, False),
        (5.0, -5.0, False),
    ],
)
def test_clamped_numbers(low, high, direct, order):
    scalar = CONVERSION.format(low=f"{low:.1f}", high=f"{high:.1f}", **order)
    names = body_of(scalar, [f32], i32, saturation.convert_clamped)
    assert names.count("select") == (1 if direct else 3)
    x = np.concatenate([np.linspace(-300, 300, 1001).astype("f"), NUMBERS, NUMBERS * 0.5])
    clamped = np.minimum(np.maximum(x, np.float32(low)), np.float32(high))
    if order is MINIMUM_FIRST:
        clamped = np.maximum(np.minimum(x, np.float32(high)), np.float32(low))
    expected = np.clip(np.nan_to_num(np.trunc(clamped.astype("f8")), posinf=1e10, neginf=-1e10), -(2**31), 2**31 - 1)
    np.testing.assert_array_equal(run_pointwise(scalar, [f32], i32, [x]), expected.astype(np.int32))


@pytest.mark.parametrize(
    "changed",
    [
        ("arith.select %nan, %nothing", "arith.select %nan, %most"),
        ("%large = arith.cmpf oge, %v", "%large = arith.cmpf oge, %x0"),
        ("%low = arith.constant 0.0 : f32", "%low = arith.addf %x0, %x0 : f32"),
        ("arith.select %small, %least, %i :", "arith.addi %least, %i :"),
    ],
)
def test_other_questions_stay(changed):
    scalar = CONVERSION.format(low="0.0", high="255.0", **MAXIMUM_FIRST).replace(*changed)
    names = body_of(scalar, [f32], i32, saturation.convert_clamped)
    assert names.count("fptosi") == 1
    assert names.count("select") == scalar.count("arith.select")
