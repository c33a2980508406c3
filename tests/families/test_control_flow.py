"""If, Loop and Scan: folded, unrolled, counted and general forms, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto as T
from onnx import helper as h

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.families.control_flow_cases import IFS, LOOPS, SCANS, ControlCase
from tests.one_node import eager, native_run, reference, widened


def check(nodes, inputs, outputs, feeds, *, initializers=(), opset=17, eagerly=True):
    graph = h.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    wanted = reference(model, feeds)
    converted = convert(read(model))
    arrays = [feeds[spec.name] for spec in converted.inputs]
    runs = [native_run(converted, arrays)]
    if eagerly:
        runs.append(eager(converted, arrays))
    for results in runs:
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-5)
    return converted


def value(name, element, shape):
    return h.make_tensor_value_info(name, element, shape)


def constant(name, array):
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def branches(first="Relu", second="Neg"):
    return {
        key: h.make_graph([h.make_node(op, ["x"], [f"{key}_y"])], key, [], [value(f"{key}_y", T.FLOAT, None)])
        for key, op in (("then_branch", first), ("else_branch", second))
    }


@pytest.mark.parametrize("truth", [True, False])
def test_if_at_run_time(truth):
    node = h.make_node("If", ["c"], ["y"], **branches())
    feeds = {"c": np.array(truth), "x": np.array([-1.0, 2.0], np.float32)}
    check([node], [value("c", T.BOOL, []), value("x", T.FLOAT, ["N"])], [value("y", T.FLOAT, ["N"])], feeds)


def test_if_folded():
    node = h.make_node("If", ["c"], ["y"], **branches("Relu", "Neg"))
    feeds = {"x": np.array([-1.0, 2.0], np.float32)}
    converted = check(
        [node],
        [value("x", T.FLOAT, ["N"])],
        [value("y", T.FLOAT, ["N"])],
        feeds,
        initializers=[constant("c", np.array(False))],
    )
    assert "cond" not in str(converted.exported.graph)


def loop_body(condition="keep"):
    nodes = [
        h.make_node("Add", ["acc", "x"], ["next"]),
        h.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
        h.make_node("Identity", ["next"], ["row"]),
    ]
    if condition == "keep":
        nodes.append(h.make_node("Constant", [], ["go"], value=h.make_tensor("t", T.BOOL, [], [True])))
    else:
        nodes.append(h.make_node("Less", ["total", "limit"], ["go"]))
    outputs = [value("go", T.BOOL, []), value("next", T.FLOAT, None)]
    if condition == "keep":
        outputs.append(value("row", T.FLOAT, [2]))
    return h.make_graph(nodes, "body", [value("i", T.INT64, []), value("on", T.BOOL, []), value("acc", T.FLOAT, None)], outputs)


@pytest.mark.parametrize("trips", [0, 1, 3, 20])
@pytest.mark.parametrize("known", [True, False])
def test_loop_with_scan_output(trips, known):
    node = h.make_node("Loop", ["m", "", "start"], ["last", "rows"], body=loop_body())
    feeds = {"x": np.array([1.0, 2.0], np.float32), "start": np.array([0.5, 0.25], np.float32)}
    inputs = [value("x", T.FLOAT, ["N"]), value("start", T.FLOAT, ["N"])]
    initializers = [constant("m", np.array(trips))] if known else []
    if not known:
        inputs.append(value("m", T.INT64, []))
        feeds["m"] = np.array(trips)
    outputs = [value("last", T.FLOAT, None), value("rows", T.FLOAT, None)]
    # torch's eager scan cannot run zero steps; the native program can.
    check([node], inputs, outputs, feeds, initializers=initializers, eagerly=known or trips > 0)


@pytest.mark.parametrize("limit", [-5.0, 7.0, 1000.0])
def test_loop_that_stops_by_itself(limit):
    node = h.make_node("Loop", ["m", "", "start"], ["last"], body=loop_body("stop"))
    feeds = {"x": np.array([1.0, 2.0], np.float32), "start": np.array([0.5, 0.25], np.float32)}
    initializers = [constant("m", np.array(50)), constant("limit", np.array(limit, np.float32))]
    inputs = [value("x", T.FLOAT, [2]), value("start", T.FLOAT, [2])]
    check([node], inputs, [value("last", T.FLOAT, None)], feeds, initializers=initializers)


@pytest.mark.parametrize("reverse", [0, 1])
def test_scan(reverse):
    body = h.make_graph(
        [h.make_node("Add", ["sum", "e"], ["out"]), h.make_node("Identity", ["out"], ["copy"])],
        "body",
        [value("sum", T.FLOAT, [2]), value("e", T.FLOAT, [2])],
        [value("out", T.FLOAT, [2]), value("copy", T.FLOAT, [2])],
    )
    node = h.make_node(
        "Scan",
        ["start", "x"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[reverse],
        scan_output_directions=[reverse],
    )
    feeds = {"start": np.zeros(2, np.float32), "x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    inputs = [value("start", T.FLOAT, [2]), value("x", T.FLOAT, [2, "S"])]
    check([node], inputs, [value("last", T.FLOAT, [2]), value("all", T.FLOAT, None)], feeds)


@pytest.mark.parametrize("truth", [True, False])
def test_loop_whose_start_is_decided_at_run_time(truth):
    body = h.make_graph(
        [
            h.make_node("Identity", ["on"], ["go"]),
            h.make_node("Add", ["acc", "x"], ["next"]),
            h.make_node("Identity", ["next"], ["row"]),
        ],
        "body",
        [value("i", T.INT64, []), value("on", T.BOOL, []), value("acc", T.FLOAT, [2])],
        [value("go", T.BOOL, []), value("next", T.FLOAT, [2]), value("row", T.FLOAT, [2])],
    )
    node = h.make_node("Loop", ["m", "c", "x"], ["last", "rows"], body=body)
    feeds = {"x": np.array([1.0, 2.0], np.float32), "m": np.array(3), "c": np.array(truth)}
    inputs = [value("x", T.FLOAT, [2]), value("m", T.INT64, []), value("c", T.BOOL, [])]
    check([node], inputs, [value("last", T.FLOAT, None), value("rows", T.FLOAT, None)], feeds, eagerly=truth)


def parsed(case: ControlCase) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {case.opset}]> {case.graph}')


@pytest.mark.parametrize("case", [*LOOPS, *IFS, *SCANS], ids=lambda case: case.name)
def test_one_program_for_all_inputs(case: ControlCase):
    model = parsed(case)
    converted = convert(read(model))
    engine = converted.compile()
    for number, feeds in enumerate(case.feeds):
        wanted = case.expected[number] if case.expected else reference(model, feeds)
        arrays = [feeds[spec.name] for spec in converted.inputs]
        runs = [[widened(item) for item in engine.run(arrays)]]
        if case.eager:
            runs.append(eager(converted, arrays))
        for results in runs:
            for result, want in zip(results, wanted, strict=True):
                assert (result.ndim, result.dtype) == (want.ndim, want.dtype), f"feeds {number}"
                if want.size == 0:  # without a trip, the sizes of a row are nobody's: onnxruntime gives 0 for them
                    assert result.size == 0, f"feeds {number}"
                    continue
                np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6, err_msg=f"feeds {number}")


@pytest.mark.parametrize("trips", [1, 2, 3, 5000])
def test_rows_of_many_trips(trips):
    """Room for rows doubles; a row of a size that only the loop knows and a carry that grows are collected beside it."""
    nodes = [
        h.make_node("Add", ["acc", "x"], ["next"]),
        h.make_node("Identity", ["next"], ["row"]),
        h.make_node("Cast", ["i"], ["number"], to=T.FLOAT),
        h.make_node("Add", ["number", "one"], ["count"]),
        h.make_node("Less", ["count", "limit"], ["go"]),
        h.make_node("Greater", ["x", "number"], ["flags"]),
    ]
    body = h.make_graph(
        nodes,
        "body",
        [value("i", T.INT64, []), value("on", T.BOOL, []), value("acc", T.FLOAT, ["N"])],
        [value("go", T.BOOL, []), *(value(n, t, ["N"]) for n, t in (("next", T.FLOAT), ("row", T.FLOAT), ("flags", T.BOOL)))],
    )
    node = h.make_node("Loop", ["", "start", "x"], ["last", "rows", "all_flags"], body=body)
    feeds = {"x": np.array([1.0, 2.0], np.float32), "limit": np.array(trips, np.float32), "start": np.array(True)}
    inputs = [value("x", T.FLOAT, ["N"]), value("limit", T.FLOAT, []), value("start", T.BOOL, [])]
    outputs = [value("last", T.FLOAT, None), value("rows", T.FLOAT, None), value("all_flags", T.BOOL, None)]
    check([node], inputs, outputs, feeds, initializers=[constant("one", np.float32(1))], eagerly=trips < 5)


def test_a_value_that_grows_finds_its_memory_again():
    """4000 turns, 256 bytes more each time: 2 GB if each turn's block were kept for nothing."""
    import resource

    body = h.make_graph(
        [h.make_node("Identity", ["on"], ["go"]), h.make_node("Concat", ["acc", "x"], ["next"], axis=0)],
        "body",
        [value("i", T.INT64, []), value("on", T.BOOL, []), value("acc", T.FLOAT, [None, 64])],
        [value("go", T.BOOL, []), value("next", T.FLOAT, [None, 64])],
    )
    nodes = [h.make_node("Loop", ["m", "", "x"], ["last"], body=body), h.make_node("ReduceSum", ["last"], ["y"], keepdims=0)]
    graph = h.make_graph(
        nodes, "g", [value("x", T.FLOAT, [1, 64]), value("m", T.INT64, [])], [value("y", T.FLOAT, [])]
    )
    engine = convert(read(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8))).compile()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (result,) = engine.run([np.ones((1, 64), np.float32), np.array(4000)])
    assert result == 64 * 4001
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_branch_that_contradicts_the_model_is_refused_when_it_is_taken():
    case = next(case for case in IFS if case.name == "squeeze_of_a_size_that_has_to_be_1")
    program = convert(read(parsed(case)))
    assert [(finding.code, finding.severity) for finding in program.report.findings] == [("O2M-C010", "warning")]
    with pytest.raises(Refusal, match="its condition has to be true") as refused:
        program.compile().run({"x": np.zeros((2, 3, 2), np.float32)})
    assert refused.value.findings[0].code == "O2M-X001"
