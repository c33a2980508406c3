"""Rows on a grid of 127 steps times dequantized weights: products of bytes, where the rows turn out to be that."""

import dataclasses

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import byte_rows, vector_unit
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.options import of_environment
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine.made_here import assume_vectors, engine_of
from tests.engine.programs import N, tensor
from tests.engine.test_coded_weights import HALF_MORE, Weights
from tests.engine.test_integer_tiles import program

F, I8 = torch.float32, torch.int8
RNG = np.random.default_rng(0)
ROWS = (1, 2, 0, 6, 9, 103)
HOST = vector_unit.of_host()
needs_bytes = pytest.mark.skipif(not HOST.largest_byte, reason="the processor does not add products of bytes")


def options(inputs):
    """Those of the environment, with every matcher."""
    return dataclasses.replace(of_environment(inputs), disabled=frozenset())


def rounded(weights, tail=""):
    """A program that rounds %a0 [N, steps] and multiplies it by the length of the steps, which follows the weights, then by the
    weights."""
    x, steps = tensor(F, (N, weights.steps)), tensor(F, (N, weights.steps))
    head = f"""
      %axis0 = arith.constant 0 : index
      %n0 = tensor.dim %a0, %axis0 : {x}
      %xe = tensor.empty(%n0) : {x}
      %x = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
          ins(%a0, %a1 : {x}, {steps}) outs(%xe : {x}) {{
        ^bb0(%i: f32, %d: f32, %o: f32):
          %w = math.roundeven %i : f32
          %m = arith.mulf %w, %d : f32
          linalg.yield %m : f32 }} -> {x}"""
    names = {"%a0": "%x", "%a1": "%a2", "%a2": "%a3", "%a3": "%a4"}
    body = weights.body(x, tail)
    for old in sorted(names, reverse=True):
        body = body.replace(f"{old},", f"{names[old]},").replace(f"{old} :", f"{names[old]} :")
    size = (N, weights.steps)
    return program(head + body, [(F, size), (F, size)], [(F, (N, weights.columns))], weights.arguments())


def rows_for(weights, count, most=127):
    """Whole numbers [count, steps], of each block at least one of magnitude ``most``, and the length of each one's steps."""
    shape = (count, weights.blocks, weights.block)
    numbers = RNG.integers(-most, most, shape, endpoint=True).astype(np.float32)
    numbers[..., 0] = most
    steps = np.broadcast_to(RNG.uniform(0.001, 3, (*shape[:2], 1)).astype(np.float32), shape)
    return [array.reshape(count, weights.blocks * weights.block)[:, : weights.steps].copy() for array in (numbers, steps)]


def expected(weights, numbers, steps):
    return (np.rint(numbers) * steps).astype(np.float64) @ weights.floats().astype(np.float64).T


def compiled_here(made, inputs=2):
    """An engine whose code is made in this process."""
    return engine_of(made, build(made.bytecode, options(inputs)))


def goes_by_bytes(made, given, wanted, monkeypatch):
    """Whether the result is another one if tiles of bytes take another number for the length of the rows' steps."""
    with monkeypatch.context() as patch:
        patch.setattr(byte_rows, "STEP", byte_rows.LESS)
        (found,) = compiled_here(made).run([*given])
    return not np.allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


FORMS = {
    "4 bits": Weights(70, 96, 32, (0, 15), "one"),
    "4 bits, own zeros": Weights(16, 64, 16, (0, 15), "own"),
    "4 bits, fractions": Weights(33, 64, 16, (0, 15), "fractions"),
    "4 bits, signed": Weights(17, 304, 8, (-8, 7), None, I8),
    "4 bits, cut off": Weights(5, 523, 32, (0, 15), "own"),
    "4 bits, one block": Weights(21, 37, 37, (0, 15), "one"),
    "2 bits": Weights(19, 320, 16, (0, 3), "one"),
    "2 bits, own zeros": Weights(37, 160, 32, (0, 3), "own"),
    "8 bits": Weights(35, 1030, 128, (0, 255), "own"),
    "8 bits, signed": Weights(65, 256, 64, (-128, 127), None, I8),
}


@needs_bytes
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_forms(name, threads, monkeypatch):
    weights = FORMS[name]
    made = rounded(weights)
    code = engine.compile(made, threads=threads)
    for count in ROWS:
        given = rows_for(weights, count)
        wanted = expected(weights, *given)
        np.testing.assert_allclose(code.run(given)[0], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max(initial=1))
    known = name.startswith(("2", "4")) or HOST.has_dot_products
    assert goes_by_bytes(made, given, wanted, monkeypatch) == known


@needs_bytes
def test_sums_of_a_block_are_exact():
    """One block: whole numbers throughout, of which float32 holds all."""
    weights = Weights(40, 32, 32, (0, 15), "one")
    weights.scales[:] = 1
    numbers, steps = rows_for(weights, 7)
    steps[:] = 1
    (found,) = engine.compile(rounded(weights)).run([numbers, steps])
    np.testing.assert_array_equal(found, expected(weights, numbers, steps))


def off_by(weights, place, value):
    """Rows of which one has another number somewhere."""
    numbers, steps = rows_for(weights, 20)
    numbers[place] = value
    return numbers, steps


OTHERS = {
    "too large": lambda w: off_by(w, (19, 40), 131.0),
    "in the first block": lambda w: off_by(w, (0, 3), 500.0),
    "other steps": lambda w: (rows_for(w, 20)[0], RNG.uniform(1, 2, (20, w.steps)).astype(np.float32)),
}


@needs_bytes
@pytest.mark.parametrize("name", OTHERS)
def test_rows_that_are_on_no_grid(name, monkeypatch):
    weights = FORMS["4 bits"]
    given = OTHERS[name](weights)
    made, wanted = rounded(weights), expected(weights, *given)
    np.testing.assert_allclose(engine.compile(made).run([*given])[0], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
    assert not goes_by_bytes(made, given, wanted, monkeypatch)


@needs_bytes
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_rows_that_are_not_finite(value):
    weights = FORMS["4 bits"]
    numbers, steps = off_by(weights, (3, 7), value)
    (found,) = engine.compile(rounded(weights)).run([numbers, steps])
    assert not np.isfinite(found[3]).any()
    others = np.arange(20) != 3
    wanted = expected(weights, numbers[others], steps[others])
    np.testing.assert_allclose(found[others], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@needs_bytes
def test_blocks_of_nothing_and_of_almost_nothing():
    weights = FORMS["4 bits"]
    numbers, steps = rows_for(weights, 12)
    numbers[:6, 32:64] = 0
    numbers[5] = 0
    steps[6:9, :32] = 1e-37
    steps[9:, :32] = 1e-42
    wanted = expected(weights, numbers, steps)
    (found,) = engine.compile(rounded(weights)).run([numbers, steps])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@needs_bytes
def test_a_step_whose_127th_multiple_was_rounded(monkeypatch):
    """127 steps, rounded, and that divided by 127, may be a neighbour of the step."""
    weights = Weights(8, 32, 32, (0, 15), "one")
    candidates = RNG.uniform(1, 2, 1 << 16).astype(np.float32)
    back = (candidates * np.float32(127)) / np.float32(127)
    odd = [*candidates[back < candidates][:2], *candidates[back > candidates][:2]]
    assert odd
    numbers, steps = rows_for(weights, len(odd))
    steps[:] = np.asarray(odd)[:, None]
    made, wanted = rounded(weights), expected(weights, numbers, steps)
    np.testing.assert_allclose(engine.compile(made).run([numbers, steps])[0], wanted, rtol=1e-5, atol=1e-3)
    assert goes_by_bytes(made, [numbers, steps], wanted, monkeypatch)


@needs_bytes
def test_a_tail():
    weights = Weights(40, 64, 32, (0, 15), "one")
    given = rows_for(weights, 100)
    (found,) = engine.compile(rounded(weights, HALF_MORE)).run(given)
    np.testing.assert_allclose(found, expected(weights, *given) + 0.5, rtol=1e-5, atol=1e-2)


def test_rows_that_nobody_rounded_are_not_looked_at():
    weights = FORMS["4 bits"]
    entry = build(weights.program().bytecode, options(1))
    assert entry["packings"]
    assert b"byte_rows" not in entry["object"]
    assert not HOST.largest_byte or b"byte_rows" in build(rounded(weights).bytecode, options(2))["object"]


@needs_bytes
def test_products_of_the_same_rows():
    """Each of them goes by bytes, as queries, keys and values do."""
    weights = {
        "w": RNG.integers(0, 256, (40, 3, 16)).astype(np.uint8),
        "scales": RNG.uniform(0.01, 0.1, (40, 3)).astype(np.float32),
        "others": RNG.uniform(0.01, 0.1, (40, 3)).astype(np.float32),
    }
    sizes = {"domain": "com.microsoft", "K": 96, "N": 40, "bits": 4, "block_size": 32, "accuracy_level": 4}
    nodes = [helper.make_node("MatMulNBits", ["x", "w", name], [f"of_{name}"], **sizes) for name in ("scales", "others")]
    ends = [helper.make_tensor_value_info(f"of_{name}", TensorProto.FLOAT, ["n", 40]) for name in ("scales", "others")]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 96])]
    graph = helper.make_graph(nodes, "g", given, ends, [numpy_helper.from_array(w, name) for name, w in weights.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    program = convert(read(model))
    code = build(program.lowered.bytecode, options(1))["object"]
    assert b"_1_1_bytes" in code
    assert b"_1_1_codes" not in code
    x = RNG.standard_normal((70, 96)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(program.compile().run({"x": x}), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


UNITS = {
    "SSSE3": vector_unit.VectorUnit(4, 16, True, 64),
    "AVX2": vector_unit.VectorUnit(8, 16, True, 64),
    "AVX-512 without dot products": vector_unit.VectorUnit(16, 32, True, 64),
}


@needs_bytes
@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("form", ["4 bits, own zeros", "2 bits", "4 bits, cut off", "8 bits"])
def test_other_vector_units(name, form, monkeypatch):
    unit = UNITS[name]
    if unit.lanes > HOST.lanes:
        pytest.skip("the processor has shorter registers")
    assume_vectors(monkeypatch, unit)
    weights = FORMS[form]
    made = rounded(weights)
    code = compiled_here(made)
    for count in (1, 31):
        given = rows_for(weights, count)
        wanted = expected(weights, *given)
        np.testing.assert_allclose(code.run(given)[0], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
