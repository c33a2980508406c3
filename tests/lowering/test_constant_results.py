"""What depends on weights alone is computed when a program is loaded: which nodes, their numbers, and what stays."""

import pytest
import torch
from torch.export import Dim, export

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.lowering import lower
from tests.lowering.execution import run_lowered


class Projected(torch.nn.Module):
    """A table, normed and projected: two sums of products, one of them with the input."""

    def __init__(self):
        super().__init__()
        self.table, self.keys = (torch.nn.Parameter(torch.randn(*shape)) for shape in ((7, 8), (8, 8)))

    def forward(self, x):
        normed = torch.nn.functional.layer_norm(self.table, (8,))
        return x @ (normed @ self.keys).T


class Standardized(torch.nn.Module):
    """Kernels of mean 0 and variance 1."""

    def __init__(self):
        super().__init__()
        self.kernels = torch.nn.Parameter(torch.randn(5, 3, 3, 3))

    def forward(self, x):
        mean = self.kernels.mean(dim=[1, 2, 3], keepdim=True)
        variance = ((self.kernels - mean) ** 2).mean(dim=[1, 2, 3], keepdim=True)
        return torch.nn.functional.conv2d(x, (self.kernels - mean) / torch.sqrt(variance + 1e-5))


class Largest(torch.nn.Module):
    """One of two results, and a function of it that has no weight."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(4, 9))

    def forward(self, x):
        return x + torch.topk(self.table, 3).values + torch.arange(3.0).cos()


class Grown(torch.nn.Module):
    """More numbers than the weights have, by far: all distances."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1200))

    def forward(self, x):
        return x + (self.table[:, None] - self.table[None, :]).exp()


class Scaled(torch.nn.Module):
    """No work: a product of single numbers."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return x @ (self.weight * 2.0).T


def program(module, *inputs, **options):
    return export(module.eval(), inputs, **options).run_decompositions()


def lowered(module, *inputs, **options):
    """The program, lowered, and the names of the operations that are left."""
    made = lower(program(module, *inputs, **options), fold_weights=True)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        return made, str(ir.Module.parse(made.bytecode))


@pytest.mark.parametrize(
    ("module", "shape", "results"),
    [(Projected, (5, 8), [(8, 7)]), (Standardized, (2, 3, 6, 6), [(5, 3, 3, 3)]), (Largest, (4, 3), [(4, 3)])],
)
def test_results_become_weights(module, shape, results):
    module, x = module(), torch.randn(*shape)
    own = len(list(module.parameters()))
    made, text = lowered(module, x)
    assert [tuple(weight.array().shape) for weight in made.weights[own:]][: len(results)] == results
    assert len({weight.name for weight in made.weights}) == len(made.weights)
    assert "math.sqrt" not in text and "math.rsqrt" not in text
    torch.testing.assert_close(run_lowered(made, [x])[0], module(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("module", "shape"), [(Grown, (1200, 1200)), (Scaled, (5, 8))])
def test_others_stay(module, shape):
    module = module()
    made, _ = lowered(module, torch.randn(*shape))
    assert len(made.weights) == len(list(module.parameters()))


def test_what_depends_on_open_dims_stays():
    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(16, 8))

        def forward(self, x):
            return x + self.table[: x.shape[0]].exp()

    module = Rows()
    made, _ = lowered(module, torch.randn(5, 8), dynamic_shapes={"x": {0: Dim("rows", max=16)}})
    assert len(made.weights) == 1
    torch.testing.assert_close(run_lowered(made, [torch.ones(3, 8)])[0], module(torch.ones(3, 8)).detach())


def test_nothing_is_computed_before_it_is_asked_for(monkeypatch):
    from onnx2torch_mlir.lowering.constant_results import ConstantResults

    asked = []
    value = ConstantResults.value
    monkeypatch.setattr(ConstantResults, "value", lambda *given: (asked.append(given[1]), value(*given))[1])
    made, _ = lowered(Projected(), torch.randn(5, 8))
    assert not asked
    run_lowered(made, [torch.randn(5, 8)])
    assert len(asked) == 1


def test_those_who_compile_further_get_all_operations():
    module = Projected()
    assert len(lower(program(module, torch.randn(5, 8))).weights) == len(list(module.parameters()))
