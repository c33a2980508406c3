"""Views and other programs whose arguments are symbolic sizes, as the core's builder makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.lowering import Lowered, lower
from tests.lowering.execution import run_lowered


def built(shape: Sequence[int | str], make: Callable[[ProgramBuilder, Value], Value]) -> Lowered:
    builder = ProgramBuilder()
    x = builder.input("x", torch.float32, shape)
    return lower(finish(builder, [make(builder, x)]))


VIEWS: dict[str, tuple[Any, Any, Any]] = {
    "merge": (("b", "s", 8), lambda g, x: g.reshape(x, [x.shape[0] * x.shape[1], 8]), lambda x: x.reshape(-1, 8)),
    "split": (("b", "s", 8), lambda g, x: g.reshape(x, [x.shape[0], x.shape[1], 2, 4]),
              lambda x: x.reshape(*x.shape[:2], 2, 4)),
    "regroup": (("b", "s", 8), lambda g, x: g.reshape(x, [x.shape[0] * 2, x.shape[1], 4]),
                lambda x: x.reshape(x.shape[0] * 2, x.shape[1], 4)),
    "flat": (("b", "s", 8), lambda g, x: g.reshape(x, [-1]), lambda x: x.reshape(-1)),
    "ones": (("b", "s", 8), lambda g, x: g.reshape(x, [1, x.shape[0], 1, x.shape[1], 8, 1]),
             lambda x: x.reshape(1, x.shape[0], 1, x.shape[1], 8, 1)),
    "unequal": (("b", "s", 6), lambda g, x: g.reshape(x, [x.shape[1], 3, x.shape[0], 2]),
                lambda x: x.reshape(x.shape[1], 3, x.shape[0], 2)),
    "unsqueeze": (("b", "s", 8), lambda g, x: g.unsqueeze(x, 1), lambda x: x.unsqueeze(1)),
    "expand": (("b", 1, 8), lambda g, x: g.expand(x, [x.shape[0], x.shape[0], 8]),
               lambda x: x.expand(-1, x.shape[0], -1)),
    "slice": (("b", "s", 8), lambda g, x: g.slice(x, 2, 1, 7, 2),
              lambda x: x[:, :, 1:7:2]),
    "pad": (("b", "s", 8), lambda g, x: g.pad(x, [1, x.shape[0], -2], [0, 3, 1], 0.5),
            lambda x: torch.nn.functional.pad(x, (-2, 1, x.shape[0], 3, 1, 0), value=0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str) -> None:
    shape, make, want = VIEWS[name]
    lowered = built(shape, make)
    for b, s in ((2, 3), (1, 1), (0, 5), (7, 1), (3, 0)):
        x = torch.randn([{"b": b, "s": s}.get(d, d) for d in shape])
        (got,) = run_lowered(lowered, [x])
        torch.testing.assert_close(got, want(x))


def test_sizes_asserted_equal_are_checked_before_the_call() -> None:
    builder = ProgramBuilder()
    x, y = (builder.input(n, torch.float32, (d, 3)) for n, d in (("x", "n"), ("y", "m")))
    lowered = lower(finish(builder, [builder.add(x, y)]))
    assert len(lowered.checks) == 1
    x0 = torch.randn(4, 3)
    torch.testing.assert_close(run_lowered(lowered, [x0, x0])[0], x0 + x0)
    with pytest.raises(Refusal) as caught:
        run_lowered(lowered, [x0, torch.randn(1, 3)])
    assert caught.value.findings[0].code == "O2M-X001"


def test_a_view_to_a_fixed_size_is_checked() -> None:
    lowered = built(("n",), lambda g, x: g.call("aten.view.default", x, [4, 8]))
    x = torch.randn(32)
    torch.testing.assert_close(run_lowered(lowered, [x])[0], x.view(4, 8))
    with pytest.raises(Refusal):
        run_lowered(lowered, [torch.randn(31)])


def test_every_operation_carries_the_node_it_came_from() -> None:
    from torch_mlir import ir

    builder = ProgramBuilder()
    x = builder.input("x", torch.float32, ("n", 3))
    with builder.converting("layer/Relu_7"):
        y = builder.unary("relu", x)
    lowered = lower(finish(builder, [y]))
    with ir.Context():
        text = ir.Module.parse(lowered.bytecode).operation.get_asm(enable_debug_info=True)
    assert 'loc("layer/Relu_7")' in text
