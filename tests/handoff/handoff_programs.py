"""Programs that the hand-off tests share."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish

AUTO = torch.export.Dim.AUTO


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def export(module, *inputs, dynamic=None):
    """``module`` (or a function) as an exported program of core ATen operations; ``dynamic`` lists dims per input."""
    if not isinstance(module, torch.nn.Module):
        module = Function(module)
        shapes = None if dynamic is None else (tuple(dict.fromkeys(dims, AUTO) for dims in dynamic),)
    else:
        shapes = None if dynamic is None else tuple(dict.fromkeys(dims, AUTO) for dims in dynamic)
    return torch.export.export(module.eval(), inputs, dynamic_shapes=shapes).run_decompositions()


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)
        self.register_buffer("mask", torch.arange(64).reshape(1, 1, 64) % 3 != 0)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.project(x.reshape(batch * length, 64)).reshape(batch, length, 4, 16).transpose(1, 2)
        mixed = torch.softmax(heads @ heads.transpose(-1, -2), -1) @ heads
        return torch.where(self.mask, self.norm(mixed.transpose(1, 2).reshape(batch, length, 64) + x), 0.0)


def built_attention():
    """The same idea from the project's own builder: unbacked symbols, ONNX names, assertions."""
    builder = ProgramBuilder()
    x = builder.input("x", torch.float32, ["B", "S", 64])
    y = builder.input("y", torch.float32, ["B", "T", 64])
    batch, length, _ = x.shape
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    w = builder.constant("w", torch.float32, [64, 64], lambda: weight)
    with builder.converting("project"):
        flat = builder.call("aten.mm.default", builder.call("aten.view.default", x, [batch * length, 64]), w)
    with builder.converting("heads"):
        heads = builder.call("aten.view.default", flat, [batch, length, 4, 16])
        heads = builder.call("aten.permute.default", heads, [0, 2, 1, 3])
        heads = builder.call("aten.view.default", heads, [batch * 4, length, 16])
    with builder.converting("attend"):
        scores = builder.call("aten.bmm.default", heads, builder.call("aten.permute.default", heads, [0, 2, 1]))
        mixed = builder.call("aten.bmm.default", builder.call("aten._softmax.default", scores, -1, False), heads)
        mixed = builder.call("aten.view.default", mixed, [batch, 4, length, 16])
        mixed = builder.call("aten.permute.default", mixed, [0, 2, 1, 3])
        mixed = builder.call("aten.view.default", mixed, [batch, length, 64])
    with builder.converting("add"):
        builder.require_equal(y.shape[1], length, "T and S")
        total = builder.call("aten.add.Tensor", mixed, y)
    return finish(builder, [total, builder.sizes([batch, length * 2])])
