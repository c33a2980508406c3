"""Orders of axes are put together while the program is built: those that cancel out leave nothing behind."""

from __future__ import annotations

import pytest
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.core.values import Value


@pytest.fixture
def g() -> ProgramBuilder:
    return ProgramBuilder()


@pytest.fixture
def x(g: ProgramBuilder) -> Value:
    return g.input("x", torch.float32, [2, "N", 4])


def held(g: ProgramBuilder, result: Value, want: torch.Tensor, x: torch.Tensor) -> list[str]:
    """The program's calls, once it gives ``want``."""
    program = finish(g, [result])
    torch.testing.assert_close(program.module(check_guards=False)(x)[0], want)
    return [node.target.__name__ for node in program.graph.nodes if node.op == "call_function"]


def test_orders_that_cancel_out(g, x):
    assert g.permute(g.permute(x, [2, 0, 1]), [1, 2, 0]) is x
    assert g.transpose(g.transpose(x, -1, 0), 0, 2) is x


def test_two_orders_are_one(g, x):
    array = torch.randn(2, 3, 4)
    result = g.permute(g.permute(x, [2, 0, 1]), [1, 0, 2])
    assert held(g, result, array.permute(0, 2, 1), array).count("permute.default") == 1


@pytest.mark.parametrize(("axis", "left"), [(0, 1), (1, 0), (-1, 0)])
def test_an_element_is_taken_before_the_order_changes(g, x, axis, left):
    array = torch.randn(2, 3, 4)
    result = g.transpose(g.select(g.permute(x, [2, 0, 1]), axis, 1), 0, 1)
    assert held(g, result, array.permute(2, 0, 1).select(axis, 1).T, array).count("permute.default") == left
