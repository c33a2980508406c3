"""The suite's cases with symbolic dims, and with their parameters as initializers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.suite.cases import Case
from tests.suite.execution import run_case
from tests.suite.parameters import parameters
from tests.suite.rewriting import baked, dynamic

X = np.arange(6, dtype=np.float32).reshape(2, 3)
AXES = np.array([1])


def reduce_sum(name: str = "test_reduce", axes: object = AXES) -> Case:
    """A case in which ReduceSum takes its axes at run time."""
    node = helper.make_node("ReduceSum", ["data", "axes"], ["reduced"], keepdims=1)
    formals = [
        helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("axes", TensorProto.INT64, [1]),
    ]
    results = [helper.make_tensor_value_info("reduced", TensorProto.FLOAT, [2, 1])]
    model = helper.make_model(helper.make_graph([node], "g", formals, results), opset_imports=[helper.make_opsetid("", 18)])
    return Case(name, "node", model.SerializeToString(), (([X, axes], [X.sum(1, keepdims=True)]),), 1e-6, 0.0)


def model_of(case: Case) -> onnx.ModelProto:
    assert isinstance(case.model, bytes)
    return onnx.ModelProto.FromString(case.model)


def dims(value: onnx.ValueInfoProto) -> list[str | int]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_a_baked_parameter_is_an_initializer_and_no_input() -> None:
    (case,) = baked([reduce_sum()])
    graph = model_of(case).graph
    assert [value.name for value in graph.input] == ["data"]
    assert [item.name for item in graph.initializer] == ["axes"]
    np.testing.assert_array_equal(numpy_helper.to_array(graph.initializer[0]), AXES)
    (data,) = case.data_sets
    assert len(data[0]) == 1
    np.testing.assert_array_equal(data[0][0], X)


def test_dims_of_data_become_symbols_and_those_of_parameters_stay() -> None:
    (case,) = dynamic([reduce_sum()])
    graph = model_of(case).graph
    assert dims(graph.input[0]) == ["data_dim0", "data_dim1"]
    assert dims(graph.input[1]) == [1]
    assert dims(graph.output[0]) == [0, 0]


@pytest.mark.parametrize("rewrite", [baked, dynamic])
def test_a_rewritten_case_means_the_same(rewrite) -> None:  # type: ignore[no-untyped-def]
    (case,) = rewrite([reduce_sum()])
    onnx.checker.check_model(model_of(case), full_check=True)
    assert case.id == reduce_sum().id
    assert run_case(case, False).stage == "pass"
    wrong = Case(case.name, case.kind, case.model, ((case.data_sets[0][0], [X[:, :1] - 1]),), 1e-6, 0.0)
    assert run_case(wrong, False).stage == "numerics"


def test_the_expanded_body_of_an_operator_has_the_parameters_of_the_operator() -> None:
    node = helper.make_node("Identity", ["axes"], ["reduced"])
    whole, body = reduce_sum("test_sum"), reduce_sum("test_sum_expanded_ver18")
    model = model_of(body)
    del model.graph.node[:]
    model.graph.node.append(node)
    body = Case(body.name, body.kind, model.SerializeToString(), body.data_sets, 0, 0)
    assert parameters(model) == []
    assert [item.name for item in model_of(baked([whole, body])[1]).graph.initializer] == ["axes"]
    assert baked([body]) == []


def test_what_is_also_data_is_no_parameter() -> None:
    model = model_of(reduce_sum())
    assert parameters(model) == ["axes"]
    model.graph.node.append(helper.make_node("Identity", ["axes"], ["again"]))
    assert parameters(model) == []


def test_which_inputs_are_parameters_depends_on_the_version() -> None:
    model = model_of(reduce_sum())
    model.graph.node[0].op_type = "ReduceMax"
    assert parameters(model) == ["axes"]
    model.opset_import[0].version = 13
    assert parameters(model) == []


def test_contents_that_are_no_tensor_or_differ_between_data_sets_stay_inputs() -> None:
    assert baked([reduce_sum(axes=[AXES])]) == []
    case = reduce_sum()
    two = (case.data_sets[0], ([X, np.array([0])], [X.sum(0, keepdims=True)]))
    assert baked([Case(case.name, case.kind, case.model, two, 0, 0)]) == []


def test_dims_inside_sequences_become_symbols_and_scalars_leave_a_case_out() -> None:
    node = helper.make_node("SequenceLength", ["s"], ["n"])
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2, 3])
    results = [helper.make_tensor_value_info("n", TensorProto.INT64, [])]
    model = helper.make_model(helper.make_graph([node], "g", [sequence], results))
    (case,) = dynamic([Case("test_s", "node", model.SerializeToString(), (), 0, 0)])
    inner = model_of(case).graph.input[0].type.sequence_type.elem_type.tensor_type
    assert [dim.dim_param for dim in inner.shape.dim] == ["s_dim0", "s_dim1"]
    scalar = helper.make_tensor_value_info("x", TensorProto.FLOAT, [])
    model = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [scalar], results))
    assert dynamic([Case("test_neg", "node", model.SerializeToString(), (), 0, 0)]) == []


def test_a_one_and_a_size_that_decides_a_rank_stay() -> None:
    node = helper.make_node("GatherND", ["data", "indices"], ["y"])
    formals = [
        helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 1, 3]),
        helper.make_tensor_value_info("indices", TensorProto.INT64, [4, 2]),
    ]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])]
    model = helper.make_model(helper.make_graph([node], "g", formals, results))
    (case,) = dynamic([Case("test_g", "node", model.SerializeToString(), (), 0, 0)])
    data, indices = model_of(case).graph.input
    assert dims(data) == ["data_dim0", 1, "data_dim2"]
    assert dims(indices) == ["indices_dim0", 2]
