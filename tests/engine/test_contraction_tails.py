"""What follows a sum of products, done block by block: the same numbers as loops give, and only where nothing else looks."""

from unittest import mock

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch_mlir import ir

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import contraction_driver, contraction_match, contraction_tails, plain_tails, tail_code
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.compiler.walks import functions, nested
from onnx2torch_mlir.engine.options import Options
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine import programs
from tests.engine.programs import M, N, lowered

F, H = torch.float32, torch.float16
K = 24
X, WIDE, FLAT = (M, K), (M, N), "tensor<?x?xf32>"


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def product(rest, result):
    """%r is the product of %a0 [M, 24] and %a1 [24, N]; ``rest`` follows it and returns a ``result``."""
    return f"""
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %m = tensor.dim %a0, %c0 : tensor<?x{K}xf32>
      %n = tensor.dim %a1, %c1 : tensor<{K}x?xf32>
      %e = tensor.empty(%m, %n) : {FLAT}
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%e : {FLAT}) -> {FLAT}
      %r = linalg.matmul ins(%a0, %a1 : tensor<?x{K}xf32>, tensor<{K}x?xf32>) outs(%f : {FLAT}) -> {FLAT}
      {rest}
      return %t : {result}"""


def pointwise(operands, scalar, result=FLAT, empty="tensor.empty(%m, %n)", kinds='"parallel", "parallel"', out="(i, j)"):
    """%t: ``scalar`` of the elements %x0 … of ``operands`` (name, type, map); it gives %y."""
    maps = ", ".join(f"affine_map<(i, j) -> {m}>" for _, _, m in operands) + f", affine_map<(i, j) -> {out}>"
    elements = [type_.removesuffix(">").split("x")[-1].removeprefix("tensor<") for _, type_, _ in operands]
    arguments = ", ".join(f"%x{i}: {element}" for i, element in enumerate(elements))
    element = result.removesuffix(">").split("x")[-1]
    return f"""
      %o = {empty} : {result}
      %t = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        ins({", ".join(name for name, _, _ in operands)} : {", ".join(type_ for _, type_, _ in operands)})
        outs(%o : {result}) {{
        ^bb0({arguments}, %old: {element}):
          {scalar}
          linalg.yield %y : {element}
        }} -> {result}"""


SUM = ("%r", FLAT, "(i, j)")
TAILS = {
    "all": (("%a2", FLAT, "(i, j)"), WIDE, lambda p, x: p + x),
    "column": (("%a2", "tensor<?xf32>", "(j)"), (N,), lambda p, x: p + x),
    "row": (("%a2", "tensor<?xf32>", "(i)"), (M,), lambda p, x: p + x[:, None]),
    "none": (("%a2", "tensor<f32>", "()"), (), lambda p, x: p + x),
    "turned": (("%a2", FLAT, "(j, i)"), (N, M), lambda p, x: p + x.T),
}


def is_used(program):
    """Whether there is the function of a tail, or tiles do one."""
    plain, found = plain_tails.plain, []
    with mock.patch.object(plain_tails, "plain", lambda *given: found.append(plain(*given)) or found[-1]):
        code = build(program.bytecode)["object"]
    return b"o2m_tail_0" in code or any(one is not None for one in found)


@pytest.mark.parametrize("name", TAILS)
def test_operands(name):
    operand, shape, expected = TAILS[name]
    body = product(pointwise([SUM, operand], "%y = arith.addf %x0, %x1 : f32"), FLAT)
    program = lowered(body, [(F, X), (F, (K, N)), (F, shape)], [(F, WIDE)])
    code = engine.compile(program)
    for m, n in [(1, 1), (2, 70), (5, 65), (97, 130), (200, 64), (0, 3), (3, 0)]:
        sizes = {M: m, N: n}
        x, y, z = numbers(m, K), numbers(K, n), numbers(*(sizes[dim] for dim in shape))
        np.testing.assert_allclose(code.run([x, y, z])[0], expected(x @ y, z), rtol=1e-5, atol=1e-5)


def constant_product(rest, result, columns=70):
    """`product` of which the right side is a weight [24, columns], so that it is packed for any number of rows."""
    text = product(rest, result).replace(f"tensor<{K}x?xf32>", f"tensor<{K}x{columns}xf32>")
    text = text.replace(f"%n = tensor.dim %a1, %c1 : tensor<{K}x{columns}xf32>", f"%n = arith.constant {columns} : index")
    return text.replace(FLAT, f"tensor<?x{columns}xf32>").replace("(%m, %n)", "(%m)")


def with_weight(rest, others, outputs, result=FLAT):
    w = numbers(K, 70)
    text = constant_product(rest, result)
    # Weights are the last arguments.
    count = len(others)
    text = text.replace("%a1", "%weight")
    for i in range(count):
        text = text.replace(f"%a{i + 2}", f"%a{i + 1}")
    text = text.replace("%weight", f"%a{count + 1}")
    return lowered(text, [(F, X), *others], outputs, [(w, F, w.shape)]), w


@pytest.mark.parametrize("name", TAILS)
def test_the_buffer_between_is_left_out(name):
    operand, shape, expected = TAILS[name]
    shape = tuple(70 if dim == N else dim for dim in shape)
    operand = (operand[0], operand[1].replace("?", "?" if name in ("row", "all") else "70", 1), operand[2])
    if name == "turned":
        operand = (operand[0], "tensor<70x?xf32>", operand[2])
    program, w = with_weight(pointwise([SUM, operand], "%y = arith.addf %x0, %x1 : f32"), [(F, shape)], [(F, (M, 70))])
    assert is_used(program) == (name != "turned")
    code = engine.compile(program)
    for m in (1, 6, 97, 0, 193):
        x, z = numbers(m, K), numbers(*(m if dim == M else dim for dim in shape))
        np.testing.assert_allclose(code.run([x, z])[0], expected(x @ w, z), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scalar", ["%y = arith.addf %x0, %x0 : f32", "%y = math.tanh %x0 : f32"])
@pytest.mark.parametrize("columns", [48, 70, 128])
def test_a_row_of_a_tail_is_vectors(columns, scalar, monkeypatch):
    """Of what vectors compute; a loop is left of what they do not."""
    taken, write = [], tail_code._columns

    def written(*arguments):
        write(*arguments)
        block = ir.InsertionPoint.current.block
        own = [view.operation for view in block.operations]
        taken.append({operation.name for one in own for operation in (one, *nested(one))})

    monkeypatch.setattr(tail_code, "_columns", written)
    w = numbers(K, columns)
    text = constant_product(pointwise([SUM], scalar), FLAT, columns)
    program = lowered(text, [(F, X)], [(F, (M, columns))], [(w, F, w.shape)])
    (result,) = engine.compile(program).run([x := numbers(37, K)])
    np.testing.assert_allclose(result, np.tanh(x @ w) if "tanh" in scalar else 2 * (x @ w), rtol=1e-5, atol=1e-5)
    build(program.bytecode, Options(inputs=1, disabled=frozenset({"vector_math"})))
    assert taken
    for names in taken:
        assert ("linalg.generic" in names) == ("tanh" in scalar)
        assert bool(names & {"vector.store", "vector.maskedstore"}) == ("tanh" not in scalar)


def test_another_type_and_the_sums_twice():
    scalar = "%s = arith.mulf %x0, %x1 : f32\n%y = arith.truncf %s : f32 to f16"
    program, w = with_weight(pointwise([SUM, SUM], scalar, "tensor<?x70xf16>"), [], [(H, (M, 70))], "tensor<?x70xf16>")
    assert is_used(program)
    x = numbers(31, K)
    np.testing.assert_allclose(engine.compile(program).run([x])[0], ((x @ w) ** 2).astype(np.float16), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("target", ["%left", "%other"])
def test_nothing_is_written_that_the_sums_still_read(target):
    """A tile's tail may not take memory that the next tile's sums read."""
    square, same = "memref<70x70xf32>", "affine_map<(i, j) -> (i, j)>"
    text = f"""func.func @main() {{
      %z = arith.constant 0.0 : f32
      %w = memref.alloc() : {square}
      %left = memref.alloc() : {square}
      %other = memref.alloc() : {square}
      %sums = memref.alloc() : {square}
      linalg.generic {{indexing_maps = [{same}], iterator_types = ["parallel", "parallel"]}} outs(%sums : {square}) {{
        ^bb0(%old: f32):
          linalg.yield %z : f32
        }}
      linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%left, %w : {square}, {square}) outs(%sums : {square}) {{
        ^bb0(%x: f32, %y: f32, %old: f32):
          %p = arith.mulf %x, %y : f32
          %s = arith.addf %old, %p : f32
          linalg.yield %s : f32
        }}
      linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = ["parallel", "parallel"]}}
          ins(%sums : {square}) outs({target} : {square}) {{
        ^bb0(%x: f32, %old: f32):
          %y = arith.negf %x : f32
          linalg.yield %y : f32
        }}
      return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (main,) = functions(module)
        fill, product, _ = (operation for operation in nested(main) if operation.name == "linalg.generic")
        found = contraction_match.match(product)
        assert found is not None
        assert (contraction_tails.find(found, fill) is not None) == (target == "%other")


def test_sums_that_are_a_result_stay():
    rest = pointwise([SUM], "%y = arith.negf %x0 : f32")
    text, w = with_weight(rest, [], [(F, (M, 70))])
    body = text.bytecode.decode().replace("return %t :", "return %t, %r :").replace("-> (tensor<?x70xf32>)", "-> (T, T)")
    body = body.replace("return %t, %r : tensor<?x70xf32>", "return %t, %r : T, T").replace(
        "T, T", ", ".join(["tensor<?x70xf32>"] * 2)
    )
    outputs = [programs.TensorSpec(f"r{i}", F, (M, 70)) for i in range(2)]
    both = programs.Lowered(body.encode(), text.inputs, text.weights, tuple(outputs), (), text.dim_names)
    assert not is_used(both)
    x = numbers(9, K)
    negative, plain = engine.compile(both).run([x])
    np.testing.assert_allclose(plain, x @ w, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(negative, -plain)


def padded(batch, height, width, low, high):
    """Rows of a product with a weight [24, 70], 0 where negative: padded by ones, and the negative of it."""
    inner, columns = f"{batch}x{height}x{width}", 70
    outer = f"{batch}x{height + low[0] + high[0]}x{width + low[1] + high[1]}"
    image, result, wide = f"tensor<{inner}x{K}xf32>", f"tensor<{inner}x{columns}xf32>", f"tensor<{outer}x{columns}xf32>"
    same = "affine_map<(b, h, w, n) -> (b, h, w, n)>"
    every = '"parallel", "parallel", "parallel", "parallel"'
    return f"""
      %z = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %e = tensor.empty() : {result}
      %f = linalg.fill ins(%z : f32) outs(%e : {result}) -> {result}
      %r = linalg.generic {{indexing_maps = [affine_map<(b, h, w, n, k) -> (b, h, w, k)>,
          affine_map<(b, h, w, n, k) -> (k, n)>, affine_map<(b, h, w, n, k) -> (b, h, w, n)>],
          iterator_types = [{every}, "reduction"]}} ins(%a0, %a1 : {image}, tensor<{K}x{columns}xf32>) outs(%f : {result}) {{
        ^bb0(%x: f32, %y: f32, %old: f32):
          %p = arith.mulf %x, %y : f32
          %s = arith.addf %old, %p : f32
          linalg.yield %s : f32
        }} -> {result}
      %o = tensor.empty() : {result}
      %t = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{every}]}}
          ins(%r : {result}) outs(%o : {result}) {{
        ^bb0(%x: f32, %old: f32):
          %y = arith.maximumf %x, %z : f32
          linalg.yield %y : f32
        }} -> {result}
      %q = tensor.pad %t low[0, {low[0]}, {low[1]}, 0] high[0, {high[0]}, {high[1]}, 0] {{
        ^bb0(%i: index, %j: index, %l: index, %m: index):
          tensor.yield %one : f32
        }} : {result} to {wide}
      %n = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{every}]}}
          ins(%t : {result}) outs(%o : {result}) {{
        ^bb0(%x: f32, %old: f32):
          %y = arith.negf %x : f32
          linalg.yield %y : f32
        }} -> {result}
      return %q, %n : {wide}, {result}"""


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("low", "high"), [((1, 1), (1, 1)), ((0, 2), (3, 1)), ((2, 0), (0, 0))])
def test_into_the_middle_of_a_padded_result(batch, low, high):
    height, width = 9, 13
    shape, w = (batch, height, width, K), numbers(K, 70)
    sizes = (height + low[0] + high[0], width + low[1] + high[1])
    outputs = [(F, (batch, *sizes, 70)), (F, (batch, height, width, 70))]
    program = lowered(padded(batch, height, width, low, high), [(F, shape)], outputs, [(w, F, w.shape)])
    assert is_used(program)
    x = numbers(*shape)
    expected = np.maximum(x @ w, 0)
    around = np.pad(expected, ((0, 0), *zip(low, high, strict=True), (0, 0)), constant_values=1)
    for threads in (1, 2):
        found, negative = engine.compile(program, threads=threads).run([x])
        np.testing.assert_allclose(found, around, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(negative, -expected, rtol=1e-5, atol=1e-5)


SPLIT = {"row": "(i, 0, 0)", "column": "(0, j, l)", "all": "(i, j, l)"}


@pytest.mark.parametrize("kind", SPLIT)
@pytest.mark.parametrize("height", [5, 1])
def test_columns_of_several_axes(kind, height):
    """What follows by channel, pixel or both, where pixels have become lines of an image."""
    m, width = 20, 14
    sizes = {"row": (m, 1, 1), "column": (1, height, width), "all": (m, height, width)}[kind]
    image, other = f"tensor<{m}x{height}x{width}xf32>", f"tensor<{'x'.join(map(str, sizes))}xf32>"
    body = f"""
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{m}x{height * width}xf32>
      %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{height * width}xf32>) -> tensor<{m}x{height * width}xf32>
      %r = linalg.matmul ins(%a0, %a1 : tensor<{m}x{K}xf32>, tensor<{K}x{height * width}xf32>)
        outs(%f : tensor<{m}x{height * width}xf32>) -> tensor<{m}x{height * width}xf32>
      %w = tensor.expand_shape %r [[0], [1, 2]] output_shape [{m}, {height}, {width}]
        : tensor<{m}x{height * width}xf32> into {image}
      %o = tensor.empty() : {image}
      %t = linalg.generic {{indexing_maps = [affine_map<(i, j, l) -> (i, j, l)>, affine_map<(i, j, l) -> {SPLIT[kind]}>,
          affine_map<(i, j, l) -> (i, j, l)>], iterator_types = ["parallel", "parallel", "parallel"]}}
        ins(%w, %a2 : {image}, {other}) outs(%o : {image}) {{
        ^bb0(%x: f32, %y: f32, %old: f32):
          %s = arith.addf %x, %y : f32
          linalg.yield %s : f32
        }} -> {image}
      return %t : {image}"""
    shapes = [(m, K), (K, height * width), sizes]
    program = lowered(body, [(F, shape) for shape in shapes], [(F, (m, height, width))])
    assert is_used(program)
    a, b, c = (numbers(*shape) for shape in shapes)
    wanted = (a @ b).reshape(m, height, width) + c
    np.testing.assert_allclose(engine.compile(program).run([a, b, c])[0], wanted, rtol=2e-5, atol=2e-5)


def images(batch, channels, pixels, side):
    """A sum over channels for each pixel of ``batch`` images ('?' for any number), plus one number per channel, of 4 dims."""
    count = "" if batch != "?" else "%n"
    flat, square = (f"tensor<{batch}x{channels}x{shape}xf32>" for shape in (pixels, f"{side}x{pixels // side}"))
    x = f"tensor<{batch}x{K}x{pixels}xf32>"
    maps = [f"affine_map<(b, i, j, k) -> ({m})>" for m in ("i, k", "b, k, j", "b, i, j")]
    also = [f"affine_map<(b, i, y, x) -> ({m})>" for m in ("b, i, y, x", "i, 0, 0", "b, i, y, x")]
    kinds = '"parallel", "parallel", "parallel"'
    size = f"%c0 = arith.constant 0 : index\n %n = tensor.dim %a0, %c0 : {x}" if batch == "?" else ""
    shape = ", ".join(["%n" if batch == "?" else str(batch), *map(str, (channels, side, pixels // side))])
    text = f"""
      {size}
      %z = arith.constant 0.0 : f32
      %e = tensor.empty({count}) : {flat}
      %f = linalg.fill ins(%z : f32) outs(%e : {flat}) -> {flat}
      %r = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}, "reduction"]}}
        ins(%a2, %a0 : tensor<{channels}x{K}xf32>, {x}) outs(%f : {flat}) {{
        ^bb0(%p: f32, %q: f32, %s: f32):
          %m = arith.mulf %p, %q : f32
          %t = arith.addf %s, %m : f32
          linalg.yield %t : f32
        }} -> {flat}
      %w = tensor.expand_shape %r [[0], [1], [2, 3]] output_shape [{shape}] : {flat} into {square}
      %b = tensor.expand_shape %a1 [[0, 1, 2]] output_shape [{channels}, 1, 1]
        : tensor<{channels}xf32> into tensor<{channels}x1x1xf32>
      %o = tensor.empty({count}) : {square}
      %u = linalg.generic {{indexing_maps = [{", ".join(also)}], iterator_types = [{kinds}, "parallel"]}}
        ins(%w, %b : {square}, tensor<{channels}x1x1xf32>) outs(%o : {square}) {{
        ^bb0(%p: f32, %q: f32, %s: f32):
          %t = arith.addf %p, %q : f32
          linalg.yield %t : f32
        }} -> {square}
      return %u : {square}"""
    dim = N if batch == "?" else batch
    w = numbers(channels, K)
    result = (dim, channels, side, pixels // side)
    return lowered(text, [(F, (dim, K, pixels)), (F, (channels,))], [(F, result)], [(w, F, w.shape)]), w


@pytest.mark.parametrize("channels", [1, 5, 64])
@pytest.mark.parametrize("batch", [1, 3, "?"])
def test_one_number_per_channel_of_every_image(batch, channels):
    program, w = images(batch, channels, 91, 7)
    # A single row of each of any number of images is no sum of products of rows.
    assert is_used(program) == (batch != "?" or channels > 1)
    code = engine.compile(program)
    for count in [batch] if batch != "?" else [1, 2, 7]:
        x, z = numbers(count, K, 91), numbers(channels)
        expected = np.einsum("ik,bkj->bij", w, x) + z[:, None]
        np.testing.assert_allclose(code.run([x, z])[0].reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 1, 1), (3, 1, 1, 1), (3, 1, 5, 1), (1, 4, 5, 1)])
def test_one_number_for_some_of_the_rows(shape):
    """Of products of each head of each item of a batch: they move along some loops over rows, in any places."""
    rng = np.random.default_rng(0)
    sizes = {"x": ["n", 4, 5, 16], "w": ["n", 4, 16, 40], "b": ["n" if len(shape) == 4 and shape[0] == 3 else 1, *shape[-3:]]}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()}
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 5, 40])
    graph = helper.make_graph(nodes, "g", [*values.values()], [end])
    program = convert(read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)))
    assert is_used(program.lowered)
    given = {name: rng.standard_normal([3 if n == "n" else n for n in size]).astype(np.float32) for name, size in sizes.items()}
    expected = given["x"] @ given["w"] + given["b"]
    np.testing.assert_allclose(program.compile().run(given)[0], expected, rtol=1e-5, atol=1e-5)


def test_a_column_of_a_wider_operand_is_no_number_per_row():
    """Of an array the first of several numbers side by side: it lies at another step."""
    operand = ("%a2", "tensor<?x3xf32>", "(i, 0)")
    program = lowered(
        product(pointwise([SUM, operand], "%y = arith.addf %x0, %x1 : f32"), FLAT),
        [(F, X), (F, (K, N)), (F, (M, 3))],
        [(F, WIDE)],
    )
    x, y, z = numbers(37, K), numbers(K, 50), numbers(37, 3)
    np.testing.assert_allclose(engine.compile(program).run([x, y, z])[0], x @ y + z[:, :1], rtol=1e-5, atol=1e-5)


def test_tails_of_a_long_loop_take_no_more_of_the_stack():
    """What a call hands on to its tail lies on the stack: so many turns would overflow it."""
    rng, turns = np.random.default_rng(0), 1_500_000
    weight, start = (rng.standard_normal(shape).astype(np.float32) for shape in ((K, K), (8, K)))
    bias = rng.standard_normal(K).astype(np.float32)
    inner = [
        helper.make_node("Clip", ["x", "low", "high"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
        helper.make_node("Identity", ["goes"], ["on"]),
    ]
    value = helper.make_tensor_value_info
    floats, flag = TensorProto.FLOAT, TensorProto.BOOL
    body = helper.make_graph(
        inner,
        "body",
        [value("i", TensorProto.INT64, []), value("goes", flag, []), value("x", floats, [8, K])],
        [value("on", flag, []), value("y", floats, [8, K])],
    )
    constants = {"n": np.array(turns), "yes": np.array(True), "w": weight / 8, "b": bias}
    constants |= {"low": np.float32(-1), "high": np.float32(1)}
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "yes", "x0"], ["y0"], body=body)],
        "loop",
        [value("x0", floats, [8, K])],
        [value("y0", floats, [8, K])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    program = convert(read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)))
    assert is_used(program.lowered)
    expected = start
    for _ in range(1000):
        expected = np.clip(expected, -1, 1) @ (weight / 8) + bias
    np.testing.assert_allclose(program.compile(threads=1).run([start])[0], expected, rtol=1e-4, atol=1e-4)


def test_one_driver_does_sums_with_and_without_a_tail(monkeypatch):
    made, kinds = contraction_driver.functions_for, []
    monkeypatch.setattr(contraction_driver, "functions_for", lambda *a, **k: kinds.append(a[1]) or made(*a, **k))
    x, w = numbers(131, K), numbers(K, 70)
    nodes = [helper.make_node("MatMul", ["x", weight], [y]) for weight, y in ("wy", "vz")]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Relu", ["z"], ["t"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yt"],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(-w, "v")],
    )
    program = convert(read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)))
    assert is_used(program.lowered) and len(kinds.pop()) == 1
    for threads in (1, 2):
        y, t = program.compile(threads=threads).run([x])
        np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(t, np.maximum(-x @ w, 0), rtol=1e-5, atol=1e-5)
