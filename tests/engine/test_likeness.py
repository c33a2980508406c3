"""What is alike is written once: layers of a network; loops that are given other values are alike, others are not."""

import numpy as np
import onnxruntime
import pytest
from onnx import parser

pytest.importorskip("torch_mlir")

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import kernels, likeness, row_code, tail_calls, task
from onnx2torch_mlir.engine.options import Options
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

LOOP = """
  scf.for %i = %c0 to %{0} step %c1 {{
    %v = memref.load %{1}[%i] : memref<?xf32>
    %w = arith.mulf %v, %{2} : f32
    memref.store %w, %{3}[%i] : memref<?xf32>
  }}"""


def likenesses(*places):
    """Of loops that use these values: how many turns, what they read, a factor, what they write."""
    text = "\n".join(LOOP.format(*names) for names in places)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
            func.func @main(%n: index, %m: index, %a: memref<?xf32>, %b: memref<?xf32>, %f: f32, %g: f32) {{
              %c0 = arith.constant 0 : index
              %c1 = arith.constant 1 : index
              {text}
              return
            }}""")
        block = module.body.operations[0].regions[0].blocks[0]
        found = [likeness.likeness(view.operation) for view in block.operations if view.operation.name == "scf.for"]
        return [one.key for one in found], [[str(value.type) for value in one.captured] for one in found]


def test_loops_on_other_values_are_alike():
    (one, other), captured = likenesses(("n", "a", "f", "b"), ("m", "b", "g", "a"))
    assert one == other
    assert captured == [["memref<?xf32>", "f32", "memref<?xf32>"]] * 2


def test_where_the_same_value_is_used_counts():
    (apart, here), _ = likenesses(("n", "a", "f", "b"), ("n", "a", "f", "a"))
    assert apart != here


LAYER = """
  z{0} = MatMul(v{0}, w)
  h{0} = Tanh(z{0})
  m{0} = ReduceMean<axes = [-1]>(h{0})
  c{0} = Sub(h{0}, m{0})
  s{0} = Mul(c{0}, c{0})
  t{0} = ReduceMean<axes = [-1]>(s{0})
  e{0} = Constant<value_float = {2}>()
  p{0} = Add(t{0}, e{0})
  r{0} = Sqrt(p{0})
  v{1} = Div(c{0}, r{0})
"""


def network(numbers):
    """A layer for each of ``numbers``, which is added to a variance."""
    layers = "".join(LAYER.format(i, i + 1, number) for i, number in enumerate(numbers))
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 13]> g (float[8, 64] v0, float[64, 64] w) => (float[8, 64] v{len(numbers)})'
        f" {{ {layers} }}"
    )


def written(model, monkeypatch):
    """How many kernels, tails and loops over rows are written for a model."""
    counts = {"kernels": 0, "tails": 0, "rows": 0}

    def counting(name, module, function):
        before = getattr(module, function)

        def count(*arguments):
            counts[name] += 1
            return before(*arguments)

        monkeypatch.setattr(module, function, count)

    counting("kernels", kernels, "_function")
    counting("tails", tail_calls, "_function")
    counting("rows", row_code, "_written")
    task.build(convert(read(model)).lowered.bytecode, Options(inputs=2))
    monkeypatch.undo()
    return counts


def test_equal_layers_are_written_once(monkeypatch):
    few, many = (written(network([0.5] * count), monkeypatch) for count in (4, 12))
    assert few == many
    # The last layer's result is the program's.
    assert 1 <= few["rows"] <= 2


def test_other_numbers_are_other_values(monkeypatch):
    model = network([0.5, 0.25, 0.5, 2.0])
    feeds = {"v0": np.random.default_rng(0).standard_normal((8, 64)).astype("f")}
    feeds["w"] = np.random.default_rng(1).standard_normal((64, 64)).astype("f")
    (found,) = convert(read(model)).compile().run(feeds)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)
