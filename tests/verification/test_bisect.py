"""The search for the first node that differs, through everything that a graph can hold."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from onnx import parser

import onnx2torch_mlir as o2m
from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.model import read
from onnx2torch_mlir.specs import Action, SpecTable, default_table, plugins
from onnx2torch_mlir.specs.installed import installed
from onnx2torch_mlir.verification import Divergence, bisect, bisection, compare, verify
from tests.verification.wrong import capped


def wrong(op: str, function: str) -> SpecTable:
    """The table, with another converter for ``op``."""
    target = f"tests.verification.wrong.{function}"
    return SpecTable.build(
        dataclasses.replace(row, action=Action.CONVERT, target=target, options={}, attributes={}) if row.op == op else row
        for row in default_table()
    )


@pytest.fixture(scope="module")
def capped_relu() -> SpecTable:
    """The table, with a Relu that is right up to 10."""
    return wrong("Relu", "capped")


def graph(text: str) -> onnx.GraphProto:
    return parser.parse_graph(text)


def model(text: str, **bodies: str) -> onnx.ModelProto:
    """A model whose nodes named as in ``bodies`` (``node__attribute``) get these sub-graphs."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}')

    def name(nodes: Any) -> None:
        for node in nodes:
            node.name = f"{node.op_type}_{node.output[0]}"
            for key, body in bodies.items():
                output, attribute = key.split("__")
                if node.output[0] == output:
                    node.attribute.append(h.make_attribute(attribute, graph(body)))
            for attribute in node.attribute:
                name(attribute.g.node)

    name(proto.graph.node)
    return proto


ADDING = """body (int64 i, bool c, float[N] v) => (bool d, float[N] w, float[N] s) {
  d = Identity(c) t = Add(v, x) w = Relu(t) s = Neg(w)
}"""
LOOP = model(
    """g (float[N] x) => (float[N] y, float[M, N] z) {
      trips = Constant<value = int64 {6}>()
      go = Constant<value = bool {1}>()
      a = Abs(x)
      b, z = Loop(trips, go, a)
      y = Exp(b)
    }""",
    b__body=ADDING,
)
NESTED = model(
    """g (float[N] x) => (float[M, N] z) {
      trips = Constant<value = int64 {5}>()
      go = Constant<value = bool {1}>()
      b, z = Loop(trips, go, x)
    }""",
    b__body="""body (int64 i, bool c, float[N] v) => (bool d, float[N] w, float[N] s) {
      d = Identity(c)
      three = Constant<value = int64 {3}>()
      late = Less(three, i)
      w = If(late)
      s = Neg(w)
    }""",
    w__then_branch="then () => (float[N] p) { k = Add(v, v) p = Relu(k) }",
    w__else_branch="else () => (float[N] q) <float[1] two = {2}> { q = Mul(v, two) }",
)
SCAN = model(
    """g (float[N] x, float[3, N] xs) => (float[N] y, float[3, N] z) {
      y, z = Scan<num_scan_inputs = 1, scan_input_directions = [1]>(x, xs)
    }""",
    y__body="body (float[N] v, float[N] e) => (float[N] w, float[N] s) { t = Add(v, e) w = Relu(t) s = Abs(w) }",
)
SEQUENCE = model(
    """g (float[N] x) => (float[M] y, seq(float[N]) held) {
      a = Neg(x)
      b = Relu(x)
      held = SequenceConstruct(a, b)
      y = ConcatFromSequence<axis = 0>(held)
    }"""
)
HOST = model(
    """g (float[N] x) => (float[N] y, string[N] t) {
      a = Add(x, x)
      b = Relu(a)
      t = Cast<to = 8>(b)
      c = Cast<to = 1>(t)
      y = Neg(c)
    }"""
)

CASES = {
    "loop": (LOOP, {"x": np.float32([1, 2, 3])}, "Relu_w", "main/Loop_b.body", ["iteration 2"], 12.0),
    "nested": (
        NESTED, {"x": np.float32([1, 0.5])},
        "Relu_p", "main/Loop_b.body/If_w.then_branch", ["iteration 4", "then_branch"], 32.0,
    ),
    "scan": (
        SCAN,
        {"x": np.float32([1, 1]), "xs": np.float32([[0, 8], [1, 2], [1, 3]])},
        "Relu_w", "main/Scan_y.body", ["iteration 2"], 14.0,
    ),
    "sequence": (SEQUENCE, {"x": np.float32([1, 30])}, "Relu_b", "main", [], 30.0),
    "host": (HOST, {"x": np.float32([1, 30])}, "Relu_b", "main", [], 60.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_node_is_found(name: str, capped_relu: SpecTable, tmp_path: Path) -> None:
    proto, feeds, node, place, within, value = CASES[name]
    report = verify(proto, feeds, eager=True, bisect=True, table=capped_relu, reproducer=tmp_path)
    found = report.divergence
    assert found is not None
    assert (found.node.name, found.node.place) == (node, place)
    assert [turn.label for turn in found.within] == within
    assert found.is_wrong_alone and found.alone is not None
    first = max(map(float, found.alone.first_values or ()))
    assert (found.alone.problem, first) == ("numbers", value)
    small = onnx.load(tmp_path / "model.onnx")
    assert [item.op_type for item in small.graph.node] == ["Relu"]
    with np.load(tmp_path / "inputs.npz") as arrays:
        given = dict(arrays)
    again = verify(small, given, eager=True, table=capped_relu)
    assert [item.max_abs for item in again.outputs] == [found.alone.max_abs]
    assert verify(small, given, eager=True).passed
    json.dumps(report.as_dict())


def test_errors_that_add_up_in_a_loop_name_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn agrees from the reference's values, only their sum does not."""
    loose = {"rtol": 1e-3, "atol": 0.0}
    body = "body (int64 i, bool c, float[N] v) => (bool d, float[N] w) { d = Identity(c) w = Elu(v) }"
    text = "g (float[N] x) => (float[N] y) { n = Constant<value = int64 {40}>() y = Loop(n, , x) }"
    found = bisect(read(model(text, y__body=body)), {"x": np.float32([1])}, eager=True, table=wrong("Elu", "drifting"), **loose)
    assert found is not None and found.node.op_type == "Loop"
    assert found.turns == 40 and found.is_wrong_alone


def test_native_search_of_a_loop_in_a_long_model_takes_few_compilations(
    capped_relu: SpecTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 nodes, the wrong one in the body of a loop: what is compiled is counted where it is made."""
    made = []
    prepare = bisection.prepare

    def counted(part: Any, **options: Any) -> Any:
        made.append(sum(1 for _ in part.ir.graph))
        return prepare(part, **{**options, "eager": True})

    monkeypatch.setattr(bisection, "prepare", counted)
    before = "\n".join(f"p{i + 1} = Neg(p{i})" for i in range(250))
    after = "\n".join(f"q{i + 1} = Neg(q{i})" for i in range(250))
    text = f"""g (float[N] x) => (float[N] y) {{
      p0 = Abs(x)
      {before}
      trips = Constant<value = int64 {{6}}>()
      q0 = Loop(trips, , p250)
      {after}
      y = Exp(q250)
    }}"""
    body = "body (int64 i, bool c, float[N] v) => (bool d, float[N] w) { d = Identity(c) t = Add(v, x) w = Relu(t) }"
    found = bisect(read(model(text, q0__body=body)), {"x": np.float32([2])}, table=capped_relu)
    assert found is not None and found.node.op_type == "Relu"
    assert str(found.within[0]).startswith("iteration 4 of Loop_q0")
    assert found.rounds == len(made) <= math.log2(500)


@pytest.fixture
def plugin() -> Any:
    rows = "- {op: QuickGelu, override: true, convert: capped, ignore: [alpha]}"
    yield o2m.register(domain="com.microsoft", rows=rows, converters=[capped], name="wrong QuickGelu")
    plugins.set_registered([])
    installed.cache_clear()


@pytest.mark.usefixtures("plugin")
def test_com_microsoft_and_the_command_of_the_reproducer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        h.make_node("Add", ["x", "c"], ["a"], "sum"),
        h.make_node("QuickGelu", ["a"], ["b"], "gelu", domain="com.microsoft", alpha=1.0),
        h.make_node("Neg", ["b"], ["y"], "minus"),
    ]
    formals = [h.make_tensor_value_info(name, T.FLOAT, ["N", 4]) for name in "xy"]
    held = [nh.from_array(np.full(4, 30, np.float32), "c")]
    imports = [h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)]
    proto = h.make_model(h.make_graph(nodes, "g", formals[:1], formals[1:], held), opset_imports=imports, ir_version=8)
    report = verify(proto, dims={"N": 2}, eager=True, bisect=True, reproducer=tmp_path, ulp=4)
    assert report.divergence is not None and report.divergence.node.name == "gelu"
    (finding,) = [item for item in report.findings if item.code == "O2M-V001"]
    assert "differ by more than 4 ULP" in finding.reason and "the first is at [0, 0]" in finding.reason
    script = (tmp_path / "command.sh").read_text()
    assert "verify --eager --ulp 4 model.onnx --inputs inputs.npz" in script
    monkeypatch.chdir(tmp_path)
    command = script.partition("-m onnx2torch_mlir ")[2].split()
    assert main(command) == 9
    o2m.unregister("wrong QuickGelu")
    assert main(command) == 0


def test_what_cannot_run_eagerly_is_searched_natively(capped_relu: SpecTable, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, tried = bisection.prepare, []

    def no_eager(part: Any, **options: Any) -> Any:
        tried.append(options["eager"])
        if options["eager"]:
            raise o2m.Refusal([o2m.Finding("O2M-X002", "no kernel")])
        return prepare(part, **{**options, "eager": True})

    monkeypatch.setattr(bisection, "prepare", no_eager)
    report = verify(SEQUENCE, {"x": np.float32([1, 30])}, bisect=True, table=capped_relu)
    assert report.divergence is not None and report.divergence.node.name == "Relu_b"
    assert tried[0] and not tried[1]


def test_a_search_that_finds_nothing_says_so(monkeypatch: pytest.MonkeyPatch, capped_relu: SpecTable) -> None:
    monkeypatch.setitem(verify.__globals__, "bisect", lambda *_, **__: None)
    report = verify(SEQUENCE, {"x": np.float32([1, 30])}, eager=True, bisect=True, table=capped_relu)
    assert report.divergence is None
    (finding,) = [item for item in report.findings if item.code == "O2M-V004"]
    assert "every value agrees" in finding.reason


def test_a_run_that_fails_names_the_node_that_fails(tmp_path: Path) -> None:
    before = "\n".join(f"p{i + 1} = Neg(p{i})" for i in range(40))
    text = f"""g (float[N] x) => (float[N] y) {{
      p0 = Abs(x)
      {before}
      e = Elu(p40)
      y = Exp(e)
    }}"""
    table, feeds = wrong("Elu", "impossible"), {"x": np.float32([1, 2])}
    with pytest.raises(o2m.Refusal, match="O2M-X002"):
        verify(model(text), feeds, eager=True, table=table)
    report = verify(model(text), feeds, eager=True, bisect=True, table=table, reproducer=tmp_path)
    assert report.exit_code == 8 and not report.passed
    assert [(item.code, item.node and item.node.name) for item in report.findings] == [("O2M-X002", "Elu_e")]
    assert report.divergence is not None and report.divergence.rounds <= math.log2(43) + 2
    assert "y cannot be computed: eager PyTorch: RuntimeError" in str(report)
    assert [item.op_type for item in onnx.load(tmp_path / "model.onnx").graph.node] == ["Elu"]
    json.dumps(report.as_dict())


# --- strict comparison ------------------------------------------------------------------------------------------------

DTYPES = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ulp_counts_representable_numbers(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    bits = np.dtype(f"int{8 * kind.itemsize}")
    theirs = np.array([[1, -1, 0], [2, 0.5, -0.25]]).astype(kind)
    ours = theirs.copy()
    ours[1, 0] = (theirs[1:, 0].view(bits) + 3).view(kind)[0]
    assert compare("x", theirs, theirs, ulp=0).agrees
    assert compare("x", ours, theirs, ulp=3).agrees
    found = compare("x", ours, theirs, ulp=2)
    assert (found.problem, found.max_ulp, found.first, found.wrong) == ("numbers", 3, (1, 0), 1)
    crossing = np.array([-0.0]).astype(kind), np.array([0.0]).astype(kind)
    assert compare("zero", *crossing, ulp=0).max_ulp == 0


def test_nan_and_infinity_on_one_side() -> None:
    theirs = np.float32([1, np.nan, np.inf, -np.inf, np.nan])
    ours = np.float32([1, np.nan, -np.inf, -np.inf, 2])
    for ulp in (None, 1 << 40):
        found = compare("x", ours, theirs, ulp=ulp)
        assert (found.wrong, found.not_finite, found.first) == (2, 2, (2,))
        assert "2 are NaN or infinite on one side only" in found.reason()
    assert compare("x", theirs, theirs, ulp=0).agrees


def test_the_whole_line_of_float64() -> None:
    most = np.finfo(np.float64).max
    found = compare("x", np.float64([most]), np.float64([-most]))
    assert found.max_ulp == 2 * int(np.float64(most).view(np.int64))


def test_divergence_is_told_in_words(capped_relu: SpecTable) -> None:
    found = bisect(read(LOOP), {"x": np.float32([1, 2, 3])}, eager=True, table=capped_relu)
    assert isinstance(found, Divergence)
    assert "in iteration 2 of Loop_b (ai.onnx::Loop-16) at main[3]" in str(found)
    assert "ULP" in str(found)
