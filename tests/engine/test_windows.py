"""Windows over channels that lie side by side: depthwise sums, extrema and sums, of any size, step and dtype."""

import numpy as np
import pytest
import sympy
import torch

from tests.engine import programs
from tests.engine.programs import MLIR, NUMPY, M, N

pytest.importorskip("torch_mlir")

C = sympy.Symbol("s2", integer=True)
SUM = {True: ("mulf", "addf"), False: ("muli", "addi")}
DIMS = "n, i, j, c, p, q"


def window(sizes, kernel, steps, apart, dtype, kind, dynamic):
    """The program of a window over [N, H, W, C] and what it should give."""
    n, h, w, c = sizes
    rng = np.random.default_rng(sum(sizes))
    floats = dtype.is_floating_point
    x = rng.integers(-9, 9, sizes).astype(NUMPY[dtype])
    weight = rng.integers(-9, 9, (c, *kernel)).astype(NUMPY[dtype])
    out = [(d - (k - 1) * a - 1) // s + 1 for d, k, a, s in zip((h, w), kernel, apart, steps, strict=True)]
    shape = (N, M, w, c) if dynamic else sizes
    result = (N, C, out[1], c) if dynamic else (n, *out, c)
    types = [programs.tensor(dtype, s) for s in (shape, (c, *kernel), result)]
    element = MLIR[dtype]
    zero = "0.0" if floats else "0"
    weighted = kind == "depthwise"
    if weighted:
        product, total = SUM[floats]
        body = f"%m = arith.{product} %u, %t : {element}\n%s = arith.{total} %o, %m : {element}"
    else:
        total = {"max": "maximumf" if floats else "maxsi", "sum": SUM[floats][1]}[kind]
        body = f"%s = arith.{total} %o, %u : {element}"
    taps = types[1] if weighted else programs.tensor(dtype, kernel)
    text = f"""
  %z = arith.constant {zero} : {element}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a0, %c0 : {types[0]}
  %h = tensor.dim %a0, %c1 : {types[0]}
  %reach = arith.constant {(kernel[0] - 1) * apart[0] + 1} : index
  %by = arith.constant {steps[0]} : index
  %room = arith.subi %h, %reach : index
  %steps = arith.divui %room, %by : index
  %v = arith.addi %steps, %c1 : index
  %k = tensor.empty() : {taps}
  %e = tensor.empty({"%n, %v" if dynamic else ""}) : {types[2]}
  %f = linalg.fill ins(%z : {element}) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.generic {{indexing_maps = [
      affine_map<({DIMS}) -> (n, i * {steps[0]} + p * {apart[0]}, j * {steps[1]} + q * {apart[1]}, c)>,
      affine_map<({DIMS}) -> {"(c, p, q)" if weighted else "(p, q)"}>, affine_map<({DIMS}) -> (n, i, j, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
      ins(%a0, {"%a1" if weighted else "%k"} : {types[0]}, {taps}) outs(%f : {types[2]}) {{
  ^bb0(%u: {element}, %t: {element}, %o: {element}):
    {body}
    linalg.yield %s : {element}
  }} -> {types[2]}
  return %r : {types[2]}"""
    weights = [(weight, dtype, weight.shape)] if weighted else []
    (found,) = programs.run(text, [(dtype, shape)], [(dtype, result)], [x], weights=weights)
    return found, _expected(x, weight, out, steps, apart, kind)


def _expected(x, weight, out, steps, apart, kind):
    total = np.zeros((x.shape[0], *out, x.shape[3]), x.dtype)
    for p in range(weight.shape[1]):
        for q in range(weight.shape[2]):
            rows = slice(p * apart[0], p * apart[0] + (out[0] - 1) * steps[0] + 1, steps[0])
            columns = slice(q * apart[1], q * apart[1] + (out[1] - 1) * steps[1] + 1, steps[1])
            part = x[:, rows, columns]
            if kind == "max":
                total = np.maximum(total, part)
            else:
                total = total + (part * weight[:, p, q] if kind == "depthwise" else part)
    return total


@pytest.mark.parametrize(
    ("sizes", "kernel", "steps", "apart", "dtype", "kind", "dynamic"),
    [
        ((2, 9, 11, 37), (3, 3), (1, 1), (1, 1), "float32", "depthwise", False),
        ((1, 12, 30, 16), (5, 3), (2, 1), (1, 2), "float32", "depthwise", True),
        ((3, 4, 4, 5), (4, 4), (1, 1), (1, 1), "float64", "depthwise", False),
        ((1, 7, 8, 33), (2, 2), (3, 2), (1, 1), "int32", "depthwise", False),
        ((2, 8, 9, 23), (3, 2), (2, 2), (1, 1), "float32", "max", True),
        ((1, 8, 20, 40), (2, 2), (2, 2), (2, 3), "int8", "max", False),
        ((1, 3, 60, 18), (2, 35), (1, 1), (1, 1), "float32", "depthwise", False),
        ((1, 3, 40, 34), (1, 5), (1, 3), (1, 2), "float32", "depthwise", False),
        ((1, 40, 3, 34), (5, 1), (2, 1), (1, 1), "float32", "max", False),
        ((2, 6, 7, 19), (3, 3), (1, 1), (1, 1), "float32", "sum", False),
        ((0, 6, 7, 19), (3, 3), (1, 1), (1, 1), "float32", "sum", True),
    ],
    ids=str,
)
@pytest.mark.parametrize("disabled", ["", "windows"], ids=["tiles", "loops"])
def test_windows(sizes, kernel, steps, apart, dtype, kind, dynamic, disabled, monkeypatch):
    if disabled and dtype != "float32":
        pytest.skip("one dtype is enough for the loops")
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    found, expected = window(sizes, kernel, steps, apart, getattr(torch, dtype), kind, dynamic)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("channels", [1, 5, 8, 16, 17, 19, 32, 67, 100, 131, 257, 300, 511, 512])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_whole_rows_summed_up(channels, kind):
    shape, result = (N, M, channels), (N, channels)
    types = [programs.tensor(torch.float32, s) for s in (shape, result)]
    body = {"sum": "arith.addf", "max": "arith.maximumf"}[kind]
    text = f"""
  %z = arith.constant -3.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a0, %c0 : {types[0]}
  %e = tensor.empty(%n) : {types[1]}
  %f = linalg.fill ins(%z : f32) outs(%e : {types[1]}) -> {types[1]}
  %r = linalg.generic {{indexing_maps = [affine_map<(n, p, c) -> (n, p, c)>, affine_map<(n, p, c) -> (n, c)>],
      iterator_types = ["parallel", "reduction", "parallel"]}} ins(%a0 : {types[0]}) outs(%f : {types[1]}) {{
  ^bb0(%u: f32, %o: f32):
    %s = {body} %o, %u : f32
    linalg.yield %s : f32
  }} -> {types[1]}
  return %r : {types[1]}"""
    engine = programs.engine.compile(programs.lowered(text, [(torch.float32, shape)], [(torch.float32, result)]))
    for n, m in ((1, 7), (3, 0), (0, 4), (5, 33)):
        x = np.random.default_rng(n).integers(-9, 9, (n, m, channels)).astype(np.float32)
        (found,) = engine.run([x])
        wanted = x.sum(1) - 3 if kind == "sum" else np.maximum(x.max(1, initial=-3), -3)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("channels", [16, 100, 512])
def test_rows_with_one_number_per_channel(channels):
    shape, numbers, result = (2, M, channels), (channels,), (2, channels)
    types = [programs.tensor(torch.float32, s) for s in (shape, numbers, result)]
    text = f"""
  %z = arith.constant -3.0 : f32
  %e = tensor.empty() : {types[2]}
  %f = linalg.fill ins(%z : f32) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.generic {{indexing_maps = [affine_map<(n, p, c) -> (n, p, c)>, affine_map<(n, p, c) -> (c)>,
      affine_map<(n, p, c) -> (n, c)>], iterator_types = ["parallel", "reduction", "parallel"]}}
      ins(%a0, %a1 : {types[0]}, {types[1]}) outs(%f : {types[2]}) {{
  ^bb0(%u: f32, %v: f32, %o: f32):
    %s = arith.addf %u, %v : f32
    %m = arith.maximumf %o, %s : f32
    linalg.yield %m : f32
  }} -> {types[2]}
  return %r : {types[2]}"""
    given = [(torch.float32, shape), (torch.float32, numbers)]
    engine = programs.engine.compile(programs.lowered(text, given, [(torch.float32, result)]))
    for m in (0, 1, 33):
        x, y = (np.random.default_rng(m).integers(-9, 9, s).astype(np.float32) for s in ((2, m, channels), (channels,)))
        (found,) = engine.run([x, y])
        np.testing.assert_array_equal(found, np.maximum((x + y).max(1, initial=-3), -3))
