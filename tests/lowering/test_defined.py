"""What eager PyTorch leaves undefined or refuses has one defined result here, and never reads memory out of bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.lowering import lower
from tests.lowering.execution import run
from tests.lowering.programs import call, program

aten = torch.ops.aten


def of(target: Any, *tensors: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    exported = program(lambda graph, *nodes: call(graph, target, *nodes, **kwargs), tensors)
    return run(exported, tensors)[0]


SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_division_never_traps(dtype: torch.dtype) -> None:
    low = torch.iinfo(dtype).min
    x = torch.tensor([low, low, 7, -7, 7, -7, 0], dtype=dtype)
    y = torch.tensor([-1, 0, 0, 2, -2, -2, 0], dtype=dtype)
    assert of(aten.div.Tensor_mode, x, y, rounding_mode="trunc").tolist() == [low, 0, 0, -3, -3, 3, 0]
    assert of(aten.div.Tensor_mode, x, y, rounding_mode="floor").tolist() == [low, 0, 0, -4, -4, 3, 0]
    assert of(aten.fmod.Tensor, x, y).tolist() == [0, 0, 0, -1, 1, -1, 0]
    assert of(aten.remainder.Tensor, x, y).tolist() == [0, 0, 0, 1, -1, -1, 0]


@pytest.mark.parametrize("dtype", SIGNED)
def test_shifts_beyond_the_width(dtype: torch.dtype) -> None:
    bits = torch.iinfo(dtype).bits
    x = torch.tensor([-5, 5, -5, 5], dtype=dtype)
    count = torch.tensor([bits, bits, bits - 1, -1], dtype=dtype)
    assert of(aten.bitwise_right_shift.Tensor, x, count).tolist() == [-1, 0, -1, 0]
    assert of(aten.bitwise_left_shift.Tensor, x, count).tolist()[:2] == [0, 0]


def test_unsigned_64_bit_arithmetic_is_unsigned() -> None:
    x = np.array([2**63 + 5, 2**64 - 1, 3, 2**63], np.uint64)
    y = np.array([2, 2**63, 2**64 - 1, 2**63], np.uint64)
    p, q = (torch.from_numpy(v.view(np.int64).copy()).view(torch.uint64) for v in (x, y))

    def back(t: torch.Tensor) -> np.ndarray[Any, Any]:
        return t.view(torch.int64).numpy().view(np.uint64)

    np.testing.assert_array_equal(back(of(aten.div.Tensor_mode, p, q, rounding_mode="floor")), x // y)
    np.testing.assert_array_equal(back(of(aten.remainder.Tensor, p, q)), x % y)
    np.testing.assert_array_equal(back(of(aten.maximum.default, p, q)), np.maximum(x, y))
    np.testing.assert_array_equal(of(aten.lt.Tensor, p, q).numpy(), x < y)
    np.testing.assert_array_equal(of(aten._to_copy.default, p, dtype=torch.float64).numpy(), x.astype(np.float64))


def test_floats_that_no_integer_holds() -> None:
    x = torch.tensor([1e30, -1e30, float("nan"), float("inf"), -1.75, 300.0])
    limits = torch.iinfo(torch.int32)
    assert of(aten._to_copy.default, x, dtype=torch.int32).tolist() == [limits.max, limits.min, 0, limits.max, -1, 300]
    assert of(aten._to_copy.default, x, dtype=torch.uint8).tolist()[2:] == [0, 255, 255, 44]
    assert of(aten._to_copy.default, x, dtype=torch.int64).tolist()[1] == torch.iinfo(torch.int64).min


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_power(dtype: torch.dtype) -> None:
    x = torch.tensor([2, -1, -1, 1, 0, 3], dtype=dtype)
    y = torch.tensor([-1, -3, -2, -5, 0, 5], dtype=dtype)
    want = [0, -1, 1, 1, 1, 243 if dtype is not torch.int8 else 243 - 256]
    assert of(aten.pow.Tensor_Tensor, x, y).tolist() == want


def _selected(graph: torch.fx.Graph, x: torch.fx.Node, index: torch.fx.Node) -> torch.fx.Node:
    return call(graph, aten.index_select.default, x, 0, index)


def _indexed(graph: torch.fx.Graph, x: torch.fx.Node, index: torch.fx.Node) -> torch.fx.Node:
    return call(graph, aten.index.Tensor, x, [index])


def _read(read: Callable[[torch.fx.Graph, torch.fx.Node, torch.fx.Node], torch.fx.Node], index: list[int]) -> None:
    x = torch.randn(4, 3)
    exported = program(read, [x, torch.tensor(index)], ((4, 3), ("n",)))
    got = run(exported, [x, torch.tensor(index)])[0]
    torch.testing.assert_close(got, x[index])


def test_an_index_that_torch_refuses_is_refused() -> None:
    """Negative ones count from the end in index.Tensor alone."""
    _read(_selected, [0, 2, 3])
    _read(_indexed, [0, -1, -4, 3])
    for read, bad in ((_selected, -1), (_selected, 4), (_selected, 2**40), (_indexed, -5), (_indexed, 4)):
        with pytest.raises(Refusal) as caught:
            _read(read, [0, bad])
        assert caught.value.findings[0].code == "O2M-X001"


def test_every_primitive_without_a_rule_is_named_at_once() -> None:
    def build(graph: torch.fx.Graph, x: torch.fx.Node) -> torch.fx.Node:
        return call(graph, aten.frac.default, call(graph, aten.erfc.default, call(graph, aten.relu.default, x)))

    with pytest.raises(Refusal) as caught:
        lower(program(build, [torch.randn(3)]))
    assert {f.case for f in caught.value.findings} == {"aten.frac.default", "aten.erfc.default"}
    assert {f.code for f in caught.value.findings} == {"O2M-L001"}


def test_a_dtype_without_a_lowering_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        lower(program(lambda graph, x: call(graph, aten.neg.default, x), [torch.zeros(3, dtype=torch.complex32)]))
    assert caught.value.findings[0].code == "O2M-L002"


def test_a_size_that_nothing_binds_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        lower(_only_a_sum_of_symbols())
    assert caught.value.findings[0].code == "O2M-L002"


def _only_a_sum_of_symbols() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    exported = program(lambda graph, x: call(graph, aten.relu.default, x), [torch.randn(3)], (("n",),))
    env = ShapeEnv()
    size = env.create_unbacked_symint() + env.create_unbacked_symint()
    with FakeTensorMode(shape_env=env):
        fake = torch.empty(size)
    for node in exported.graph.nodes:
        if node.op != "output":
            node.meta["val"] = fake
    return exported
