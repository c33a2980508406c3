"""Products of 16-bit floats, whose sums are float32, against numpy: with weights, which stay as they are, and without."""

import ml_dtypes
import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import contractions, vector_unit
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.layout import CODES_HEADER, FLOAT_CODES, Packing
from onnx2torch_mlir.engine.options import Options
from onnx2torch_mlir.engine.packed_weights import prepared
from tests.engine.made_here import assume_vectors
from tests.engine.programs import MLIR, NUMPY, N, lowered, tensor
from tests.engine.test_ahead_of_time import compiled, needs_compiler

F = torch.float32
NARROW = {"f16": torch.float16, "bf16": torch.bfloat16}
ROWS = (1, 2, 0, 3, 31)
SIZES = [(2, 3), (16, 2), (33, 5), (31, 300), (70, 513), (64, 256)]
"""Columns and steps along the sum."""


def numbers(dtype, *shape):
    made = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return made.astype(NUMPY[dtype])


def product(dtype, x, y, out, turned=False, padded=False):
    """%a0 [M, K] times %a1 [K, N], or [N, K] where it is ``turned``, with sums of float32 that are narrowed at the end."""
    kind, tx, ty, wide, narrow = MLIR[dtype], tensor(dtype, x), tensor(dtype, y), tensor(F, out), tensor(dtype, out)
    rows = "" if isinstance(out[0], int) else "%m"
    return f"""
      %axis = arith.constant 0 : index
      %m = tensor.dim %a0, %axis : {tx}
      %nothing = arith.constant 0.0 : f32
      %e = tensor.empty({rows}) : {wide}
      %f = linalg.fill ins(%nothing : f32) outs(%e : {wide}) -> {wide}
      %s = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
          affine_map<(m, n, k) -> ({"n, k" if turned else "k, n"})>, affine_map<(m, n, k) -> (m, n)>],
          iterator_types = ["parallel", "parallel", "reduction"]}} ins(%a0, %a1 : {tx}, {ty}) outs(%f : {wide}) {{
        ^bb0(%p: {kind}, %q: {kind}, %t: f32):
          %u = arith.extf %p : {kind} to f32
          %v = arith.extf %q : {kind} to f32
          %w = arith.mulf %u, %v : f32
          %z = arith.addf %t, %w : f32
          linalg.yield %z : f32 }} -> {wide}
      %h = tensor.empty({rows}) : {narrow}
      %r = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
          iterator_types = ["parallel", "parallel"]}} ins(%s : {wide}) outs(%h : {narrow}) {{
        ^bb0(%p: f32, %t: {kind}):
          %u = arith.truncf %p : f32 to {kind}
          linalg.yield %u : {kind} }} -> {narrow}
      return %r : {narrow}"""


def agrees(found, x, y):
    """Whether a result is what x times y is, but for the roundings of sums and of the result."""
    wide = [each.astype(np.float64) for each in (x, y)]
    expected, magnitude = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
    resolution = ml_dtypes.finfo(found.dtype).eps
    return bool((np.abs(found.astype(np.float64) - expected) <= resolution * np.abs(expected) + 1e-6 * magnitude).all())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("columns", "steps"), SIZES)
@pytest.mark.parametrize("name", NARROW)
def test_weights_stay_narrow(name, columns, steps, turned):
    dtype = NARROW[name]
    weight = numbers(dtype, *((columns, steps) if turned else (steps, columns)))
    body = product(dtype, (N, steps), weight.shape, (N, columns), turned)
    made = lowered(body, [(dtype, (N, steps))], [(dtype, (N, columns))], [(weight, dtype, weight.shape)])
    entry = build(made.bytecode, Options(inputs=1))
    (packing,) = [Packing(*fields) for fields in entry["packings"]]
    (computed,), (words,) = prepared([weight], [packing], entry["derived"])
    header = words[:CODES_HEADER].view(np.int64)
    assert (int(header[0]), int(header[7])) == (16, FLOAT_CODES[name])
    assert not any(computed.strides)
    program = engine.compile(made)
    for rows in ROWS:
        x = numbers(dtype, rows, steps)
        assert agrees(program.run([x])[0], x, weight.T if turned else weight), rows


@pytest.mark.parametrize("name", NARROW)
def test_infinities_and_the_smallest_numbers_of_weights(name):
    dtype = NARROW[name]
    limits = ml_dtypes.finfo(NUMPY[dtype])
    weight = np.array([[np.inf, -np.inf, np.nan, limits.smallest_subnormal, -0.0, limits.max]]).astype(NUMPY[dtype])
    body = product(dtype, (N, 1), (1, 6), (N, 6))
    program = engine.compile(lowered(body, [(dtype, (N, 1))], [(dtype, (N, 6))], [(weight, dtype, (1, 6))]))
    for rows in (1, 5):
        found = program.run([np.ones((rows, 1), NUMPY[dtype])])[0].astype(np.float32)
        expected = np.repeat(weight.astype(np.float32), rows, 0)
        np.testing.assert_array_equal(found, expected)
        assert np.signbit(found[:, 4]).all() or not found[:, 4].any()


@pytest.mark.parametrize("name", NARROW)
def test_an_infinity_of_a_row_meets_its_own_steps_only(name):
    """Steps beyond the last, of which there is one to an odd number, are not multiplied."""
    dtype = NARROW[name]
    weight = numbers(dtype, 5, 33)
    x = numbers(dtype, 4, 5)
    x[1, 4] = np.inf
    body = product(dtype, (N, 5), (5, 33), (N, 33))
    program = engine.compile(lowered(body, [(dtype, (N, 5))], [(dtype, (N, 33))], [(weight, dtype, (5, 33))]))
    for rows in (2, 4):
        found = program.run([x[:rows]])[0].astype(np.float32)
        assert np.isinf(found[1]).all()
        assert np.isfinite(np.delete(found, 1, 0)).all()


@needs_compiler
def test_for_c_programs(tmp_path):
    weight = numbers(torch.float16, 33, 20)
    body = product(torch.float16, (N, 33), (33, 20), (N, 20))
    made = lowered(body, [(torch.float16, (N, 33))], [(torch.float16, (N, 20))], [(weight, torch.float16, (33, 20))])
    model, peer = compiled(made, tmp_path / "out", 1), engine.compile(made)
    for rows in (1, 5):
        x = numbers(torch.float16, rows, 33)
        np.testing.assert_array_equal(model.run([x])[0], peer.run([x])[0])


@pytest.mark.parametrize("name", NARROW)
def test_what_multiplies_the_running_number_is_no_product(name):
    """The same operations as of a sum of products: here each step multiplies by one number and adds the other."""
    dtype = NARROW[name]
    x, y = numbers(dtype, 5, 6), numbers(dtype, 6, 7)
    body = product(dtype, (5, 6), (6, 7), (5, 7))
    body = body.replace("arith.mulf %u, %v", "arith.mulf %t, %u").replace("arith.addf %t, %w", "arith.addf %w, %v")
    made = lowered(body, [(dtype, (5, 6)), (dtype, (6, 7))], [(dtype, (5, 7))])
    expected = np.zeros((5, 7), np.float32)
    for step in range(6):
        expected = expected * x[:, step : step + 1].astype(np.float32) + y[step].astype(np.float32)
    found = engine.compile(made).run([x, y])[0].astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("rows", [1, 3, 4, 50])
@pytest.mark.parametrize("name", NARROW)
def test_both_sides_are_inputs(name, rows, monkeypatch):
    """From four rows on, the sides become float32 and meet register tiles; below they are read as they are."""
    dtype = NARROW[name]
    found = []
    match = contractions.match
    monkeypatch.setattr(contractions, "match", lambda nest: found.append(match(nest)) or found[-1])
    body = product(dtype, (rows, 40), (40, 33), (rows, 33))
    made = lowered(body, [(dtype, (rows, 40)), (dtype, (40, 33))], [(dtype, (rows, 33))])
    build(made.bytecode, Options(inputs=2))
    assert any(each is not None for each in found) == (rows >= 4)
    x, y = numbers(dtype, rows, 40), numbers(dtype, 40, 33)
    assert agrees(engine.compile(made).run([x, y])[0], x, y)


def test_without_an_instruction_for_halves_weights_are_floats(monkeypatch):
    unit = vector_unit.VectorUnit(4, 16)
    assume_vectors(monkeypatch, unit)
    monkeypatch.setattr(vector_unit, "of_host", lambda: unit)
    dtype = torch.float16
    weight = numbers(dtype, 12, 33)
    body = product(dtype, (N, 12), (12, 33), (N, 33))
    made = lowered(body, [(dtype, (N, 12))], [(dtype, (N, 33))], [(weight, dtype, (12, 33))])
    (fields,) = build(made.bytecode, Options(inputs=1))["packings"]
    assert Packing(*fields).codes is False
