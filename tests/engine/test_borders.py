"""Padding by slabs: any widths, static or not, sizes 0 and 1."""

import numpy as np
import onnx
import onnx.parser
import pytest
import sympy
import torch

from onnx2torch_mlir.engine.compiler import arena, kernels
from onnx2torch_mlir.engine.compiler.walks import functions, is_memref, nested, symbol
from onnx2torch_mlir.hosting.sessions import OnnxruntimeSession
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine import programs
from tests.engine.made_here import engine_of
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


def test_widths_that_depend_on_sizes_are_known_before_what_is_padded(monkeypatch):
    """A pool that rounds its number of windows up: a row or a column is added, or none."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      g (float[n, 16, h, w_] x, float[16, 16, 3, 3] w) => (float[n, 16, p, q] y) {
        a = Conv(x, w)  b = Relu(a)
        y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(b)
      }""")
    random = np.random.default_rng(0)
    model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal((16, 16, 3, 3)).astype("f"), "w"))
    del model.graph.input[1:]
    engine, copies = built(model, monkeypatch)
    assert copies == 0
    for shape in ((1, 16, 13, 14), (2, 16, 14, 13), (1, 16, 5, 5), (3, 16, 8, 8)):
        agrees(engine, model, random.standard_normal(shape).astype("f"))


CHAIN = """<ir_version: 8, opset_import: ["": 17]>
g (float[SIZES] x, float[24, 24, 3, 3] w, float[24, 24, 1, 1] v) => (float[SIZES] y) {
  a = Conv<pads = [1, 1, 1, 1]>(x, w)  b = Relu(a)
  c = Conv<pads = [1, 1, 1, 1]>(b, w)  d = Relu(c)
  e = Conv(d, v)  f = Relu(e)
  g_ = Conv<pads = [1, 1, 1, 1]>(f, w)  h = Add(g_, d)  i = Relu(h)
  y = Conv<pads = [1, 1, 1, 1]>(i, w)
}"""


@pytest.mark.parametrize(
    ("sizes", "shapes"),
    [
        ("1, 24, 12, 10", [(1, 24, 12, 10)]),
        ("3, 24, 12, 10", [(3, 24, 12, 10)]),
        ("n, 24, 12, 10", [(1, 24, 12, 10), (4, 24, 12, 10), (0, 24, 12, 10)]),
        ("n, 24, h, w_", [(1, 24, 12, 10), (2, 24, 7, 33), (3, 24, 1, 1), (5, 24, 1, 9)]),
    ],
)
def test_padded_images_of_one_size_in_a_row(sizes, shapes, monkeypatch):
    """Each is written by the nest that makes it, while the one before is still read."""
    model = onnx.parser.parse_model(CHAIN.replace("SIZES", sizes))
    random = np.random.default_rng(0)
    weights = {"w": (24, 24, 3, 3), "v": (24, 24, 1, 1)}
    tensors = [
        onnx.numpy_helper.from_array((0.2 * random.standard_normal(shape)).astype("f"), name) for name, shape in weights.items()
    ]
    model.graph.initializer.extend(tensors)
    del model.graph.input[1:]
    engine, copies = built(model, monkeypatch)
    # What is padded first is the input, which nothing makes.
    assert copies == 1
    for shape in shapes:
        agrees(engine, model, random.standard_normal(shape).astype("f"))


def test_padded_images_are_there_when_they_are_made(monkeypatch):
    """Layers of one size, whose sums begin with zeros that are the same: not all their images are there at once."""
    layers = 8
    nodes = [f"r{i + 1} = Conv<pads = [1, 1, 1, 1]>(x{i}, w)  x{i + 1} = Relu(r{i + 1})" for i in range(layers)]
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[1, 24, 12, 10] x0, float[24, 24, 3, 3] w)'
    model = onnx.parser.parse_model(f"{head} => (float[1, 24, 12, 10] x{layers}) {{ {' '.join(nodes)} }}")
    random = np.random.default_rng(0)
    weight = (0.1 * random.standard_normal((24, 24, 3, 3))).astype("f")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.input[1:]
    lives = []
    placed = arena.placed
    see = lambda sizes, begins, ends: (lives.append((sizes, begins, ends)), placed(sizes, begins, ends))[1]  # noqa: E731
    monkeypatch.setattr(arena, "placed", see)
    engine = engine_of(convert(read(model)).lowered)
    ((sizes, begins, ends),) = lives
    image = 4 * 24 * 14 * 12
    images = [live for size, *live in zip(sizes, begins, ends, strict=True) if size >= image]
    assert len(images) == layers
    at_once = max(sum(begin <= now <= end for begin, end in images) for now in begins)
    assert at_once <= 2
    agrees(engine, model, random.standard_normal((1, 24, 12, 10)).astype("f"), "x0")


def built(model, monkeypatch):
    """The engine of a model, and how many times an image is copied as it is."""
    lowered = convert(read(model)).lowered
    copies = []
    outline = kernels.outline
    monkeypatch.setattr(kernels, "outline", lambda module, loops: (copies.append(copied(module)), outline(module, loops))[1])
    return engine_of(lowered), copies[0]


def agrees(engine, model, x, name="x"):
    """The engine's result for ``x`` is onnxruntime's."""
    (found,) = engine.run({name: x})
    (expected,) = OnnxruntimeSession(model).run({name: x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def copied(module):
    """How many times an image is copied as it is."""
    main = next(function for function in functions(module) if symbol(function) == "main")
    nests = [operation for operation in nested(main) if operation.name == "linalg.generic"]
    plain = [nest for nest in nests if len(list(nest.regions[0].blocks[0].operations)) == 1 and len(nest.operands) == 2]
    images = [nest for nest in plain if is_memref(nest.operands[0].type)]
    return sum(operation.name == "memref.copy" for operation in nested(main)) + len(images)
