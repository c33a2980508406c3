"""Padding by slabs: any widths, static or not, sizes 0 and 1."""

import numpy as np
import pytest
import sympy
import torch

from tests.engine import programs
from tests.engine.programs import M, N

f32 = torch.float32
K, P = sympy.Symbol("s2", integer=True), sympy.Symbol("s3", integer=True)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_pad_in_three_dims(dynamic):
    source, target = ("?x?x5", "?x?x9") if dynamic else ("2x3x5", "3x7x9")
    body = f"""
  %z = arith.constant 0.5 : f32
  %p = tensor.pad %a0 low[1, 0, 3] high[0, 4, 1] {{
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %z : f32
  }} : tensor<{source}xf32> to tensor<{target}xf32>
  return %p : tensor<{target}xf32>"""
    shapes = ((N, M, 5), (K, P, 9)) if dynamic else ((2, 3, 5), (3, 7, 9))
    for sizes in [(2, 3, 5), (1, 0, 5), (0, 1, 5)] if dynamic else [(2, 3, 5)]:
        x = np.random.default_rng(0).standard_normal(sizes).astype("f")
        (found,) = programs.run(body, [(f32, shapes[0])], [(f32, shapes[1])], [x])
        np.testing.assert_array_equal(found, np.pad(x, ((1, 0), (0, 4), (3, 1)), constant_values=0.5))


def test_widths_known_at_run_time():
    body = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant -1.0 : f32
  %n = tensor.dim %a0, %c0 : tensor<?x?xf32>
  %m = tensor.dim %a0, %c1 : tensor<?x?xf32>
  %p = tensor.pad %a0 low[%m, 1] high[2, %n] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<?x?xf32> to tensor<?x?xf32>
  return %p : tensor<?x?xf32>"""
    for n, m in ((3, 2), (0, 1), (1, 0)):
        x = np.arange(n * m, dtype="f").reshape(n, m)
        (found,) = programs.run(body, [(f32, (N, M))], [(f32, (K, P))], [x])
        np.testing.assert_array_equal(found, np.pad(x, ((m, 2), (1, n)), constant_values=-1.0))
