"""Which operands of contractions become weights of their own, and that to ask takes no longer than the program is."""

import itertools

import numpy as np
import pytest
import torch

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import derivation
from tests.engine import programs

SQUARE = programs.tensor(torch.float32, (4, 4))
DOUBLED = """
  %{to} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}} ins(%{of}, %{of} : {type}, {type})
      outs(%e : {type}) {{
  ^bb0(%u{to}: f32, %v{to}: f32, %o{to}: f32):
    %s{to} = arith.addf %u{to}, %v{to} : f32
    linalg.yield %s{to} : f32
  }} -> {type}"""
PRODUCT = """
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : {type}) -> {type}
  %r = linalg.matmul ins(%{left}, %{right} : {type}, {type}) outs(%f : {type}) -> {type}
  return %r : {type}"""


def doubled(source, times):
    """A value added to itself again and again: there are 2^times ways from the last to the first."""
    names = [source, *(f"{source}d{step}" for step in range(times))]
    steps = [DOUBLED.format(of=of, to=to, type=SQUARE) for of, to in itertools.pairwise(names)]
    return "".join(steps), names[-1]


def made_of(text):
    lowered = programs.lowered(text, [(torch.float32, (4, 4))], [(torch.float32, (4, 4))], weights=[WEIGHT])
    with ir.Context(), ir.Location.unknown():
        return derivation.derive(ir.Module.parse(lowered.bytecode), 1)


WEIGHT = (np.eye(4, dtype=np.float32), torch.float32, (4, 4))
EMPTY = f"%e = tensor.empty() : {SQUARE}"


def test_what_depends_on_inputs_stays_however_many_ways_lead_to_them():
    text, last = doubled("a0", 60)
    assert made_of(EMPTY + text + PRODUCT.format(left=last, right="a1", type=SQUARE)) == []


def test_what_depends_on_weights_alone_is_made_of_them():
    text, last = doubled("a1", 3)
    text = EMPTY + text + PRODUCT.format(left="a0", right=last, type=SQUARE)
    (made,) = made_of(text)
    assert made.shape == [4, 4] and [step[0] for step in made.steps] == ["weight", "nest", "nest", "nest"]
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    (found,) = programs.run(text, [(torch.float32, (4, 4))], [(torch.float32, (4, 4))], [x], weights=[WEIGHT])
    np.testing.assert_array_equal(found, 8 * x)
