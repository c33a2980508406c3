"""Shape arithmetic is done while the program is built: contents of sizes stay expressions, and nodes only appear on use."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import sympy
import torch
from onnx import TensorProto, helper, numpy_helper, parser

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dim_table import DimTable
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert
from tests.one_node import eager


@pytest.fixture
def g() -> ProgramBuilder:
    return ProgramBuilder()


@pytest.fixture
def sizes(g: ProgramBuilder) -> tuple[sympy.Expr, sympy.Expr]:
    x = g.input("x", torch.float32, ["B", "S", 64])
    batch, sequence, _ = x.shape
    assert isinstance(batch, sympy.Expr)
    assert isinstance(sequence, sympy.Expr)
    return batch, sequence


def listed(value: Value) -> list[object]:
    assert value.contents is not None, "not folded"
    symbolic = value.symbolic()
    assert symbolic is not None
    return list(symbolic.reshape(-1))


def test_integer_arithmetic(g, sizes):
    b, s = sizes
    v = g.sizes([b, s, 64])
    assert listed(g.mul(v, 2)) == [2 * b, 2 * s, 128]
    assert listed(g.sub(v, v)) == [0, 0, 0]
    assert listed(g.floor_div(g.mul(v, 4), 2)) == [2 * b, 2 * s, 128]
    assert listed(g.binary("remainder", g.mul(v, 4), 4))[2] == 0
    assert listed(g.unary("neg", v)) == [-b, -s, -64]
    assert listed(g.call("aten.pow.Tensor_Scalar", v, 2)) == [b**2, s**2, 4096]
    assert listed(g.call("aten.clamp.default", v, 0, None)) == [b, s, 64]
    assert listed(g.call("aten.prod.dim_int", v, 0)) == [64 * b * s]
    assert listed(g.sum(v, [0])) == [b + s + 64]
    assert listed(g.call("aten.cumsum.default", v, 0)) == [b, b + s, b + s + 64]
    assert listed(g.call("aten.amax.default", g.sizes([3, 9]), [0])) == [9]


def test_movement(g, sizes):
    b, s = sizes
    v = g.sizes([b, s, 64])
    assert listed(g.select(v, 0, 1)) == [s]
    assert listed(g.slice(v, 0, 1, 3)) == [s, 64]
    assert listed(g.cat([v, g.sizes([-1])], 0)) == [b, s, 64, -1]
    assert listed(g.call("aten.flip.default", v, [0])) == [64, s, b]
    assert listed(g.call("aten.index_select.default", v, 0, g.sizes([2, 0]))) == [64, b]
    assert listed(g.call("aten.gather.default", v, 0, g.sizes([2, 0]))) == [64, b]
    assert listed(g.call("aten.index.Tensor", v, [g.sizes([1])])) == [s]
    assert listed(g.call("aten.scatter.src", v, 0, g.sizes([1]), g.sizes([7]))) == [b, 7, 64]
    assert listed(g.pad(v, [1], [-1], 5)) == [5, b, s]
    assert listed(g.reshape(g.permute(g.reshape(v, [3, 1]), [1, 0]), [3])) == [b, s, 64]
    assert listed(g.expand(g.select(v, 0, 0), [2])) == [b, b]


def test_a_result_has_the_dtype_of_its_data(g, sizes):
    narrow = g.sizes(sizes, torch.int32)
    assert g.call("aten.index_select.default", narrow, 0, g.sizes([1])).dtype is torch.int32


def test_comparisons_that_hold_for_every_size(g, sizes):
    b, _ = sizes
    size = g.size_value(b)
    for name, number, expected in [
        ("eq", -1, False),
        ("ne", -1, True),
        ("ge", 0, True),
        ("lt", 0, False),
        ("gt", -1, True),
        ("le", -1, False),
    ]:
        assert g.binary(name, size, number).known() is expected, name
    assert g.binary("eq", size, 1).tensor is None
    assert listed(g.where(g.binary("eq", g.sizes([b, -1]), -1), g.sizes([1, 1]), g.sizes([b, -1]))) == [b, 1]


def test_truth_values_as_numbers(g, sizes):
    b, _ = sizes
    is_one = g.binary("eq", g.size_value(b), 1)
    (number,) = listed(g.cast(is_one, torch.int64))
    assert [int(number.subs(b, size)) for size in (0, 1, 2)] == [0, 1, 0]
    (empty,) = listed(g.unary("logical_not", g.size_value(b)))
    assert [bool(empty.subs(b, size)) for size in (0, 1, 2)] == [True, False, False]


def test_sizes_computed_in_floats(g, sizes):
    b, s = sizes
    v = g.cast(g.sizes([b, s]), torch.float32)
    assert listed(g.cast(g.mul(v, 2.0), torch.int64)) == [2 * b, 2 * s]
    assert listed(g.cast(g.unary("floor", g.mul(v, 0.5)), torch.int64)) == [D.floor_div(b, 2), D.floor_div(s, 2)]
    assert listed(g.cast(g.unary("ceil", g.div(v, 4.0)), torch.int64)) == [D.ceil_div(b, 4), D.ceil_div(s, 4)]
    assert listed(g.cast(g.mul(v, 1.5), torch.int64))[0] == D.floor_div(3 * b, 2)


def test_what_floats_do_not_do_exactly_is_left_to_run_time(g, sizes):
    v = g.cast(g.sizes(sizes), torch.float32)
    assert g.mul(v, 0.3).contents is None
    assert g.div(v, 3.0).contents is None
    assert g.cast(g.sizes(sizes), torch.float16).contents is None
    assert g.where(g.binary("eq", g.sizes(sizes), 1), g.cast(v, torch.float32), float("-inf")).contents is None


def test_fractions_as_values(g, sizes):
    half = g.mul(g.cast(g.sizes(sizes), torch.float32), 0.5)
    program = finish(g, [half])
    assert program.module(check_guards=False)(torch.zeros(3, 8, 64))[0].tolist() == [1.5, 4.0]


def test_numbers_are_computed_by_torch(g):
    v = g.known(torch.tensor([1.5, 2.5]))
    assert g.unary("round", v).known() == [2.0, 2.0]
    assert g.cast(v, torch.int32).known() == [1, 2]


# --- signed numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 4, 5, 16, 40])
def test_weights_of_bytes_stay_bytes(columns):
    """Sums of products of bytes have code of their own; a few numbers are computed all the same."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (uint8[n, 16] a) => (int32[n, {columns}] c) {{ c = MatMulInteger(a, w) }}'
    )
    weight = np.arange(-8 * columns, 8 * columns).reshape(16, columns).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    program = convert(read(model))
    (stored,) = (value for value in program.exported.state_dict.values() if value.numel() == weight.size)
    assert stored.dtype == (torch.int8 if weight.size > 64 else torch.int32)
    a = np.random.default_rng(0).integers(0, 255, (3, 16)).astype(np.uint8)
    np.testing.assert_array_equal(program.compile().run({"a": a})[0], a.astype(np.int32) @ weight.astype(np.int32))


def test_signed_symbols_are_not_sizes():
    table = DimTable()
    size, number = table.new_symbol("n"), table.new_symbol("start", signed=True)
    assert D.is_nonnegative(size)
    assert not D.is_nonnegative(number)
    assert D.is_nonnegative(D.maximum(number, 0))
    assert D.has_signed(size + number)
    assert not D.has_signed(size)
    assert D.known_equal(number, -1) is None
    assert D.known_equal(size, -1) is False


def test_a_signed_number_becomes_a_size(g):
    x = g.input("x", torch.int64, [])
    number = g.item(x, signed=True)
    size = g.as_size(number)
    assert D.is_nonnegative(size)
    assert g.as_size(number) == size
    program = finish(g, [g.full([number], 1.0, torch.float32)]).module(check_guards=False)
    assert program(torch.tensor(3))[0].tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="negative"):
        program(torch.tensor(-1))


def test_quotients_divide_out():
    b, s = sympy.symbols("u0 u1", integer=True)
    quotient = D.floor_div(b * s, D.maximum(b, 1))
    assert D.exact_div(32 * b * quotient, 8 * b * quotient) == 4
    assert D.exact_div(64 * b * s, 64 * b) == s
    assert D.exact_div(b * s, 2) is None
    assert D.is_nonnegative(D.floor_div(b, s))


def test_asserted_sizes_stand_for_each_other(g):
    x = g.input("x", torch.float32, ["A", "B"])
    a, b = x.shape
    clipped = D.minimum(512, b)
    g.require_equal(clipped, b, "positions")
    assert g.simplify(clipped + a) == a + b


# --- whole chains -------------------------------------------------------------------------------------------------

CHAIN = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[B, S, 64] x) => (float[P, Q] y)
<int64 zero = {0}, int64 one = {1}, int64[1] last = {-1}, int64[1] axes = {0}, int64 heads = {4}>
{
    shape = Shape (x)
    b = Gather (shape, zero)
    s = Gather (shape, one)
    rows = Mul (b, s)
    row = Unsqueeze (rows, axes)
    flat = Concat <axis = 0> (row, last)
    matrix = Reshape (x, flat)
    half = Div (s, heads)
    ones = ConstantOfShape (row)
    column = Unsqueeze (ones, last)
    y = Add (matrix, column)
}
"""


def run(converted: CoreProgram, *arrays: np.ndarray) -> list[np.ndarray]:
    return eager(converted, arrays)


def test_shape_chain_leaves_no_data_dependent_size():
    converted = convert(read(parser.parse_model(CHAIN)))
    names = [str(node.target) for node in converted.exported.graph.nodes]
    assert not [name for name in names if "local_scalar" in name or "assert" in name]
    rows, columns = converted.outputs[0].shape
    assert columns == 64
    assert isinstance(rows, sympy.Mul)
    for batch, sequence in ((1, 1), (2, 7), (3, 0)):
        x = np.random.default_rng(0).standard_normal((batch, sequence, 64), np.float32)
        assert np.array_equal(run(converted, x)[0], x.reshape(-1, 64))


def test_upsampling_computes_its_sizes_in_floats():
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[B, C, H] x) => (float[B, C, K] y)
    <int64[1] two = {2}, int64[1] three = {3}, float[1] scale = {1.5}, int64[1] zero = {0}>
    {
        shape = Shape (x)
        h = Slice (shape, two, three)
        f = Cast <to = 1> (h)
        m = Mul (f, scale)
        k = Floor (m)
        n = Cast <to = 7> (k)
        bc = Slice (shape, zero, two)
        ones = Concat <axis = 0> (bc, n)
        y = ConstantOfShape (ones)
    }
    """
    converted = convert(read(parser.parse_model(text)))
    assert "local_scalar" not in str(converted.exported.graph)
    for height in (1, 4, 5):
        assert run(converted, np.zeros((2, 3, height), np.float32))[0].shape == (2, 3, height * 3 // 2)


def test_a_large_weight_is_not_read_to_look_at_its_shape():
    weight = numpy_helper.from_array(np.zeros((1000, 8), np.float32), "w")
    nodes = [helper.make_node("Shape", ["w"], ["s"]), helper.make_node("ConstantOfShape", ["s"], ["z"])]
    nodes.append(helper.make_node("Add", ["z", "x"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    converted = convert(read(helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)))
    assert not converted.exported.state_dict
