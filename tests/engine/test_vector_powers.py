"""Powers of f32 that the compiler expands: against double precision, over every exponent and at every corner."""

import numpy as np
import pytest

from tests.engine.test_vector_math import arguments, engine_of, expanded, f32, wrong_by

__all__ = ["expanded"]

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import vector_expansion

SPECIAL = np.array(
    [
        *(0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 0.5, -0.5, 2, -2, 3, -3, 1.5, -1.5, 1e10),
        *(2**23, 2**23 + 1, -(2**24) + 1, 2**24, 1 + 2**-23, -1 - 2**-23, 1 - 2**-24, 0.5 + 2**-24),
    ],
    "f",
)


def check(x, y, body="%r = math.powf %x0, %x1 : f32"):
    (got,) = engine_of(body, (f32, f32)).run([x, y])
    with np.errstate(all="ignore"):
        wrong = wrong_by(got, np.power(x.astype("d"), y.astype("d")))
    worst = int(wrong.argmax())
    assert wrong[worst] <= 0.51, (x[worst], y[worst], got[worst])


def test_corners(expanded):
    check(np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL)))


def test_any_numbers(expanded):
    random = np.random.default_rng(2)
    every = arguments()
    check(random.permutation(every), random.permutation(every))
    check(random.permutation(every), random.integers(-40, 40, every.size).astype("f"))


def test_usual_numbers_and_those_near_1(expanded):
    random = np.random.default_rng(3)
    x = [np.exp(random.uniform(-80, 80, 100000)), 1 + random.uniform(-1e-4, 1e-4, 100000), random.standard_normal(100000)]
    y = [random.uniform(-2, 2, 100000), random.uniform(-1e6, 1e6, 100000), random.integers(-200, 200, 100000)]
    check(np.concatenate(x).astype("f"), np.concatenate(y).astype("f"))


def test_whole_powers_are_whole(expanded):
    x = np.arange(-40, 41).astype("f")
    (got,) = engine_of("%r = math.powf %x0, %x1 : f32", (f32, f32)).run([x, np.full(81, 4, "f")])
    assert np.array_equal(got, np.arange(-40, 41) ** 4)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 4])
def test_easy_exponents_are_left_to_llvm(exponent, expanded):
    body = f"%c = arith.constant {float(exponent)} : f32\n %r = math.powf %x0, %c : f32"
    x = np.abs(arguments())
    check(x, np.full(x.size, exponent, "f"), body)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @main(%x0: f32) -> f32 {{ {body}\n return %r : f32 }}")
        vector_expansion.expand(module)
        assert ("math.powf" in str(module)) == (exponent != 4)
