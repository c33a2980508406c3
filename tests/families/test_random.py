"""Random operators by their distribution: moments, distance of distribution functions, independence, repetition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert
from tests.one_node import Array, agrees, eager, native_run, node_model

COUNT = 20000
FLOATS = [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16]


def program(op: str, inputs: list[Any], **more: Any) -> CoreProgram:
    return converted(node_model(op, inputs, **({"opset": 22} | more)))


def converted(model: onnx.ModelProto) -> CoreProgram:
    result = convert(read(model))
    assert isinstance(result, CoreProgram)
    return result


def drawn(op: str, inputs: list[Any], *, opset: int = 22, native: bool = True, **more: Any) -> Array:
    """What one node draws, natively, after checking that eager PyTorch draws (almost) the same."""
    model = program(op, inputs, opset=opset, **more)
    feeds = [item for item in inputs if item is not None]
    (result,) = native_run(model, feeds)
    (other,) = eager(model, feeds)
    np.testing.assert_allclose(result.astype(np.float64), other.astype(np.float64), rtol=1e-2, atol=1e-3)
    return result


def assert_distributed(sample: Array, distribution: Any, steps: float = 0.0) -> None:
    """The largest distance of the distribution functions stays below what chance gives once in 10 000 times."""
    ordered = np.sort(sample.astype(np.float64).reshape(-1))
    expected = np.array([distribution(item) for item in ordered])
    ranks = np.arange(len(ordered)) / len(ordered)
    distance = max(np.max(np.abs(expected - ranks)), np.max(np.abs(expected - ranks - 1 / len(ordered))))
    assert distance < 2.23 / math.sqrt(len(ordered)) + steps


def bell(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def assert_independent(a: Array, b: Array) -> None:
    a, b = (item.astype(np.float64).reshape(-1) for item in (a, b))
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(len(a))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("opset", [1, 22])
def test_normal(dtype: int, opset: int) -> None:
    if opset == 1 and dtype == TensorProto.BFLOAT16:
        pytest.skip("bfloat16 came with opset 22")
    sample = drawn("RandomNormal", [], opset=opset, shape=[100, COUNT // 100], dtype=dtype, mean=2.0, scale=3.0)
    assert sample.shape == (100, COUNT // 100)
    standard = (sample.astype(np.float64) - 2) / 3
    assert abs(standard.mean()) < 4 / math.sqrt(COUNT) + 0.005
    assert abs(standard.std() - 1) < 0.03
    assert_distributed(standard, bell, steps=0.01 if dtype == TensorProto.BFLOAT16 else 0.002)
    assert_independent(standard[:, ::2], standard[:, 1::2])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("opset", [1, 22])
def test_uniform(dtype: int, opset: int) -> None:
    if opset == 1 and dtype == TensorProto.BFLOAT16:
        pytest.skip("bfloat16 came with opset 22")
    sample = drawn("RandomUniform", [], opset=opset, shape=[COUNT], dtype=dtype, low=-1.0, high=3.0)
    assert sample.min() >= -1 and sample.max() <= 3
    assert_distributed(sample, lambda x: (x + 1) / 4, steps=0.01 if dtype == TensorProto.BFLOAT16 else 0.002)
    assert_independent(sample[::2], sample[1::2])


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike"])
def test_like_takes_shape_and_type(op: str) -> None:
    data = np.zeros((3, 700), np.float64)
    same = drawn(op, [data], dynamic=True)
    assert same.shape == data.shape and same.dtype == np.float64 and len(np.unique(same)) == data.size
    other = drawn(op, [np.zeros((3, 5), np.int32)], dynamic=True, dtype=TensorProto.FLOAT16)
    assert other.dtype == np.float16
    assert drawn(op, [np.zeros((0, 5), np.float32)], dynamic=True).shape == (0, 5)
    assert drawn(op, [np.zeros((), np.float32)]).shape == ()
    with pytest.raises(Refusal, match="only floats"):
        program(op, [np.zeros(3, np.int32)])


@pytest.mark.parametrize("dtype", [None, TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("opset", [15, 22])
def test_bernoulli(dtype: int | None, opset: int) -> None:
    chances = np.repeat(np.array([0.0, 0.1, 0.5, 1.0], np.float32)[:, None], COUNT, 1)
    more: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    sample = drawn("Bernoulli", [chances], opset=opset, dynamic=True, **more)
    want = np.float32 if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    assert sample.dtype == want
    rates = sample.astype(np.float64).mean(1)
    assert rates[0] == 0 and rates[3] == 1
    np.testing.assert_allclose(rates[1:3], [0.1, 0.5], atol=4 * 0.5 / math.sqrt(COUNT))


@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("opset", [7, 22])
def test_multinomial(dtype: int, kind: Any, opset: int) -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 1.0]])
    with np.errstate(divide="ignore"):
        logs = np.log(weights).astype(kind)
    sample = drawn("Multinomial", [logs], opset=opset, dynamic=True, sample_size=COUNT, dtype=dtype)
    assert sample.shape == (2, COUNT) and sample.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    rates = np.stack([np.bincount(row, minlength=4) for row in sample]) / COUNT
    np.testing.assert_allclose(rates, weights / weights.sum(1, keepdims=True), atol=2 / math.sqrt(COUNT))
    assert rates[1, 0] == rates[1, 2] == 0


def seeded(seed: float | None) -> dict[str, Any]:
    return {} if seed is None else {"seed": seed}


def several(*seeds: float | None, opset: int = 22) -> list[Array]:
    """What several RandomUniform nodes of one model draw."""
    nodes = [
        helper.make_node("RandomUniform", [], [f"y{i}"], shape=[5000], **seeded(seed))
        for i, seed in enumerate(seeds)
    ]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [5000]) for i in range(len(seeds))]
    graph = helper.make_graph(nodes, "several", [], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return native_run(converted(model), [])


def test_nodes_draw_independently_and_programs_repeat() -> None:
    first, second = several(None, None)
    assert_independent(first, second)
    for before, after in zip([first, second], several(None, None), strict=True):
        np.testing.assert_array_equal(before, after)


def test_seeds_decide() -> None:
    a, b, c = several(1.0, 1.0, 2.0)
    np.testing.assert_array_equal(a, b)
    assert_independent(a, c)


@pytest.mark.parametrize("known", [True, False])
def test_each_trip_of_a_loop_draws_anew(known: bool) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("RandomUniform", [], ["y"], shape=[2000], seed=3.0),
        ],
        "body",
        [helper.make_tensor_value_info("trip", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("y", TensorProto.FLOAT, [2000])],
    )  # fmt: skip
    count = helper.make_tensor("count", TensorProto.INT64, [], [3])
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Loop", ["count", ""], ["ys"], body=body)],
            "trips",
            [] if known else [helper.make_tensor_value_info("count", TensorProto.INT64, [])],
            [helper.make_tensor_value_info("ys", TensorProto.FLOAT, [None, 2000])],
            [count] if known else [],
        ),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    (rows,) = native_run(converted(model), [] if known else [np.array(3, np.int64)])
    assert rows.shape == (3, 2000)
    for i in range(3):
        for j in range(i):
            assert_independent(rows[i], rows[j])


@pytest.mark.parametrize("opset", [8, 9])
def test_each_step_of_a_scan_and_each_element_of_its_batch_draws_anew(opset: int) -> None:
    def declared(name: str, *shape: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    draw = helper.make_node("RandomUniformLike", ["x"], ["y"], seed=3.0)
    body = helper.make_graph([draw], "body", [declared("x", 2000)], [declared("y", 2000)])
    scan = helper.make_node("Scan", ["", "xs"] if opset == 8 else ["xs"], ["ys"], body=body, num_scan_inputs=1)
    lead = ["batch", "steps"] if opset == 8 else ["steps"]
    graph = helper.make_graph([scan], "scan", [declared("xs", *lead, 2000)], [declared("ys", *lead, 2000)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    zeros = np.zeros((2, 3, 2000) if opset == 8 else (3, 2000), np.float32)
    (drawn,) = native_run(converted(model), [zeros])
    rows = drawn.reshape(-1, 2000)
    for i in range(len(rows)):
        for j in range(i):
            assert_independent(rows[i], rows[j])


def dropped(opset: int, inputs: list[Any], **more: Any) -> tuple[Array, Array]:
    model = program("Dropout", inputs, opset=opset, outputs=2, **more)
    known = more.get("known", ())
    output, mask = native_run(model, [item for i, item in enumerate(inputs) if item is not None and i not in known])
    return output, mask


@pytest.mark.parametrize("opset", [12, 13, 22])
@pytest.mark.parametrize("known", [(), (1,), (2,), (1, 2)])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_dropout_in_training(opset: int, known: tuple[int, ...], kind: Any) -> None:
    data = np.linspace(1, 2, COUNT).reshape(100, -1).astype(kind)
    for ratio in (0.25, 0.0):
        inputs = [data, np.array(ratio, np.float32), np.array(True)]
        output, mask = dropped(opset, inputs, known=known, dynamic=True, seed=5)
        assert mask.dtype == np.bool_ and output.dtype == kind
        assert abs(mask.mean() - (1 - ratio)) < 4 * 0.5 / math.sqrt(COUNT)
        np.testing.assert_allclose(output, np.where(mask, data / (1 - ratio), 0).astype(kind), rtol=2e-3)
    inputs[1:] = [np.array(0.25, np.float32), np.array(False)]
    output, mask = dropped(opset, inputs, known=known, dynamic=True)
    np.testing.assert_array_equal(output, data)
    assert mask.all()


def test_the_ratio_is_a_half_unless_given() -> None:
    output, mask = dropped(13, [np.ones((50, 100), np.float32), None, np.array(True)])
    assert abs(mask.mean() - 0.5) < 0.03
    np.testing.assert_array_equal(output, mask * np.float32(2))


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_of_old_trains_unless_it_tests(opset: int) -> None:
    data = np.ones((50, 100), np.float32)
    output, mask = dropped(opset, [data], ratio=0.75)
    assert mask.dtype == np.float32 and abs(mask.mean() - 0.25) < 0.03
    np.testing.assert_array_equal(output, mask * np.float32(4))
    agrees("Dropout", [data], opset=opset, expected=[data], is_test=1, ratio=0.75)
