"""Functions of f64 that the compiler expands: against what has more digits, over every exponent."""

import math

import numpy as np
import pytest
import torch

from tests.engine.test_vector_math import SIGMOID, engine_of, expanded

__all__ = ["expanded"]

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import vector_doubles, vector_expansion

REFERENCES = {
    "erf": lambda x: np.vectorize(math.erf)(x.astype("d")),  # Within one unit itself.
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
}
f64 = torch.float64

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no float has more digits here")


def arguments():
    """Every exponent with some mantissas, the usual numbers, and those where results begin, end and change their form."""
    random = np.random.default_rng(0)
    exponents = np.arange(2048, dtype=np.uint64)[:, None] << np.uint64(52)
    mantissas = np.concatenate([[0, 1, (1 << 52) - 1], random.integers(0, 1 << 52, 17)]).astype(np.uint64)
    edges = [0.5, 1, 2, 0.5**0.5, 2**0.5, 20, 22, 60, 709.782712893384, 708.3964185322641, 745.1332191019412, 746, 2.0**-55]
    around = (np.array(edges).view(np.int64)[:, None] + np.arange(-20, 21)).ravel().view("d")
    usual = [random.uniform(0, most, 40000) for most in (1e-3, 1, 40, 750)]
    positive = np.concatenate([(exponents | mantissas).ravel().view("d"), around, *usual])
    return np.concatenate([positive, -positive, 1 + random.uniform(-1e-5, 1e-5, 10000)])


def wrong_by(got, exact):
    """Units in the last place between f64 results and exact ones; infinite where an edge or the sign of a zero differs."""
    with np.errstate(all="ignore"):
        rounded = exact.astype("d")
        wrong = np.abs(got - exact) / np.spacing(np.abs(rounded)).astype(exact.dtype)
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    wrong = np.where(special, np.where(same, 0, np.inf), wrong)
    return np.where((got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(exact)), np.inf, wrong)


def test_every_function_has_a_reference():
    assert {f"math.{name}" for name in REFERENCES} == set(vector_doubles.FUNCTIONS)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_units_in_the_last_place(name, expanded):
    x = arguments()
    (got,) = engine_of(f"%r = math.{name} %x0 : f64", [f64], f64).run([x])
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.longdouble))
    wrong = wrong_by(got, exact)
    worst = int(wrong.argmax())
    assert wrong[worst] <= 2.5, (x[worst], got[worst], exact[worst])


def test_sigmoid(expanded):
    x = arguments()
    (got,) = engine_of(SIGMOID.replace("f32", "f64"), [f64], f64).run([x])
    with np.errstate(all="ignore"):
        exact = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    # Below 2**-1022 what is divided by has no room for the last bits.
    assert wrong_by(got, exact)[np.abs(x) < 700].max() <= 2.5
    assert np.all(got[x < -746] == 0) and np.all(got[x > 40] == 1)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_no_branch_and_no_call_is_left(name):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @main(%x: f64) -> f64 {{ %r = math.{name} %x : f64\n return %r : f64 }}")
        vector_expansion.expand(module)
        assert module.operation.verify()
        names = {operation.operation.name for operation in module.body.operations[0].regions[0].blocks[0].operations}
    plain = {"math.absf", "llvm.intr.fmuladd", "llvm.call_intrinsic", "func.return"}
    assert all(name.startswith("arith.") or name in plain for name in names)
