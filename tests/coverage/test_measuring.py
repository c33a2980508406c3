"""From results of the suite and records of the differential tester to measured.json."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from onnx2torch_mlir.coverage import ALL, Limit, Measured, Run, Tally
from onnx2torch_mlir.coverage.dtypes import declared, group_of, groups_of
from onnx2torch_mlir.specs import OperatorVersion, default_ledger
from tests.suite.cases import Case
from tests.suite.execution import CaseResult
from tools.case_operators import operators_of
from tools.measure_coverage import Form, add_draws, add_suite


def version(op: str, opset: int, domain: str = "ai.onnx") -> OperatorVersion:
    operator = default_ledger().operator(domain, op)
    found = None if operator is None else operator.version_for(opset)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("type_", "group"),
    [
        ("tensor(float)", "float"),
        ("double", "float"),
        ("seq(tensor(bfloat16))", "f16"),
        ("optional(seq(tensor(uint64)))", "uint"),
        ("map(string, tensor(float))", "float"),
        ("int8", "int"),
        ("int4", "narrow"),
        ("tensor(uint2)", "narrow"),
        ("float8e4m3fnuz", "narrow"),
        ("float4e2m1", "narrow"),
        ("complex64", "complex"),
        ("string", "string"),
        ("", "other"),
    ],
)
def test_every_type_has_a_group(type_: str, group: str) -> None:
    assert group_of(type_) == group


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "outputs", "groups"),
    [
        ("Gather", 13, ["float", "int64"], ["float"], {"float"}),
        ("Gather", 13, ["string", "int32"], ["string"], {"string"}),
        ("Where", 16, ["bool", "float16", "float16"], ["float16"], {"f16"}),
        ("Cast", 13, ["float", ""], ["bool"], {"float", "bool"}),
        ("Not", 1, ["bool"], ["bool"], {"bool"}),
        ("Concat", 13, ["int64", "int64", "int64"], ["int64"], {"int"}),
        ("NonMaxSuppression", 11, ["float", "float", "int64"], ["int64"], {"float"}),
        ("Relu", 14, [""], [""], {"other"}),
    ],
)
def test_the_types_of_the_operators_own_parameters_decide_the_group(
    op: str, opset: int, inputs: list[str], outputs: list[str], groups: set[str]
) -> None:
    assert groups_of(version(op, opset), inputs, outputs) == groups


def test_the_declared_groups_are_those_of_the_same_parameters() -> None:
    assert declared(version("Relu", 1)) == {"float", "f16"}
    assert "int" in declared(version("Relu", 14))
    assert declared(version("Not", 1)) == {"bool"}
    assert "string" in declared(version("Gather", 13))


def case(name: str, nodes: list[Any], *types: int) -> Case:
    formals = [helper.make_tensor_value_info(f"x{index}", type_, [2]) for index, type_ in enumerate(types)]
    result = helper.make_tensor_value_info("y", types[0], [2])
    model = helper.make_model(helper.make_graph(nodes, "g", formals, [result]), opset_imports=[helper.make_opsetid("", 14)])
    return Case(name, "node", model.SerializeToString(), (), 0, 0)


RELU = case("test_relu", [helper.make_node("Relu", ["x0"], ["y"])], TensorProto.INT32)
BOTH = case(
    "test_both",
    [helper.make_node("Relu", ["x0"], ["r"]), helper.make_node("Sin", ["r"], ["y"])],
    TensorProto.FLOAT,
)


def test_a_case_is_about_the_operators_in_its_model_with_the_dtypes_that_flow_there() -> None:
    assert operators_of(RELU) == {("ai.onnx", "Relu", 14): {"int"}}
    assert operators_of(BOTH) == {("ai.onnx", "Relu", 14): {"float"}, ("ai.onnx", "Sin", 7): {"float"}}


def test_nodes_of_subgraphs_count_and_see_outer_values() -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x0"], ["z"])], "b", [], [helper.make_tensor_value_info("z", TensorProto.DOUBLE, [2])]
    )
    node = helper.make_node("If", ["x1"], ["y"], then_branch=branch, else_branch=branch)
    found = operators_of(case("test_if", [node], TensorProto.DOUBLE, TensorProto.BOOL))
    assert found["ai.onnx", "Neg", 13] == {"float"}
    assert ("ai.onnx", "If", 13) in found


def result(name: str, stage: str, **more: str) -> CaseResult:
    return CaseResult(name, "node", stage, **more)


def test_passing_cases_count_for_all_their_operators_and_failing_ones_for_the_one_named() -> None:
    run = Measured()
    results = [result("test_relu", "pass"), result("test_both", "lower", code="O2M-L001", op="Sin", reason="no 'q' here")]
    add_suite(run, [RELU, BOTH], [Form("suite", "static", results)])
    passed = Tally(1, 1, 1, 1, 1)
    assert run.tallies["ai.onnx", "Relu", 14] == {("int", "static"): passed, (ALL, "static"): passed}
    assert run.tallies["ai.onnx", "Sin", 7][ALL, "static"] == Tally(1, 1)
    assert run.limits == {("ai.onnx", "Sin", 7): {Limit("O2M-L001", "no … here"): 1}}
    assert [(item.cases, item.matched) for item in run.runs] == [(2, 1), (2, 1)]


@pytest.mark.parametrize(
    ("stage", "tally"),
    [
        ("read", Tally(1)),
        ("convert", Tally(1)),
        ("lower", Tally(1, 1)),
        ("compile", Tally(1, 1, 1)),
        ("run", Tally(1, 1, 1)),
        ("numerics", Tally(1, 1, 1, 1)),
        ("dtype", Tally(1, 1, 1, 1)),
        ("crash", Tally(1)),
        ("timeout", Tally(1)),
        ("error", Tally(1)),
        ("pass", Tally(1, 1, 1, 1, 1)),
    ],
)
def test_how_far_a_case_got(stage: str, tally: Tally) -> None:
    run = Measured()
    add_suite(run, [RELU], [Form("suite", "dynamic", [result("test_relu", stage, reason="why")])])
    assert run.tallies["ai.onnx", "Relu", 14][ALL, "dynamic"] == tally


def test_another_form_tells_what_it_loses_and_adds_no_cases_of_its_own_if_it_has_no_mode() -> None:
    run = Measured()
    passed = [result("test_relu", "pass"), result("test_both", "pass")]
    baked = [result("test_relu", "numerics", reason="3 of 4 differ, by 1e-3"), result("test_both", "pass")]
    add_suite(run, [RELU, BOTH], [Form("suite", "static", passed), Form("baked", None, baked, passed)])
    assert run.runs[-1] == Run("baked", 2, 1, 1)
    assert run.tallies["ai.onnx", "Relu", 14][ALL, "static"] == Tally(2, 2, 2, 2, 2)
    (limit,) = run.limits["ai.onnx", "Relu", 14]
    assert "1e-3" not in limit.sentence


def draw(outcome: str, count: int, **more: Any) -> dict[str, Any]:
    record = {"domain": "ai.onnx", "op": "Relu", "since": 14, "version": 14, "dtype": "float16", "group": "f16"}
    return {**record, "dynamic": False, "outcome": outcome, "reached": "", "code": "", "reason": "", "count": count, **more}


def test_draws_count_with_their_dtype_and_those_without_a_reference_say_nothing() -> None:
    run = Measured()
    refused = draw("refused", 2, code="O2M-C003", reason="[X=3] no [2, 3] dims", dynamic=True, reached="converted")
    nothing = [draw("both-refuse", 7), draw("no strategy", 0, version=0), draw("refused row", 0, version=0)]
    add_draws(run, [draw("agree", 3, reached="ran"), draw("disputed", 1, reached="ran"), refused, *nothing])
    cells = run.tallies["ai.onnx", "Relu", 14]
    assert cells["f16", "static"] == cells[ALL, "static"] == Tally(4, 4, 4, 4, 4)
    assert cells["f16", "dynamic"] == Tally(2, 2)
    assert run.runs == [Run("draws of the differential tester", 6, 4)]
    assert run.limits["ai.onnx", "Relu", 14] == {Limit("O2M-C003", "no [2, 3] dims", "dynamic"): 2}
    add_draws(run, [draw("differ", 1, reached="ran", reason="1 of 3 differ")])
    assert run.tallies["ai.onnx", "Relu", 14][ALL, "static"] == Tally(5, 5, 5, 5, 4)
