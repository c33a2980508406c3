"""Products with dequantized weights, which stay codes in memory, against numpy: bits, blocks, zero points and sizes."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import vector_unit
from onnx2torch_mlir.engine.layout import CODES_HEADER, Packing
from onnx2torch_mlir.engine.packed_weights import prepared
from tests.engine.made_here import assume_vectors, engine_of, entry_of
from tests.engine.programs import N, tensor
from tests.engine.test_ahead_of_time import compiled, needs_compiler
from tests.engine.test_integer_tiles import program
from tests.engine.test_register_tiles import close, numbers

F, I8, U8 = torch.float32, torch.int8, torch.uint8
ROWS = (1, 2, 0, 3, 31)

HALF_MORE = """%r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]} ins(%y : TYPE) outs(%ye : TYPE) {
        ^bb0(%i: f32, %o: f32):
          %h = arith.constant 0.5 : f32
          %more = arith.addf %i, %h : f32
          linalg.yield %more : f32 } -> TYPE"""
"""What adds a half to a product: a tail of `Weights.body`."""


class Weights:
    """[columns, steps] codes, in blocks along the steps, with scales and zero points of some kind."""

    def __init__(self, columns, steps, block, codes, zeros=None, dtype=U8):
        rng = np.random.default_rng(columns * steps + block)
        self.columns, self.steps, self.block = columns, steps, block
        self.blocks = -(-steps // block)
        self.dtype, self.zeros = dtype, zeros
        self.codes = rng.integers(*codes, (columns, self.blocks, block), endpoint=True)
        self.codes = self.codes.astype(np.int8 if dtype is I8 else np.uint8)
        self.scales = rng.uniform(-1, 1, (columns, self.blocks, 1)).astype(np.float32)
        self.zero = np.zeros((columns, self.blocks, 1), np.float32)
        if zeros == "one":
            self.zero += 8
        if zeros == "own":
            self.zero = rng.integers(0, 15, self.zero.shape).astype(np.float32)
        if zeros == "fractions":
            self.zero = rng.uniform(0, 15, self.zero.shape).astype(np.float32)

    def floats(self):
        whole = (self.codes.astype(np.float32) - self.zero) * self.scales
        return whole.reshape(self.columns, -1)[:, : self.steps]

    def arguments(self):
        small = self.scales.shape
        return [(self.codes, self.dtype, self.codes.shape), (self.scales, F, small), (self.zero, F, small)]

    def body(self, x, tail="", uses=""):
        """%a0, of type ``x``, times the weights, %a1 to %a3."""
        codes, small = tensor(U8, self.codes.shape).replace("ui", "i"), tensor(F, self.scales.shape)
        floats = tensor(F, self.codes.shape)
        flat = tensor(F, (self.columns, self.blocks * self.block))
        w = tensor(F, (self.columns, self.steps))
        y = tensor(F, (N, self.columns)) if "?" in x else tensor(F, (1, self.columns))
        sub = "" if self.zeros is None else "%s = arith.subf %f, %z : f32"
        return f"""
      %e = tensor.empty() : {floats}
      %d = linalg.generic {{indexing_maps = [affine_map<(n, b, k) -> (n, b, k)>, affine_map<(n, b, k) -> (n, b, 0)>,
          affine_map<(n, b, k) -> (n, b, 0)>, affine_map<(n, b, k) -> (n, b, k)>],
          iterator_types = ["parallel", "parallel", "parallel"]}} ins(%a1, %a2, %a3 : {codes}, {small}, {small})
          outs(%e : {floats}) {{
        ^bb0(%q: i8, %c: f32, %z: f32, %o: f32):
          %f = arith.{"s" if self.dtype is I8 else "u"}itofp %q : i8 to f32
          {sub}
          %m = arith.mulf {"%f" if self.zeros is None else "%s"}, %c : f32
          linalg.yield %m : f32 }} -> {floats}
      %flat = tensor.collapse_shape %d [[0], [1, 2]] : {floats} into {flat}
      %w = tensor.extract_slice %flat[0, 0] [{self.columns}, {self.steps}] [1, 1] : {flat} to {w}
      %axis = arith.constant 0 : index
      %n = tensor.dim %a0, %axis : {x}
      %ye = tensor.empty({"%n" if "?" in x else ""}) : {y}
      %nothing = arith.constant 0.0 : f32
      %yf = linalg.fill ins(%nothing : f32) outs(%ye : {y}) -> {y}
      %y = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%a0, %w : {x}, {w}) outs(%yf : {y}) {{
        ^bb0(%u: f32, %v: f32, %t: f32):
          %p = arith.mulf %u, %v : f32
          %s = arith.addf %t, %p : f32
          linalg.yield %s : f32 }} -> {y}
      {tail.replace("TYPE", y)}
      return %{"r" if tail else "y"}{", %w" if uses else ""} : {y}{", " + w if uses else ""}"""

    def program(self, tail="", uses=""):
        x = (N, self.steps)
        outputs = [(F, (N, self.columns)), *([(F, (self.columns, self.steps))] if uses else [])]
        return program(self.body(tensor(F, x), tail, uses), [(F, x)], outputs, self.arguments())


def packed_bits(made):
    """How many bits the codes of the only packed weight have."""
    entry = entry_of(made)
    (packing,) = [Packing(*fields) for fields in entry["packings"]]
    assert packing.codes
    ((words,),) = prepared([weight.array for weight in made.weights], [packing], entry["derived"])[1:]
    return int(words[:CODES_HEADER].view(np.int64)[0])


FORMS = {
    "4 bits": (Weights(70, 96, 32, (0, 15), "one"), 4),
    "4 bits, own zeros": (Weights(16, 64, 16, (0, 15), "own"), 4),
    "4 bits, fractions": (Weights(33, 64, 16, (0, 15), "fractions"), 4),
    "4 bits, signed": (Weights(17, 300, 8, (-8, 7), None, I8), 4),
    "4 bits, cut off": (Weights(5, 523, 32, (0, 15), "own"), 4),
    "4 bits, one block": (Weights(21, 37, 37, (0, 15), "one"), 4),
    "signed fractions": (Weights(33, 64, 16, (-8, 7), "fractions", I8), 32),
    "2 bits": (Weights(19, 320, 16, (0, 3), "one"), 2),
    "8 bits": (Weights(35, 41, 41, (-128, 127), "one", I8), 8),
    "8 bits, unsigned": (Weights(35, 1030, 128, (0, 255), "own"), 8),
    "blocks that share words": (Weights(9, 28, 4, (0, 15), "own"), 8),
    "blocks of three": (Weights(9, 21, 3, (0, 15), "own"), 32),
    "two columns": (Weights(2, 2, 2, (15, 15), "own"), 4),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name, monkeypatch):
    weights, bits = FORMS[name]
    made = weights.program()
    assert packed_bits(made) == bits
    code = engine.compile(made)
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "contractions")
    plain = engine.compile(made)
    for rows in ROWS:
        x = numbers(rows, weights.steps)
        expected = x @ weights.floats().T
        scale = np.abs(weights.floats()).max() * weights.steps
        np.testing.assert_allclose(code.run([x])[0], expected, rtol=1e-5, atol=1e-6 * scale)
        np.testing.assert_allclose(plain.run([x])[0], expected, rtol=1e-5, atol=1e-6 * scale)


def test_many_rows_see_the_numbers_of_the_program():
    """Rows of an identity give back the weights, bit by bit."""
    weights = FORMS["4 bits, cut off"][0]
    (found,) = engine.compile(weights.program()).run([np.eye(weights.steps, dtype=np.float32)])
    np.testing.assert_array_equal(found, weights.floats().T)


def test_tail_and_another_use():
    weights = Weights(40, 64, 32, (0, 15), "one")
    code = engine.compile(weights.program(HALF_MORE, uses="w"))
    for rows in (2, 100):
        x = numbers(rows, 64)
        y, w = code.run([x])
        np.testing.assert_array_equal(w, weights.floats())
        np.testing.assert_allclose(y, x @ weights.floats().T + np.float32(0.5), rtol=1e-5, atol=1e-3)


@needs_compiler
@pytest.mark.parametrize("uses", ["", "w"])
def test_for_c_programs(uses, tmp_path):
    weights = Weights(40, 64, 32, (0, 15), "one")
    model = compiled(weights.program(uses=uses), tmp_path / "out", 1 + bool(uses))
    x = numbers(5, 64)
    y, *more = model.run([x])
    np.testing.assert_allclose(y, x @ weights.floats().T, rtol=1e-5, atol=1e-3)
    for w in more:
        np.testing.assert_array_equal(w, weights.floats())


def test_weights_that_no_tile_takes_are_computed_when_loaded():
    """A convolution's window has several dims along the sum: it finds floats."""
    codes = np.random.default_rng(0).integers(0, 15, (18, 3, 3, 2)).astype(np.uint8)
    w, x, y = tensor(F, codes.shape), (2, 11, 13, 3), (2, 9, 12, 18)
    same = "affine_map<(a, b, c, d) -> (a, b, c, d)>"
    body = f"""
      %e = tensor.empty() : {w}
      %d = linalg.generic {{indexing_maps = [{same}, {same}],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
          ins(%a1 : {w.replace("f32", "i8")}) outs(%e : {w}) {{
        ^bb0(%q: i8, %o: f32):
          %f = arith.uitofp %q : i8 to f32
          linalg.yield %f : f32 }} -> {w}
      %ye = tensor.empty() : {tensor(F, y)}
      %nothing = arith.constant 0.0 : f32
      %yf = linalg.fill ins(%nothing : f32) outs(%ye : {tensor(F, y)}) -> {tensor(F, y)}
      %y = linalg.generic {{indexing_maps = [affine_map<(n, h, w, f, p, q, c) -> (n, h + p, w + q, c)>,
          affine_map<(n, h, w, f, p, q, c) -> (f, c, p, q)>, affine_map<(n, h, w, f, p, q, c) -> (n, h, w, f)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
          ins(%a0, %d : {tensor(F, x)}, {w}) outs(%yf : {tensor(F, y)}) {{
        ^bb0(%u: f32, %v: f32, %t: f32):
          %p = arith.mulf %u, %v : f32
          %s = arith.addf %t, %p : f32
          linalg.yield %s : f32 }} -> {tensor(F, y)}
      return %y : {tensor(F, y)}"""
    image = numbers(*x)
    made = program(body, [(F, x)], [(F, y)], [(codes, U8, codes.shape)])
    expected = torch.conv2d(torch.from_numpy(image).permute(0, 3, 1, 2), torch.from_numpy(codes.astype(np.float32)))
    np.testing.assert_allclose(engine.compile(made).run([image])[0], expected.permute(0, 2, 3, 1).numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "unit", [vector_unit.VectorUnit(4, 16), vector_unit.VectorUnit(16, 32)], ids=lambda u: f"{u.lanes} lanes"
)
def test_other_vector_units(unit, monkeypatch):
    assume_vectors(monkeypatch, unit)
    weights = FORMS["4 bits, own zeros"][0]
    made = weights.program()
    code = engine_of(made)
    for rows in (1, 31):
        x = numbers(rows, weights.steps)
        close(code.run([x])[0] / 30, x @ weights.floats().T / 30)
