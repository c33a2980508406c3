"""Chains of pointwise nests: the numbers stay, the nests become fewer."""

import numpy as np
import pytest
import torch
from onnx import parser

import onnx2torch_mlir as o2m
from tests.engine import programs
from tests.engine.programs import M, N

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.fusion import fuse_pointwise, read_in_place

f32 = torch.float32
X = "tensor<?x?xf32>"
SIZES = f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a0, %c0 : {X}
  %m = tensor.dim %a0, %c1 : {X}
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n, %m) : {X}
  %et = tensor.empty(%m, %n) : {X}
"""
SAME, TURNED, ROW = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>", "affine_map<(i, j) -> (i)>"


def nest(name, scalar, inputs, out="%e", out_map=SAME, kind="parallel"):
    values = ", ".join(value for value, _, _ in inputs)
    types = ", ".join(type_ for _, type_, _ in inputs)
    maps = ", ".join([*(map_ for _, _, map_ in inputs), out_map])
    arguments = ", ".join(f"%x{i}: f32" for i in range(len(inputs)))
    result = X if out_map != ROW else "tensor<?xf32>"
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "{kind}"]}}
      ins({values} : {types}) outs({out} : {result}) {{
  ^bb0({arguments}, %out: f32):
    {scalar}
    linalg.yield %r : f32
  }} -> {result}"""


def nests(body, outputs=((f32, (N, M)),), inputs=((f32, (N, M)),)):
    """How many nests are left after fusion."""
    program = programs.lowered(body, list(inputs), outputs)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        read_in_place(module)
        fuse_pointwise(module)
        assert module.operation.verify()
        return str(module).count("linalg.generic")


def result(body, x, outputs=((f32, (N, M)),)):
    return programs.run(body, [(f32, (N, M))], outputs, [x])


DOUBLE = "%r = arith.addf %x0, %x0 : f32"
SQUARE_PLUS = "%s = arith.mulf %x0, %x0 : f32\n%r = arith.addf %s, %x1 : f32"


@pytest.fixture(params=[(3, 5), (1, 4), (0, 2)], ids=str)
def x(request):
    return np.random.default_rng(0).standard_normal(request.param).astype("f")


def test_chain_with_a_value_used_twice(x):
    body = SIZES + nest("a", DOUBLE, [("%a0", X, SAME)])
    body += nest("b", "%r = arith.negf %x0 : f32", [("%a", X, SAME)])
    body += nest("c", "%r = arith.mulf %x0, %x1 : f32", [("%b", X, SAME), ("%b", X, SAME)])
    body += f"\nreturn %c : {X}"
    assert nests(body) == 1
    assert np.array_equal(result(body, x)[0], (2 * x) ** 2)


def test_diamond(x):
    body = SIZES + nest("a", DOUBLE, [("%a0", X, SAME)]) + nest("b", "%r = arith.negf %x0 : f32", [("%a", X, SAME)])
    body += nest("c", "%r = arith.mulf %x0, %x1 : f32", [("%a", X, SAME), ("%b", X, SAME)]) + f"\nreturn %c : {X}"
    assert nests(body) == 1
    assert np.array_equal(result(body, x)[0], -((2 * x) ** 2))


def test_through_transposes_on_either_side(x):
    body = SIZES + nest("a", DOUBLE, [("%a0", X, TURNED)], out="%et", out_map=SAME)
    body += nest("b", SQUARE_PLUS, [("%a", X, TURNED), ("%a0", X, SAME)]) + f"\nreturn %b : {X}"
    assert nests(body) == 1
    assert np.allclose(result(body, x)[0], (2 * x) ** 2 + x)
    body = SIZES + nest("a", DOUBLE, [("%a0", X, SAME)], out="%et", out_map=TURNED)
    body += nest("b", "%r = arith.negf %x0 : f32", [("%a", X, TURNED)]) + f"\nreturn %b : {X}"
    assert nests(body) == 1
    assert np.array_equal(result(body, x)[0], -2 * x)


def test_two_reads_in_different_orders_stay_apart():
    x = np.random.rand(4, 4).astype("f")
    body = SIZES + nest("a", DOUBLE, [("%a0", X, SAME)])
    body += nest("b", "%r = arith.subf %x0, %x1 : f32", [("%a", X, SAME), ("%a", X, TURNED)]) + f"\nreturn %b : {X}"
    assert nests(body) == 2
    assert np.array_equal(result(body, x)[0], 2 * x - 2 * x.T)


def test_other_users_broadcasts_and_reductions_stay_apart(x):
    body = SIZES + nest("a", DOUBLE, [("%a0", X, SAME)]) + nest("b", "%r = arith.negf %x0 : f32", [("%a", X, SAME)])
    body += f"\nreturn %a, %b : {X}, {X}"
    two = ((f32, (N, M)),) * 2
    assert nests(body, two) == 2
    first, second = result(body, x, two)
    assert np.array_equal(first, 2 * x) and np.array_equal(second, -2 * x)
    fill = "\n%v = tensor.empty(%n) : tensor<?xf32>\n"
    fill += "%f = linalg.fill ins(%zero : f32) outs(%v : tensor<?xf32>) -> tensor<?xf32>"
    body = SIZES + fill + nest("a", DOUBLE, [("%a0", X, SAME)])
    body += nest("s", "%r = arith.addf %x0, %out : f32", [("%a", X, SAME)], out="%f", out_map=ROW, kind="reduction")
    body += nest("b", "%r = arith.addf %x0, %x1 : f32", [("%a0", X, SAME), ("%s", "tensor<?xf32>", ROW)])
    body += f"\nreturn %b : {X}"
    assert nests(body) == 3
    np.testing.assert_allclose(result(body, x)[0], x + 2 * x.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


PLACE = "%k = linalg.index 0 : index\n%q = arith.index_cast %k : index to i64\n%p = arith.sitofp %q : i64 to f32\n"


def test_producer_that_knows_its_place(x):
    body = SIZES + nest("a", PLACE + "%r = arith.addf %x0, %p : f32", [("%a0", X, SAME)])
    body += nest("b", PLACE + "%r = arith.mulf %x0, %p : f32", [("%a", X, SAME)]) + f"\nreturn %b : {X}"
    assert nests(body) == 1
    rows = np.arange(x.shape[0], dtype="f")[:, None]
    np.testing.assert_allclose(result(body, x)[0], (x + rows) * rows)


def test_producer_that_knows_its_place_where_it_is_read_in_another_order(x):
    body = SIZES + nest("a", PLACE + "%r = arith.addf %x0, %p : f32", [("%a0", X, SAME)])
    body += nest("b", PLACE + "%r = arith.mulf %x0, %p : f32", [("%a", X, TURNED)], out="%et") + f"\nreturn %b : {X}"
    assert nests(body, [(f32, (M, N))]) == 1
    rows, columns = (np.arange(size, dtype="f") for size in x.shape)
    np.testing.assert_allclose(result(body, x, [(f32, (M, N))])[0], (x.T + rows) * columns[:, None])


def test_sums_of_what_knows_its_place_stay_apart(x):
    body = SIZES + nest("a", PLACE + "%r = arith.addf %x0, %p : f32", [("%a0", X, SAME)])
    body += "\n%er = tensor.empty(%n) : tensor<?xf32>"
    body += "\n%f = linalg.fill ins(%zero : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>"
    body += nest("b", "%r = arith.addf %x0, %out : f32", [("%a", X, SAME)], "%f", ROW, "reduction")
    body += "\nreturn %b : tensor<?xf32>"
    assert nests(body, [(f32, (N,))]) == 2
    rows = np.arange(x.shape[0], dtype="f")[:, None]
    np.testing.assert_allclose(result(body, x, [(f32, (N,))])[0], (x + rows).sum(1), rtol=1e-5, atol=1e-5)


PRODUCT = """
  %p = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a0, {right} : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) {{
  ^bb0(%x0: f32, %x1: f32, %out: f32):
    %q = arith.mulf %x0, %x1 : f32
    %r = arith.addf %out, %q : f32
    linalg.yield %r : f32
  }} -> tensor<?x?xf32>"""


def moved(name, source, type_, map_, out="%et"):
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{map_}, {SAME}], iterator_types = ["parallel", "parallel"]}}
      ins({source} : {type_}) outs({out} : {X}) {{
  ^bb0(%x0: f32, %out: f32):
    linalg.yield %x0 : f32
  }} -> {X}"""


def squares(size):
    return f"""
  %es = tensor.empty({size}, {size}) : {X}
  %f = linalg.fill ins(%zero : f32) outs(%es : {X}) -> {X}"""


def test_a_product_reads_what_was_transposed_where_it_was(x):
    body = SIZES + squares("%n") + moved("t", "%a0", X, TURNED) + PRODUCT.format(right="%t")
    square = ((f32, (N, N)),)
    assert nests(body + f"\nreturn %p : {X}", square) == 1
    np.testing.assert_allclose(result(body + f"\nreturn %p : {X}", x, square)[0], x @ x.T, rtol=1e-5, atol=1e-6)
    both = (*square, (f32, (M, N)))
    assert nests(body + f"\nreturn %p, %t : {X}, {X}", both) == 2
    product, turned = result(body + f"\nreturn %p, %t : {X}, {X}", x, both)
    np.testing.assert_allclose(product, x @ x.T, rtol=1e-5, atol=1e-6)
    assert np.array_equal(turned, x.T)


def test_a_product_reads_what_was_transposed_before_a_dim_of_size_1_was_left_out(x):
    """As the keys of a single batch."""
    one = "tensor<1x?x?xf32>"
    body = f"""{SIZES}
  %batched = tensor.expand_shape %a0 [[0, 1], [2]] output_shape [1, %n, %m] : {X} into {one}
  %e1 = tensor.empty(%m, %n) : {one}
  %t = linalg.generic {{indexing_maps = [affine_map<(b, i, j) -> (b, j, i)>, affine_map<(b, i, j) -> (b, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%batched : {one}) outs(%e1 : {one}) {{
  ^bb0(%u: f32, %o: f32):
    linalg.yield %u : f32
  }} -> {one}
  %c = tensor.collapse_shape %t [[0, 1], [2]] : {one} into {X}"""
    body += squares("%n") + PRODUCT.format(right="%c") + f"\nreturn %p : {X}"
    outputs = ((f32, (N, N)),)
    assert nests(body, outputs) == 1
    np.testing.assert_allclose(result(body, x, outputs)[0], x @ x.T, rtol=1e-5, atol=1e-6)


def test_a_product_keeps_a_dense_copy_of_what_it_sums_along_rows(x):
    """The left side of a product of two that were transposed: register tiles ask for it."""
    turned = moved("t", "%a0", X, TURNED) + moved("u", "%a1", X, TURNED, "%e")
    body = SIZES + squares("%m") + turned + PRODUCT.replace("%a0", "%t").format(right="%u") + f"\nreturn %p : {X}"
    inputs, outputs = [(f32, (N, M)), (f32, (M, N))], ((f32, (M, M)),)
    assert nests(body, outputs, inputs) == 2
    other = np.random.default_rng(2).standard_normal(x.shape[::-1]).astype("f")
    (product,) = programs.run(body, inputs, outputs, [x, other])
    np.testing.assert_allclose(product, x.T @ other.T, rtol=1e-5, atol=1e-6)


def test_a_product_reads_what_was_expanded_where_it_was(x):
    row = np.random.default_rng(1).standard_normal(x.shape[1]).astype("f")
    inputs = [(f32, (N, M)), (f32, (M,))]
    body = SIZES + squares("%n") + moved("t", "%a1", "tensor<?xf32>", ROW) + PRODUCT.format(right="%t")
    body += f"\nreturn %p : {X}"
    square = ((f32, (N, N)),)
    assert nests(body, square, inputs) == 1
    (product,) = programs.run(body, inputs, square, [x, row])
    np.testing.assert_allclose(product, np.repeat(x @ row[:, None], len(x), axis=1), rtol=1e-5, atol=1e-6)


def test_a_filled_input_is_its_number(x):
    body = (
        SIZES
        + f"""
  %half = arith.constant 0.5 : f32
  %s = tensor.empty() : tensor<f32>
  %h = linalg.fill ins(%half : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %w = linalg.fill ins(%half : f32) outs(%e : {X}) -> {X}
"""
    )
    scalar = "%p = arith.mulf %x0, %x1 : f32\n%r = arith.addf %p, %x2 : f32"
    body += nest("a", scalar, [("%a0", X, SAME), ("%h", "tensor<f32>", "affine_map<(i, j) -> ()>"), ("%w", X, TURNED)])
    body = body.replace(TURNED, SAME) + f"\nreturn %a : {X}"
    program = programs.lowered(body, [(f32, (N, M))], [(f32, (N, M))])
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        fuse_pointwise(module)
        assert module.operation.verify()
        (line,) = (line for line in str(module).splitlines() if "linalg.generic" in line)
        assert line.count("tensor<?x?xf32>") == 2
    assert np.array_equal(result(body, x)[0], x * 0.5 + 0.5)


def test_loops_follow_what_is_written(x):
    body = SIZES + nest("a", DOUBLE, [("%a0", X, TURNED)], out="%e", out_map=SAME).replace(
        f"[{TURNED}, {SAME}]", f"[{SAME}, {TURNED}]"
    ).replace("outs(%e", "outs(%et")
    body += f"\nreturn %a : {X}"
    program = programs.lowered(body, [(f32, (N, M))], [(f32, (M, N))])
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        fuse_pointwise(module)
        operations = [op.operation for op in module.body.operations[0].regions[0].blocks[0].operations]
        (generic,) = (operation for operation in operations if operation.name == "linalg.generic")
        maps = [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(generic.attributes["indexing_maps"])]
        assert maps[1] == ir.AffineMap.get_identity(2)
        assert [e.position for e in maps[0].results] == [1, 0]
    assert np.array_equal(result(body, x, [(f32, (M, N))])[0], 2 * x.T)


COLUMN = "affine_map<(i, j) -> (j)>"
CENTERED = (
    SIZES
    + f"""
  %em = tensor.empty(%m) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%em : tensor<?xf32>) -> tensor<?xf32>
  %mean = linalg.generic {{indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>],
      iterator_types = ["parallel", "reduction"]}} ins(%a0 : {X}) outs(%z : tensor<?xf32>) {{
  ^bb0(%x: f32, %out: f32):
    %r = arith.addf %x, %out : f32
    linalg.yield %r : f32
  }} -> tensor<?xf32>
"""
    + nest("c", "%r = arith.subf %x0, %x1 : f32", [("%a0", X, SAME), ("%mean", "tensor<?xf32>", COLUMN)])
)


def test_what_shifts_columns_is_taken_into_each_user(x):
    body = (
        CENTERED
        + nest("s", "%r = arith.mulf %x0, %x0 : f32", [("%c", X, SAME)])
        + f"""
  %sum = linalg.generic {{indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>],
      iterator_types = ["parallel", "reduction"]}} ins(%s : {X}) outs(%z : tensor<?xf32>) {{
  ^bb0(%x: f32, %out: f32):
    %r = arith.addf %x, %out : f32
    linalg.yield %r : f32
  }} -> tensor<?xf32>
"""
    )
    body += nest("d", "%r = arith.mulf %x0, %x1 : f32", [("%c", X, SAME), ("%sum", "tensor<?xf32>", COLUMN)])
    body += f"\nreturn %d : {X}"
    assert nests(body) == 3
    centered = x - x.sum(0)
    np.testing.assert_allclose(result(body, x)[0], centered * (centered**2).sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("second", [SAME, "affine_map<(i, j) -> (0, j)>"])
def test_an_expansion_moves_before_the_nest(x, second):
    wide = "tensor<?x1x?xf32>"
    body = (
        SIZES
        + nest("a", "%r = arith.mulf %x0, %x1 : f32", [("%a0", X, SAME), ("%a0", X, second)])
        + f"""
  %w = tensor.expand_shape %a [[0], [1, 2]] output_shape [%n, 1, %m] : {X} into {wide}
  %e3 = tensor.empty(%n, %m) : {wide}
  %b = linalg.generic {{indexing_maps = [affine_map<(i, k, j) -> (i, k, j)>, affine_map<(i, k, j) -> (i, k, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%w : {wide}) outs(%e3 : {wide}) {{
  ^bb0(%y: f32, %out: f32):
    %r = arith.negf %y : f32
    linalg.yield %r : f32
  }} -> {wide}
  return %b : {wide}"""
    )
    outputs = [(f32, (N, 1, M))]
    assert nests(body, outputs) == 1
    assert np.array_equal(result(body, x, outputs)[0], -(x * (x if second == SAME else x[:1]))[:, None])


@pytest.mark.parametrize("axes", ["0", "0, 1", "0, 2", "0, 3", "0, 1, 2"])
@pytest.mark.parametrize("count", ["2", "n"])
def test_what_is_expanded_is_added_up_as_often(axes, count):
    """The loop along which nothing moves but the expansion has its length from there, so that this stays."""
    text = (
        '<ir_version: 9, opset_import: ["": 21]> g (float[1, 6, 7, 16] x, int64[4] s) => (float y) {\n'
        f" a = Constant<value_ints = [{axes}]>()\n n = Neg(x)\n b = Expand(n, s)\n"
        " r = ReduceL2<keepdims = 1>(b, a)\n y = Abs(r) }"
    )
    if count == "2":
        text = text.replace(", int64[4] s)", ")").replace(" b = ", " s = Constant<value_ints = [2, 6, 7, 16]>()\n b = ")
    model = parser.parse_model(text)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 6, 7, 16)).astype("f")}
    if count == "n":
        feeds["s"] = np.array([3, 6, 7, 16])
    expanded = np.broadcast_to(feeds["x"], (2 if count == "2" else 3, 6, 7, 16))
    expected = np.sqrt((expanded**2).sum(axis=tuple(int(axis) for axis in axes.split(", ")), keepdims=True))
    found = o2m.convert(model).compile(threads=1).run(feeds)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
