"""What is computed on the way to a result may lie in the result's row: the same numbers whether sizes are known or open."""

import math

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx2torch_mlir.engine.compiler import row_code, task
from onnx2torch_mlir.engine.options import of_environment
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

RNG = np.random.default_rng(0)
AXIS = numpy_helper.from_array(np.array([-1]), "axis")
SOFTMAX = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
MODELS = {
    "softmax": ([SOFTMAX], ["y"]),
    "softmax of another axis": ([helper.make_node("Softmax", ["x"], ["y"], axis=1)], ["y"]),
    "two results of one": ([SOFTMAX, helper.make_node("Neg", ["y"], ["z"])], ["y", "z"]),
    "a result that is read again": (
        [SOFTMAX, helper.make_node("ReduceMax", ["y", "axis"], ["m"]), helper.make_node("Div", ["y", "m"], ["z"])],
        ["y", "z"],
    ),
    "halves": (
        [
            helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            helper.make_node("Softmax", ["h"], ["y"], axis=-1),
        ],
        ["y"],
    ),
    "part of a result": (
        [
            helper.make_node("Softmax", ["x"], ["p"], axis=-1),
            helper.make_node("Softmax", ["w"], ["q"], axis=-1),
            helper.make_node("Concat", ["p", "x", "q"], ["y"], axis=-1),
        ],
        ["y"],
    ),
    "parts one below the other": (
        [
            helper.make_node("Softmax", ["x"], ["p"], axis=-1),
            helper.make_node("Softmax", ["w"], ["q"], axis=-1),
            helper.make_node("Concat", ["p", "q"], ["y"], axis=0),
        ],
        ["y"],
    ),
    "softmax after softmax": (
        [helper.make_node("Softmax", ["x"], ["p"], axis=-1), helper.make_node("Softmax", ["p"], ["y"], axis=-1)],
        ["y"],
    ),
    "norm": (
        [
            helper.make_node("ReduceMean", ["x", "axis"], ["t"]),
            helper.make_node("Sub", ["x", "t"], ["c"]),
            helper.make_node("ReduceSumSquare", ["c", "axis"], ["v"]),
            helper.make_node("Div", ["c", "v"], ["y"]),
        ],
        ["y"],
    ),
}


def model_of(name, shape):
    nodes, results = MODELS[name]
    given = [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in ("x", "w")]
    used = [value for value in given if any(value.name in node.input for node in nodes)]
    kind = TensorProto.FLOAT16 if name == "halves" else TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(result, kind, None) for result in results]
    graph = helper.make_graph(nodes, "g", used, ends, [AXIS])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("shape", [(3, 5, 37), (2, 7, 1025), (1, 1, 16), (4, 3, 1)])
@pytest.mark.parametrize("name", MODELS)
def test_same_numbers(name, shape):
    feeds = {each: RNG.standard_normal(shape).astype(np.float32) for each in ("x", "w")}
    known, open_ = model_of(name, shape), model_of(name, ["a", "b", "c"])
    given = {value.name: feeds[value.name] for value in known.graph.input}
    ours, others = (convert(read(model)).compile(threads=2).run(given) for model in (known, open_))
    wanted = reference(known, given)
    tolerance = 2e-3 if name == "halves" else 2e-5
    for one, other, want in zip(ours, others, wanted, strict=True):
        np.testing.assert_allclose(one.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance / 10)
        np.testing.assert_allclose(other.astype(np.float32), one.astype(np.float32), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize(
    ("name", "rows"),
    [("softmax", 0), ("norm", 0), ("two results of one", 0), ("a result that is read again", 1), ("halves", 2)],
)
@pytest.mark.parametrize("shape", [(3, 5, 300), ("a", "b", "c")])
def test_rows_of_their_own(name, rows, shape, monkeypatch):
    """How many intermediate rows have memory of their own."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    made, row_of = [], row_code.Writer._row_of

    def counted(self, root):
        made.append(math.prod(row_code.row_of(root, self._axes(root))[0].shape))
        return row_of(self, root)

    monkeypatch.setattr(row_code.Writer, "_row_of", counted)
    lowered = convert(read(model_of(name, shape))).lowered
    task.build(lowered.bytecode, of_environment(len(lowered.inputs)))
    # A sum, or an extreme, is a row of one number.
    assert sum(size != 1 for size in made) == rows
