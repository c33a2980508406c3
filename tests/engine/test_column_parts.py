"""What follows parts of a product's columns: gates of recurrent cells and gated units, on one thread and on several."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import column_parts, contraction_match
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.compiler.walks import functions, nested
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.options import Options
from onnx2torch_mlir.engine.packed_weights import packed
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

RNG = np.random.default_rng(0)
GATES = {"GRU": 3, "LSTM": 4}


def numbers(*shape, scale=0.3):
    return (scale * RNG.standard_normal(shape)).astype(np.float32)


def model(nodes, sizes, weights, outputs=1):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)]
    results = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(outputs)]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def recurrent(op, hidden, sizes, **attributes):
    width = GATES[op] * hidden
    weights = {"w": numbers(1, width, 8), "r": numbers(1, width, hidden), "b": numbers(1, 2 * width)}
    outputs = [f"y{i}" for i in range(3 if op == "LSTM" else 2)]
    node = helper.make_node(op, ["x", *weights], outputs, hidden_size=hidden, **attributes)
    return model([node], sizes, weights, len(outputs))


def gated(rows, width, parts=2):
    """``parts`` of a product: their product, of which the first is what a sigmoid makes of it."""
    names = [f"p{i}" for i in range(parts)]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Split", ["p"], names, axis=-1, num_outputs=parts)]
    nodes.append(helper.make_node("Sigmoid", ["p0"], ["t0"]))
    nodes += [helper.make_node("Mul", [f"t{i}", f"p{i + 1}"], [f"t{i + 1}"]) for i in range(parts - 1)]
    nodes.append(helper.make_node("Identity", [f"t{parts - 1}"], ["y0"]))
    return model(nodes, [rows, 24], {"w": numbers(24, parts * width)})


@pytest.fixture
def following(monkeypatch):
    """Of how many parts each product of a model is that nests follow, and how many these are."""

    def find(*arguments, known=column_parts.find):
        parts = known(*arguments)
        if parts is not None:
            counts.append((parts.count, len(parts.followers)))
        return parts

    def of(proto):
        counts.clear()
        lowered = convert(read(proto)).lowered
        build(lowered.bytecode, Options(inputs=len(lowered.inputs)))
        return counts

    counts: list[tuple[int, int]] = []
    monkeypatch.setattr(column_parts, "find", find)
    return of


def check(proto, *arrays):
    """The same as onnxruntime's, with one thread and with more, where any work is worth another thread."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    program = convert(read(proto))
    for threads in (1, 2, 5):
        engine = program.compile(threads=threads)
        engine.worth = 1
        for x in arrays:
            for result, expected in zip(engine.run([x]), session.run(None, {"x": x}), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", [32, 96, 160])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("op", "attributes"), [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {"clip": 0.2})])
def test_gates_follow_their_product(op, attributes, batch, hidden, following):
    proto = recurrent(op, hidden, [5, batch, 8], **attributes)
    check(proto, numbers(5, batch, 8))
    # New states, of which one is written to the outputs, too.
    ((parts, followers),) = following(proto)
    assert parts == GATES[op] and followers >= (3 if op == "LSTM" else 2)


@pytest.mark.parametrize("op", list(GATES))
def test_open_batches(op, following):
    """Of 200 rows there is more than one block."""
    proto = recurrent(op, 64, ["time", "batch", 8])
    check(proto, *(numbers(time, batch, 8) for time, batch in ((3, 1), (2, 200), (1, 97))))
    assert following(proto)


@pytest.mark.parametrize("op", list(GATES))
def test_parts_that_are_no_whole_panels(op, following):
    proto = recurrent(op, 20, [4, 2, 8])
    check(proto, numbers(4, 2, 8))
    assert not following(proto)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("width", [32, 64, 224])
def test_gated_units(rows, width, parts, following):
    proto = gated(rows, width, parts)
    check(proto, numbers(rows, 24))
    assert following(proto) == [(parts, 1)]


def test_many_rows_have_wide_blocks(following):
    assert not following(gated(200, 64))


@pytest.mark.parametrize("columns", [(4, 1), (1, 96)])
def test_panels_of_parts_take_turns(columns):
    """Whether the weight lies by columns or by steps along the sum, part by part or not."""
    count, steps, width, parts = 96, 4, 16, 3
    column, step = columns
    weight = np.arange(count * steps, dtype=np.float32)
    packing = Packing(0, 0, width, [], (count, column), [(steps, step)], parts=parts)
    result = packed(weight, packing)
    for panel, turn in np.ndindex(count // width // parts, parts):
        first = turn * count // parts + panel * width
        expected = [[(first + lane) * column + k * step for lane in range(width)] for k in range(steps)]
        np.testing.assert_array_equal(result[panel * parts + turn], expected)


SAME, SUMS = "affine_map<(i, j) -> (i, j)>", "memref<2x64xf32>"
SLICE = "memref<2x32xf32, strided<[64, 1], offset: {}>>"
STATE = "memref<2x32xf32>"


def nest(operands, out, body="%y = arith.addf %x0, %x1 : f32"):
    """A nest of two operands, (name, type) each."""
    types = ", ".join(type_ for _, type_ in operands)
    return f"""
      linalg.generic {{indexing_maps = [{SAME}, {SAME}, {SAME}], iterator_types = ["parallel", "parallel"]}}
          ins({", ".join(name for name, _ in operands)} : {types}) outs({out} : {STATE}) {{
        ^bb0(%x0: f32, %x1: f32, %old: f32):
          {body}
          linalg.yield %y : f32
        }}"""


LOW, HIGH = ("%low", SLICE.format(0)), ("%high", SLICE.format(32))


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        (nest([LOW, HIGH], "%other"), 1),
        # One after the other.
        (nest([LOW, ("%state", STATE)], "%other") + nest([("%other", STATE), HIGH], "%third"), 2),
        # Rows are still read when the first part is done.
        (nest([LOW, HIGH], "%rows"), 0),
        # What the first nest reads would be written before it is read for the next part.
        (nest([LOW, ("%state", STATE)], "%other") + nest([("%other", STATE), HIGH], "%state"), 0),
        # Only one part is read.
        (nest([LOW, ("%state", STATE)], "%other"), 0),
        # The other one is not whole.
        (nest([LOW, ("%apart", SLICE.format(16))], "%other"), 0),
        # What is read is only written behind the product.
        (nest([("%third", STATE), ("%third", STATE)], "%state") + nest([LOW, ("%state", STATE)], "%other"), 0),
        # Somebody still reads what the nest overwrites.
        (nest([("%other", STATE), ("%other", STATE)], "%third") + nest([LOW, HIGH], "%other"), 0),
    ],
)
def test_only_what_may_be_done_part_by_part(rest, count):
    text = f"""func.func @main() {{
      %w = memref.alloc() : memref<32x64xf32>
      %rows = memref.alloc() : {STATE}
      %state = memref.alloc() : {STATE}
      %other = memref.alloc() : {STATE}
      %third = memref.alloc() : {STATE}
      %sums = memref.alloc() : {SUMS}
      linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%rows, %w : {STATE}, memref<32x64xf32>) outs(%sums : {SUMS}) {{
        ^bb0(%x: f32, %y: f32, %old: f32):
          %p = arith.mulf %x, %y : f32
          %s = arith.addf %old, %p : f32
          linalg.yield %s : f32
        }}
      %low = memref.subview %sums[0, 0] [2, 32] [1, 1] : {SUMS} to {SLICE.format(0)}
      %high = memref.subview %sums[0, 32] [2, 32] [1, 1] : {SUMS} to {SLICE.format(32)}
      %apart = memref.subview %sums[0, 16] [2, 32] [1, 1] : {SUMS} to {SLICE.format(16)}
      {rest}
      return
    }}""".replace("strided<[64, 1], offset: 0>", "strided<[64, 1]>")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (main,) = functions(module)
        product = next(operation for operation in nested(main) if operation.name == "linalg.generic")
        found = contraction_match.match(product)
        assert found is not None
        parts = column_parts.find(found, 32)
        assert (0 if parts is None else len(parts.followers)) == count
