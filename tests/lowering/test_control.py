"""Control flow and data-dependent sizes, from programs that torch.export makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, export

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.lowering import lower
from tests.lowering.execution import run, run_lowered


class Cond(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum(dim=(0, 1)) > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class While(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        start = torch.full((), 0, dtype=torch.int64)
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (start, x))


class Scan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def step(h: torch.Tensor, row: torch.Tensor) -> Any:
            following = torch.tanh(h + row)
            return following, following * 2

        return scan(step, torch.full((4,), 0.5), x)


class Nonzero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        places = (x > 0).nonzero()
        return places, x.view(-1)[places[:, 0] * x.shape[1] + places[:, 1]] * 2


class Item(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k] + 1, torch.arange(0, k, 1)


def exported(module: torch.nn.Module, args: tuple[torch.Tensor, ...], dynamic: bool) -> Any:
    shapes = ({0: Dim("rows")}, *[None] * (len(args) - 1)) if dynamic else None
    return export(module, args, dynamic_shapes=shapes, strict=False).run_decompositions({})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("module", [Cond, While, Scan, Nonzero])
def test_control_flow(module: type[torch.nn.Module], dynamic: bool) -> None:
    model = module()
    lowered = lower(exported(model, (torch.randn(3, 4),), dynamic))
    for rows in (3, 7, 2) if dynamic else (3,):
        for x in (torch.randn(rows, 4), torch.rand(rows, 4), -torch.rand(rows, 4)):
            want = model(x)
            want = list(want) if isinstance(want, (tuple, list)) else [want]
            for got, expected in zip(run_lowered(lowered, [x]), want, strict=True):
                torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_number_read_from_a_tensor(dynamic: bool) -> None:
    x = torch.randn(5, 4)
    lowered = lower(exported(Item(), (x, torch.tensor(2)), dynamic))
    for k in (2, 0, 5):
        for got, expected in zip(run_lowered(lowered, [x, torch.tensor(k)]), Item()(x, torch.tensor(k)), strict=True):
            torch.testing.assert_close(got, expected)
    for k in (-1, 6):
        with pytest.raises(Refusal) as caught:
            run_lowered(lowered, [x, torch.tensor(k)])
        assert caught.value.findings[0].code == "O2M-X001"


def test_a_training_step_has_no_special_case() -> None:
    class Step(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
            h = torch.ops.aten.mm(x, w) + b
            grad = (h > 0).to(x.dtype) * 2
            return w - 0.1 * torch.ops.aten.mm(x.permute(1, 0), grad), b - 0.1 * grad.sum(dim=(0,))

    args = (torch.randn(6, 3), torch.randn(3, 5), torch.randn(5))
    for got, want in zip(run(exported(Step(), args, False), args), Step()(*args), strict=True):
        torch.testing.assert_close(got, want)
