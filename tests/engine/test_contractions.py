import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from tests.engine import programs
from tests.engine.programs import M, N

f32 = torch.float32


def product(left, right, result, outer="mulf"):
    return f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %a0, %c0 : tensor<?x?xf32>
  %m = tensor.dim %a1, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> {left}>, affine_map<(i, j, k) -> {right}>,
      affine_map<(i, j, k) -> {result}>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a0, %a1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) {{
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.{outer} %x, %y : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  }} -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>"""


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 1, 1), (0, 2, 3), (2, 0, 3), (33, 65, 17)], ids=str)
def test_matmul_dynamic(sizes):
    n, k, m = sizes
    a, b = np.random.rand(n, k).astype("f"), np.random.rand(k, m).astype("f")
    K = programs.sympy.Symbol("s2")
    (result,) = programs.run(
        product("(i, k)", "(k, j)", "(i, j)"), [(f32, (N, K)), (f32, (K, M))], [(f32, (N, M))], [a, b]
    )
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 4])
def test_convolution(stride, groups):
    x = np.random.rand(2, 8, 9, 11).astype("f")
    w = np.random.rand(12, 8 // groups, 3, 3).astype("f")
    expected = torch.nn.functional.conv2d(
        torch.from_numpy(x), torch.from_numpy(w), stride=stride, groups=groups
    ).numpy()
    _, _, h, v = expected.shape
    g, fg, cg = groups, 12 // groups, 8 // groups
    types = f"tensor<2x{g}x{cg}x9x11xf32>", f"tensor<{g}x{fg}x{cg}x3x3xf32>", f"tensor<2x{g}x{fg}x{h}x{v}xf32>"
    dims = "n, g, f, h, v, c, p, q"
    body = f"""
  %zero = arith.constant 0.0 : f32
  %x = tensor.expand_shape %a0 [[0], [1, 2], [3], [4]] output_shape [2, {g}, {cg}, 9, 11]
      : tensor<2x8x9x11xf32> into {types[0]}
  %w = tensor.expand_shape %a1 [[0, 1], [2], [3], [4]] output_shape [{g}, {fg}, {cg}, 3, 3]
      : tensor<12x{cg}x3x3xf32> into {types[1]}
  %e = tensor.empty() : {types[2]}
  %i = linalg.fill ins(%zero : f32) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.generic {{indexing_maps = [
      affine_map<({dims}) -> (n, g, c, h * {stride} + p, v * {stride} + q)>,
      affine_map<({dims}) -> (g, f, c, p, q)>, affine_map<({dims}) -> (n, g, f, h, v)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
          "reduction", "reduction", "reduction"]}}
      ins(%x, %w : {types[0]}, {types[1]}) outs(%i : {types[2]}) {{
  ^bb0(%u: f32, %t: f32, %o: f32):
    %p = arith.mulf %u, %t : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  }} -> {types[2]}
  %c = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] : {types[2]} into tensor<2x12x{h}x{v}xf32>
  return %c : tensor<2x12x{h}x{v}xf32>"""
    inputs = [(f32, x.shape), (f32, w.shape)]
    (result,) = programs.run(body, inputs, [(f32, expected.shape)], [x, w])
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_integer_matmul_through_a_named_op():
    a = np.random.randint(-128, 128, (4, 6)).astype(np.int8)
    b = np.random.randint(-128, 128, (6, 3)).astype(np.int8)
    body = """
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x3xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<4x3xi32>) -> tensor<4x3xi32>
  %r = linalg.matmul ins(%a0, %a1 : tensor<4x6xi8>, tensor<6x3xi8>) outs(%f : tensor<4x3xi32>) -> tensor<4x3xi32>
  return %r : tensor<4x3xi32>"""
    inputs = [(torch.int8, (4, 6)), (torch.int8, (6, 3))]
    (result,) = programs.run(body, inputs, [(torch.int32, (4, 3))], [a, b])
    assert np.array_equal(result, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batches", [1, 2, 5])
@pytest.mark.parametrize("sizes", [(7, 300, 2200), (130, 257, 1601), (3, 2100, 1030)])
def test_columns_that_do_not_stay_in_the_cache(sizes, batches, threads):
    """They are packed by who multiplies them, some at a time."""
    rows, length, columns = sizes
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype("f") for shape in ((batches, rows, length), (batches, length, columns)))
    types = [f"tensor<?x{x}x{y}xf32>" for x, y in ((rows, length), (length, columns), (rows, columns))]
    body = f"""
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a0, %c0 : {types[0]}
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : {types[2]}
  %f = linalg.fill ins(%zero : f32) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.batch_matmul ins(%a0, %a1 : {types[0]}, {types[1]}) outs(%f : {types[2]}) -> {types[2]}
  return %r : {types[2]}"""
    shapes = [(f32, (N, rows, length)), (f32, (N, length, columns)), (f32, (N, rows, columns))]
    compiled = engine.compile(programs.lowered(body, shapes[:2], shapes[2:]), threads=threads)
    compiled.worth = 1
    (got,) = compiled.run([a, b])
    assert np.allclose(got, a.astype("d") @ b.astype("d"), rtol=1e-4, atol=1e-3)
