"""Functions of f32 that the compiler expands: against double precision, over every exponent, and that their loops vectorise."""

import math
import re

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine import objects
from tests.engine import programs
from tests.engine.programs import N

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import vector_expansion, vector_math
from onnx2torch_mlir.hints import NOT_POSITIVE

REFERENCES = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": lambda x: torch.special.erf(torch.from_numpy(x)).numpy(),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
MOST_ULPS = {"asin": 2.0, "erf": 2.8, "tanh": 2.0}
f32 = torch.float32


def engine_of(scalar, dtypes=(f32,), result=f32):
    body = programs.pointwise(scalar, list(dtypes), result)
    return engine.compile(programs.lowered(body, [(dtype, (N,)) for dtype in dtypes], [(result, (N,))]))


@pytest.fixture
def expanded(monkeypatch):
    """The functions are expanded, whatever the environment leaves out."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)


def arguments():
    """Every exponent and sign with 40 mantissas, the numbers around 0 and 1, and where results begin and end."""
    random = np.random.default_rng(0)
    exponents = np.arange(256, dtype=np.uint32)[:, None] << 23
    mantissas = np.concatenate([[0, 1, (1 << 23) - 1], random.integers(0, 1 << 23, 37)]).astype(np.uint32)
    every = (exponents | mantissas).ravel().view("f")
    usual = random.uniform(-12, 12, 60000).astype("f")
    near = np.concatenate(
        [[0.5, 0.625, 0.92, 1, 88.72284, 87.33655, 103.97208, 127, 128, 126, 149, 150], 2.0 ** -np.arange(30)]
    )
    around = (near.astype("f").view(np.int32)[:, None] + np.arange(-20, 21, dtype=np.int32)).astype(np.int32).ravel().view("f")
    positive = np.concatenate([every, around])
    return np.concatenate([positive, -positive, usual, np.array([math.nan, -math.nan], "f")])


def wrong_by(got, exact):
    """Units in the last place between f32 results and exact ones, as multiples of what f32 resolves there."""
    with np.errstate(all="ignore"):
        rounded = exact.astype("f")
        scale = np.ldexp(1.0, np.maximum(np.frexp(np.where(np.isfinite(exact), exact, 1))[1] - 24, -149))
        wrong = np.abs(got - exact) / scale
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    wrong = np.where(special, np.where(same, 0, np.inf), wrong)
    return np.where((got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(exact)), np.inf, wrong)


def test_every_function_has_a_reference():
    assert {f"math.{name}" for name in [*REFERENCES, "atan2", "powf"]} == set(vector_math.FUNCTIONS)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_units_in_the_last_place(name, expanded):
    x = arguments()
    (got,) = engine_of(f"%r = math.{name} %x0 : f32").run([x])
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype("d"))
    wrong = wrong_by(got, exact)
    worst = int(wrong.argmax())
    assert wrong[worst] <= MOST_ULPS.get(name, 1.6), (x[worst], got[worst], exact[worst])


@pytest.mark.parametrize(
    ("scaling", "factor"),
    [
        ("arith.mulf %x0, %c", math.sqrt(0.5)),
        ("arith.mulf %c, %x0", 0.37),
        ("arith.divf %x0, %c", math.sqrt(2)),
        ("arith.divf %c, %x0", 3.0),
        ("arith.mulf %c, %x0", -0.5),
        ("arith.mulf %c, %x0", 100.0),
    ],
)
def test_the_error_function_of_a_multiple(scaling, factor, expanded):
    """Of what is no multiple by a number near 1, the multiple is rounded before."""
    x = arguments()
    number = np.float32(factor)
    (got,) = engine_of(f"%c = arith.constant {number:.9e} : f32\n%m = {scaling} : f32\n%r = math.erf %m : f32").run([x])
    with np.errstate(all="ignore"):
        inside = {"arith.divf %x0, %c": x.astype("d") / number, "arith.divf %c, %x0": (number / x).astype("d")}
        multiple = inside.get(scaling, x.astype("d") * number)
        if not 0.25 <= factor <= 4:
            multiple = multiple.astype("f").astype("d")
        wrong = wrong_by(got, REFERENCES["erf"](multiple))
    worst = int(wrong.argmax())
    assert wrong[worst] <= MOST_ULPS["erf"], (x[worst], got[worst])


@pytest.mark.parametrize("dtype", [f32, torch.float64])
@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_near_0_without_expansion(name, dtype, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "vector_math")
    kind = "f32" if dtype == f32 else "f64"
    x = np.array([-0.0, 1e-17, -1e-10, 3e-7, 0.5, -0.5, np.inf, np.nan], "f" if dtype == f32 else "d")
    (got,) = engine_of(f"%r = math.{name} %x0 : {kind}", [dtype], dtype).run([x])
    exact = REFERENCES[name](x)
    assert np.allclose(got, exact, rtol=4 * np.finfo(x.dtype).eps, atol=0, equal_nan=True)
    assert np.array_equal(np.signbit(got[:7]), np.signbit(exact[:7]))


def test_powers_of_what_is_not_positive():
    x = -np.abs(arguments())
    (got,) = engine_of(f'%r = "math.exp"(%x0) {{{NOT_POSITIVE}}} : (f32) -> f32').run([x])
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype("d"))
    tiny = exact < 2.0**-126
    halvings = -np.log2(np.where(exact >= 2.0**-126, exact, 1))
    assert (wrong_by(np.where(tiny, exact.astype("f"), got), exact) <= 1.6 + halvings / 32).all()
    assert np.all(got[tiny] >= 0) and np.all(got[tiny] < 2.0**-125)
    assert np.all(got[x == -np.inf] == 0)


@pytest.mark.parametrize(("features", "products"), [("+sse2", 9), ("+avx2,+fma", 8), ("+avx2,+fma,+avx512f", 8)])
def test_ln_2_is_one_number_where_products_are_not_rounded(features, products, monkeypatch):
    """Rounded, n times ln 2 would be wrong by as much as 59 units in the last place of the result."""
    monkeypatch.setattr(objects, "_assumed", f"x86_64 cpu {features}")
    with ir.Context(), ir.Location.unknown():
        text = f'%r = "math.exp"(%x) {{{NOT_POSITIVE}}} : (f32) -> f32'
        module = ir.Module.parse(f"func.func @main(%x: f32) -> f32 {{ {text}\n return %r : f32 }}")
        vector_expansion.expand(module)
    assert str(module).count("fmuladd") == products


SIGMOID = """%one = arith.constant 1.0 : f32
    %m = arith.negf %x0 : f32
    %g = math.exp %m : f32
    %s = arith.addf %one, %g : f32
    %r = arith.divf %one, %s : f32"""


def test_sigmoid_by_one_division():
    x = arguments()
    (got,) = engine_of(SIGMOID).run([x])
    with np.errstate(all="ignore"):
        exact = 1 / (1 + np.exp(-x.astype("d")))
    exact = np.where(exact < 2.0**-126, 0, exact)
    edge = np.abs(exact - 2.0**-126) < 2.0**-128
    assert wrong_by(np.where(edge, exact.astype("f"), got), exact).max() <= 2.0
    body = programs.pointwise(SIGMOID, [f32], f32)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(programs.lowered(body, [(f32, (N,))], [(f32, (N,))]).bytecode)
        vector_expansion.expand(module)
        assert module.operation.verify()
        assert "math.exp" not in str(module)
        assert str(module).count("fmuladd") == 9  # e to the x alone takes 9, and to scale it 2 products


GELUS = {
    "half of x": ["%h = arith.mulf %x0, %half : f32", "%r = arith.mulf %h, %s : f32"],
    "half of all": ["%h = arith.mulf %s, %x0 : f32", "%r = arith.mulf %h, %half : f32"],
}


def gelu(form, divided):
    scaling = f"%m = arith.{'divf' if divided else 'mulf'} %x0, %c : f32"
    number = np.float32(math.sqrt(2) if divided else math.sqrt(0.5))
    return "\n".join(
        [
            "%one = arith.constant 1.0 : f32",
            "%half = arith.constant 0.5 : f32",
            f"%c = arith.constant {number:.9e} : f32",
            scaling,
            "%error = math.erf %m : f32",
            "%s = arith.addf %error, %one : f32",
            *GELUS[form],
        ]
    )


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("form", GELUS)
def test_gelu_without_a_sign_to_put_back(form, divided):
    """Wrong by no more than the error function rounded to f32 makes it."""
    x = arguments()
    x = x[~np.isfinite(x) | (np.abs(x) < 1e38)]
    (got,) = engine_of(gelu(form, divided)).run([x])
    with np.errstate(all="ignore"):
        exact = x.astype("d") / 2 * (1 + REFERENCES["erf"](x.astype("d") * math.sqrt(0.5)))
        wrong = np.abs(got - exact)
    assert (np.isnan(got) == (np.isnan(x) | np.isneginf(x))).all()
    ordinary = np.isfinite(exact)
    assert (got[~ordinary] == exact[~ordinary])[~np.isnan(exact[~ordinary])].all()
    assert (wrong[ordinary] <= 2.0**-23 * np.abs(x[ordinary]) + 2.0**-149).all()
    body = programs.pointwise(gelu(form, divided), [f32], f32)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(programs.lowered(body, [(f32, (N,))], [(f32, (N,))]).bytecode)
        vector_expansion.expand(module)
        assert module.operation.verify()
        assert "math.erf" not in str(module)
        assert "arith.ori" not in str(module)


@pytest.mark.parametrize("change", ["another number", "used twice", "not 1"])
def test_what_is_no_gelu_keeps_the_sign(change):
    text = gelu("half of x", False)
    changed = {
        "another number": text.replace("%h = arith.mulf %x0, %half", "%h = arith.addf %x0, %half"),
        "used twice": text.replace("%h = arith.mulf %x0, %half", "%h = arith.mulf %error, %half"),
        "not 1": text.replace("%s = arith.addf %error, %one", "%s = arith.addf %error, %half"),
    }[change]
    x = np.linspace(-5, 5, 1001).astype("f")
    (got,) = engine_of(changed).run([x])
    error = REFERENCES["erf"](x.astype("d") * np.float32(math.sqrt(0.5)))
    factor = {"another number": x + 0.5, "used twice": error / 2, "not 1": x / 2}[change]
    np.testing.assert_allclose(got, factor * (error + (0.5 if change == "not 1" else 1)), rtol=1e-5, atol=1e-6)


def test_the_edge_of_expm1_and_the_power_of_two():
    (got,) = engine_of("%r = math.exp2 %x0 : f32").run([np.arange(-149, 128).astype("f")])
    assert np.array_equal(got, np.ldexp(np.float32(1), np.arange(-149, 128)).astype("f"))
    (got,) = engine_of("%r = math.log2 %x0 : f32").run([np.ldexp(1.0, np.arange(-149, 128)).astype("f")])
    assert np.array_equal(got, np.arange(-149, 128))


@pytest.mark.parametrize("name", sorted(vector_math.FUNCTIONS))
def test_no_branch_and_no_call_is_left(name):
    """What LLVM's vectoriser needs: one block of arithmetic."""
    operands = "%x, %x" if name in ("math.atan2", "math.powf") else "%x"
    text = f"func.func @main(%x: f32) -> f32 {{ %r = {name} {operands} : f32\n return %r : f32 }}"
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        vector_expansion.expand(module)
        assert module.operation.verify()
        names = {operation.operation.name for operation in module.body.operations[0].regions[0].blocks[0].operations}
    plain = {"math.absf", "math.sqrt", "llvm.intr.fmuladd", "llvm.call_intrinsic", "func.return"}
    assert all(name.startswith("arith.") or name in plain for name in names)


def without_avx512():
    """The host, as if it had no AVX-512."""
    triple, name, features = objects.host().split()
    return f"{triple} {name} " + ",".join(re.sub(r"^\+(avx512|avx10|amx)", r"-\1", feature) for feature in features.split(","))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_scaling_by_products(name, kind, expanded, monkeypatch):
    dtype = {"f32": torch.float32, "f64": torch.float64}[kind]
    every = arguments()
    x = np.concatenate([every[~np.isnan(every)], np.linspace(-1100, 1100, 5001), [np.nan]]).astype(f"f{dtype.itemsize}")
    body = f"%r = math.{name} %x0 : {kind}"
    (one,) = engine_of(body, [dtype], dtype).run([x])
    monkeypatch.setattr(objects, "_assumed", without_avx512())
    (other,) = engine_of(body, [dtype], dtype).run([x])
    assert np.array_equal(one, other, equal_nan=True)


def test_scaling_by_one_instruction(monkeypatch):
    for features, expected in (("+avx2,+fma,+avx512f", 1), ("+avx2,+fma", 0)):
        monkeypatch.setattr(objects, "_assumed", f"x86_64 cpu {features}")
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse("func.func @main(%x: f32) -> f32 { %r = math.exp %x : f32\n return %r : f32 }")
            vector_expansion.expand(module)
        assert str(module).count("llvm.ldexp") == expected


def test_other_types_keep_their_function():
    x = np.linspace(-3, 3, 101)
    (got,) = engine_of("%r = math.sin %x0 : f64", [torch.float64], torch.float64).run([x])
    assert np.allclose(got, np.sin(x), rtol=1e-15)


def test_switched_off(monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "vector_math")
    x = np.linspace(-20, 20, 1001).astype("f")
    (plain,) = engine_of("%r = math.tanh %x0 : f32").run([x])
    monkeypatch.delenv("ONNX2MLIR_DISABLE")
    (expanded,) = engine_of("%r = math.tanh %x0 : f32").run([x])
    assert np.allclose(plain, expanded, rtol=3e-7, atol=0)
