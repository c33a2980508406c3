"""Numbers by which one side of a product is multiplied move to the other: against numpy, and what stays."""

import numpy as np
import onnx
import pytest

from onnx2torch_mlir import convert
from onnx2torch_mlir.engine.compiler import factors
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.options import Options

RNG = np.random.default_rng(0)
KEYS = """t = Transpose<perm = [0, 2, 1]>(k)
  c = Constant<value_float = FACTOR>()
  s = Mul(t, c)
  y = MatMul(q, s)"""
FORMS = {
    "after the move": KEYS,
    "before the move": """c = Constant<value_float = FACTOR>()
  s = Mul(k, c)
  t = Transpose<perm = [0, 2, 1]>(s)
  y = MatMul(q, t)""",
    "on both sides": KEYS.replace("y = MatMul(q, s)", "p = Mul(q, c)\n  y = MatMul(p, s)"),
    "twice": KEYS.replace("y = MatMul(q, s)", "d = Constant<value_float = 3.0>()\n  u = Mul(s, d)\n  y = MatMul(q, u)"),
}
STAYS = {
    "another user": (KEYS.replace("y = MatMul(q, s)", "y = MatMul(q, s)\n  z = Neg(s)"), 0.25),
    "a large factor": (KEYS, 1e30),
    "a small factor": (KEYS, 1e-30),
    "nothing": (KEYS, 0.0),
    "infinity": (KEYS, float("inf")),
    "the side of more rows": (KEYS, 0.25),
    "numbers that differ": (KEYS.replace("c = Constant<value_float = FACTOR>()", "c = Neg(k1)"), 0.25),
}


def model(text, factor, sizes):
    batch, rows, columns, steps = sizes
    outputs = f"(float[{batch},{rows},{columns}] y" + (f", float[{batch},{steps},{columns}] z)" if " z = " in text else ")")
    more = f", float[{steps},1] k1" if "k1" in text else ""
    head = f"(float[{batch},{rows},{steps}] q, float[{batch},{columns},{steps}] k{more}) => {outputs}"
    body = text.replace("FACTOR", repr(factor) if np.isfinite(factor) else "3.4e38")
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g {head} {{\n {body}\n}}')
    if not np.isfinite(factor):
        made.graph.node[1].attribute[0].f = factor
    return made


def moved(made, monkeypatch):
    """How many factors the compiler moves."""
    count = []
    scale = factors._scale
    monkeypatch.setattr(factors, "_scale", lambda *given: count.append(given) or scale(*given))
    lowered = convert(made).lowered
    build(lowered.bytecode, Options(inputs=len(lowered.inputs)))
    return len(count)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", FORMS)
def test_the_other_side_is_multiplied(name, known, monkeypatch):
    sizes = (3, 5, 40, 16)
    made = model(FORMS[name], 0.3, sizes if known else ("b", "m", "n", 16))
    assert moved(made, monkeypatch) == (2 if name == "twice" else 1)
    batch, rows, columns, steps = sizes
    q, k = (RNG.standard_normal((batch, count, steps)).astype("f") for count in (rows, columns))
    factor = {"on both sides": 0.09, "twice": 0.9}.get(name, 0.3)
    expected = factor * (q.astype("d") @ k.astype("d").transpose(0, 2, 1))
    np.testing.assert_allclose(convert(made).compile(threads=1).run({"q": q, "k": k})[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name, monkeypatch):
    text, factor = STAYS[name]
    sizes = (2, 40, 5, 16) if name == "the side of more rows" else (2, 5, 40, 16)
    assert moved(model(text, factor, sizes), monkeypatch) == 0
