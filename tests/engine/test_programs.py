"""Programs of each kind that lowerings emit, against NumPy."""

import numpy as np
import pytest
import sympy
import torch

from tests.engine import programs
from tests.engine.programs import M, N

f32, i64 = torch.float32, torch.int64
X = "tensor<?x?xf32>"
SIZES = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a0, %c0 : tensor<?x?xf32>
  %m = tensor.dim %a0, %c1 : tensor<?x?xf32>
  %zero = arith.constant 0.0 : f32
"""
SHAPES = [(2, 3), (1, 1), (0, 3), (3, 0), (17, 33)]


@pytest.fixture(params=SHAPES, ids=str)
def x(request):
    return np.random.default_rng(1).standard_normal(request.param).astype(np.float32)


def run(body, outputs, arrays, inputs=((f32, (N, M)),), **more):
    return programs.run(SIZES + body, inputs, outputs, arrays, **more)


def test_pad(x):
    body = f"""
  %p = tensor.pad %a0 low[1, 0] high[%c1, 2] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  }} : {X} to {X}
  return %p : {X}"""
    (result,) = run(body, [(f32, (N + 2, M + 2))], [x])
    assert np.array_equal(result, np.pad(x, ((1, 1), (0, 2))))


def test_concat_slice_insert(x):
    body = f"""
  %c2 = arith.constant 2 : index
  %nn = arith.muli %n, %c2 : index
  %c = tensor.concat dim(0) %a0, %a0 : ({X}, {X}) -> {X}
  %s = tensor.extract_slice %c[%n, 0] [%n, %m] [1, 1] : {X} to {X}
  %e = tensor.empty(%nn, %m) : {X}
  %f = linalg.fill ins(%zero : f32) outs(%e : {X}) -> {X}
  %i = tensor.insert_slice %s into %f[0, 0] [%n, %m] [2, 1] : {X} into {X}
  return %c, %s, %i : {X}, {X}, {X}"""
    joined, part, spread = run(body, [(f32, (2 * N, M)), (f32, (N, M)), (f32, (2 * N, M))], [x])
    expected = np.zeros((2 * x.shape[0], x.shape[1]), np.float32)
    expected[::2] = x
    assert (
        np.array_equal(joined, np.concatenate([x, x])) and np.array_equal(part, x) and np.array_equal(spread, expected)
    )


def test_reshapes_of_dynamic_dims(x):
    body = f"""
  %flat = tensor.collapse_shape %a0 [[0, 1]] : {X} into tensor<?xf32>
  %back = tensor.expand_shape %flat [[0, 1, 2]] output_shape [%m, 1, %n] : tensor<?xf32> into tensor<?x1x?xf32>
  %nm = arith.muli %n, %m : index
  %shape = tensor.from_elements %nm, %c1 : tensor<2xindex>
  %r = tensor.reshape %a0(%shape) : ({X}, tensor<2xindex>) -> {X}
  %k = tensor.cast %r : {X} to tensor<?x1xf32>
  return %flat, %back, %k : tensor<?xf32>, tensor<?x1x?xf32>, tensor<?x1xf32>"""
    flat, back, column = run(body, [(f32, (N * M,)), (f32, (M, 1, N)), (f32, (N * M, 1))], [x])
    assert np.array_equal(flat, x.ravel())
    assert np.array_equal(back, x.reshape(x.shape[1], 1, x.shape[0])) and np.array_equal(column, x.reshape(-1, 1))


def test_transpose_broadcast_reduce(x):
    body = f"""
  %e = tensor.empty(%m, %n) : {X}
  %t = linalg.transpose ins(%a0 : {X}) outs(%e : {X}) permutation = [1, 0]
  %v = tensor.empty(%n) : tensor<?xf32>
  %vz = linalg.fill ins(%zero : f32) outs(%v : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce {{ arith.addf }} ins(%a0 : {X}) outs(%vz : tensor<?xf32>) dimensions = [1]
  %w = tensor.empty(%m) : tensor<?xf32>
  %wz = linalg.fill ins(%zero : f32) outs(%w : tensor<?xf32>) -> tensor<?xf32>
  %u = linalg.reduce {{ arith.addf }} ins(%a0 : {X}) outs(%wz : tensor<?xf32>) dimensions = [0]
  return %t, %s, %u : {X}, tensor<?xf32>, tensor<?xf32>"""
    turned, rows, columns = run(body, [(f32, (M, N)), (f32, (N,)), (f32, (M,))], [x])
    assert np.array_equal(turned, x.T)
    np.testing.assert_allclose(rows, x.sum(1), atol=1e-4)
    np.testing.assert_allclose(columns, x.sum(0), atol=1e-4)


def test_argmax_takes_the_first(x):
    if 0 in x.shape:
        pytest.skip("no largest element")
    x = np.round(x)
    body = f"""
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i64
  %v = tensor.empty(%n) : tensor<?xf32>
  %vz = linalg.fill ins(%low : f32) outs(%v : tensor<?xf32>) -> tensor<?xf32>
  %i = tensor.empty(%n) : tensor<?xi64>
  %iz = linalg.fill ins(%none : i64) outs(%i : tensor<?xi64>) -> tensor<?xi64>
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>,
      affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]}}
      ins(%a0 : {X}) outs(%vz, %iz : tensor<?xf32>, tensor<?xi64>) {{
  ^bb0(%e: f32, %best: f32, %at: i64):
    %k = linalg.index 1 : index
    %here = arith.index_cast %k : index to i64
    %g = arith.cmpf ogt, %e, %best : f32
    %b = arith.select %g, %e, %best : f32
    %w = arith.select %g, %here, %at : i64
    linalg.yield %b, %w : f32, i64
  }} -> (tensor<?xf32>, tensor<?xi64>)
  return %r#1 : tensor<?xi64>"""
    (result,) = run(body, [(i64, (N,))], [x])
    assert np.array_equal(result, x.argmax(1))


def test_gather_with_index_and_extract(x):
    if 0 in x.shape:
        pytest.skip("nothing to gather from")
    indices = np.array([0, x.shape[0] - 1, 0], np.int64)
    body = f"""
  %k = tensor.dim %a1, %c0 : tensor<?xi64>
  %e = tensor.empty(%k, %m) : {X}
  %g = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}} ins(%a1 : tensor<?xi64>) outs(%e : {X}) {{
  ^bb0(%row: i64, %o: f32):
    %r = arith.index_cast %row : i64 to index
    %ok = arith.cmpi ult, %r, %n : index
    cf.assert %ok, "an index is out of bounds"
    %c = linalg.index 1 : index
    %v = tensor.extract %a0[%r, %c] : {X}
    linalg.yield %v : f32
  }} -> {X}
  return %g : {X}"""
    K = programs.sympy.Symbol("s2")
    (result,) = run(body, [(f32, (K, M))], [x, indices], inputs=((f32, (N, M)), (i64, (K,))))
    assert np.array_equal(result, x[indices])


def test_loops_that_grow_a_tensor():
    body = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %i = tensor.extract %a1[] : tensor<i64>
  %count = arith.index_cast %i : i64 to index
  %grown = scf.for %k = %c0 to %count step %c1 iter_args(%t = %a0) -> tensor<?xf32> {
    %d = tensor.dim %t, %c0 : tensor<?xf32>
    %d1 = arith.addi %d, %c1 : index
    %e = tensor.empty(%d1) : tensor<?xf32>
    %f = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %s = tensor.insert_slice %t into %f[1] [%d] [1] : tensor<?xf32> into tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  }
  %w:2 = scf.while (%k = %c0, %t = %a0) : (index, tensor<?xf32>) -> (index, tensor<?xf32>) {
    %go = arith.cmpi slt, %k, %count : index
    scf.condition(%go) %k, %t : index, tensor<?xf32>
  } do {
  ^bb0(%k: index, %t: tensor<?xf32>):
    %k1 = arith.addi %k, %c1 : index
    %t2 = tensor.concat dim(0) %t, %a0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %k1, %t2 : index, tensor<?xf32>
  }
  %c3 = arith.constant 3 : index
  %large = arith.cmpi sgt, %count, %c3 : index
  %b = scf.if %large -> tensor<?xf32> { scf.yield %a0 : tensor<?xf32> } else { scf.yield %grown : tensor<?xf32> }
  return %grown, %grown, %w#1, %b : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>"""
    from onnx2torch_mlir import engine

    unknown = programs.sympy.Symbol("u0")
    program = programs.lowered(body, [(f32, (N,)), (i64, ())], [(f32, (unknown,))] * 4)
    compiled = engine.compile(program)
    for size in (0, 1, 4):
        for count in (0, 1, 5, 300):
            x = np.arange(size, dtype=np.float32)
            grown, again, repeated, chosen = compiled.run([x, np.array(count)])
            expected = np.concatenate([np.ones(count, np.float32), x])
            assert np.array_equal(grown, expected) and np.array_equal(again, expected)
            assert np.array_equal(repeated, np.tile(x, count + 1))
            assert np.array_equal(chosen, x if count > 3 else expected)
            assert not np.shares_memory(grown, again) and not np.shares_memory(grown, chosen)


def test_static_loop_carries_state():
    body = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<3x4xf32>
  %r:2 = scf.for %k = %c0 to %c3 step %c1 iter_args(%h = %a1, %all = %e) -> (tensor<4xf32>, tensor<3x4xf32>) {
    %x = tensor.extract_slice %a0[%k, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<4xf32>
    %h2 = linalg.add ins(%h, %x : tensor<4xf32>, tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
    %all2 = tensor.insert_slice %h2 into %all[%k, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<3x4xf32>
    scf.yield %h2, %all2 : tensor<4xf32>, tensor<3x4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<3x4xf32>"""
    x, h = np.random.rand(3, 4).astype("f"), np.random.rand(4).astype("f")
    kept = x.copy(), h.copy()
    last, every = programs.run(body, [(f32, (3, 4)), (f32, (4,))], [(f32, (4,)), (f32, (3, 4))], [x, h])
    np.testing.assert_allclose(every, h + np.cumsum(x, 0), rtol=1e-6)
    assert np.array_equal(last, every[-1])
    assert np.array_equal(x, kept[0]) and np.array_equal(h, kept[1])


def test_data_dependent_size():
    body = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a0, %c0 : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xi64>
  %r:2 = scf.for %k = %c0 to %n step %c1 iter_args(%t = %e, %count = %c0) -> (tensor<?xi64>, index) {
    %v = tensor.extract %a0[%k] : tensor<?xf32>
    %is = arith.cmpf une, %v, %zero : f32
    %next:2 = scf.if %is -> (tensor<?xi64>, index) {
      %i = arith.index_cast %k : index to i64
      %t2 = tensor.insert %i into %t[%count] : tensor<?xi64>
      %more = arith.addi %count, %c1 : index
      scf.yield %t2, %more : tensor<?xi64>, index
    } else {
      scf.yield %t, %count : tensor<?xi64>, index
    }
    scf.yield %next#0, %next#1 : tensor<?xi64>, index
  }
  %found = tensor.extract_slice %r#0[0] [%r#1] [1] : tensor<?xi64> to tensor<?xi64>
  return %found : tensor<?xi64>"""
    for x in (
        np.array([0, 3, 0, 1, 2], np.float32),
        np.zeros(4, np.float32),
        np.zeros(0, np.float32),
        np.ones(5000, np.float32),
    ):
        (result,) = programs.run(body, [(f32, (N,))], [(i64, (programs.sympy.Symbol("u0"),))], [x])
        assert np.array_equal(result, np.flatnonzero(x))


def test_scalars_and_constants():
    body = """
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = arith.constant dense<7> : tensor<i64>
  %e = arith.constant dense<> : tensor<0xf32>
  %x = tensor.extract %a0[] : tensor<f32>
  %y = arith.addf %x, %x : f32
  %t = tensor.from_elements %y : tensor<f32>
  return %c, %s, %e, %t, %c : tensor<2xf32>, tensor<i64>, tensor<0xf32>, tensor<f32>, tensor<2xf32>"""
    outputs = [(f32, (2,)), (i64, ()), (f32, (0,)), (f32, ()), (f32, (2,))]
    pair, seven, empty, doubled, again = programs.run(body, [(f32, ())], outputs, [np.float32(1.5)])
    assert pair.tolist() == again.tolist() == [1, 2] and seven.shape == () and seven == 7
    assert empty.shape == (0,) and doubled.shape == () and doubled == 3


def test_no_inputs_and_no_outputs():
    (result,) = programs.run(
        "%c = arith.constant dense<2.0> : tensor<f32>\nreturn %c : tensor<f32>", [], [(f32, ())], {}
    )
    assert result == 2
    assert programs.run("return", [(f32, (N,))], [], [np.zeros(3, np.float32)]) == []


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 1, 5), (2, 1, 1, 1), (1, 1, 1, 1), (2, 0, 4, 5)], ids=str)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)], ids=str)
def test_pointwise_of_known_shape(shape, order):
    """Sizes and strides of these are arguments of a kernel that other shapes share."""
    rng = np.random.default_rng(0)
    turned = tuple(shape[axis] for axis in order)
    x, y, z = (rng.random(s).astype("f") for s in (turned, (shape[1], 1), shape))
    names = "abcd"
    source = ", ".join(names[axis] for axis in order)
    t, w, r = (programs.tensor(f32, s) for s in (turned, (shape[1], 1), shape))
    body = f"""
  %e = tensor.empty() : {r}
  %v = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> ({source})>, affine_map<(a, b, c, d) -> (b, 0)>,
      affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%a0, %a1, %a2 : {t}, {w}, {r}) outs(%e : {r}) {{
  ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
  }} -> {r}
  return %v : {r}"""
    inputs = [(f32, turned), (f32, (shape[1], 1)), (f32, shape)]
    (result,) = programs.run(body, inputs, [(f32, shape)], [x, y, z])
    back = np.transpose(x, [order.index(axis) for axis in range(4)])
    np.testing.assert_allclose(result, back * y.reshape(1, -1, 1, 1) + z, rtol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2, 6])
def test_result_is_a_slice_of_a_dynamic_size(count):
    """Its row stride is known and its sizes are not: upstream casts such a buffer to a row-major one as if it were."""
    body = """
  %n = tensor.extract %a1[] : tensor<i64>
  %i = arith.index_cast %n : i64 to index
  %s = tensor.extract_slice %a0[0, 0] [2, %i] [1, 1] : tensor<2x6xf32> to tensor<2x?xf32>
  return %s : tensor<2x?xf32>"""
    array = np.arange(12, dtype=np.float32).reshape(2, 6)
    inputs = [(f32, (2, 6)), (i64, ())]
    (result,) = programs.run(body, inputs, [(f32, (2, sympy.Symbol("k")))], [array, np.array(count)])
    assert np.array_equal(result, array[:, :count])
