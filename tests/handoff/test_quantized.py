"""quantized_decomposed handed on: as arithmetic of the torch dialect, and as itself in a .pt2 file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from onnx2torch_mlir import isolation
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.core.primitives import QUANTIZATION
from onnx2torch_mlir.handoff.pt2 import save_pt2
from onnx2torch_mlir.handoff.torch_dialect import to_torch

I8 = (-128, 127, torch.int8)


def program() -> torch.export.ExportedProgram:
    """Each primitive once or twice, with parameters that are numbers, constants and inputs."""
    g = ProgramBuilder()
    random = torch.Generator().manual_seed(0)

    def known(*shape: int, low: float = 0.02, high: float = 0.1, dtype: torch.dtype = torch.float32) -> object:
        return g.known((torch.rand(shape, generator=random) * (high - low) + low).to(dtype))

    x, c = g.input("x", torch.float32, [4, 6]), g.input("c", torch.int8, [4, 6])
    scale, zero = g.input("scale", torch.float32, [1]), g.input("zero", torch.int32, [1])
    along, zeros = known(6), known(6, low=-9, high=9, dtype=torch.int32)
    rows, tokens = known(4, 1), known(4, 1, low=-9, high=9, dtype=torch.int32)
    groups, offsets = known(4, 3), known(4, 3, low=-9, high=9, dtype=torch.int32)
    calls = {
        "quantize_per_tensor.default": (x, 0.03, 7, *I8),
        "quantize_per_tensor.tensor": (x, scale, zero, *I8),
        "quantize_per_channel.default": (x, along, zeros, 1, *I8),
        "quantize_per_token.default": (x, rows, tokens, *I8),
        "quantize_per_channel_group.default": (x, groups, offsets, *I8, 2),
        "dequantize_per_tensor.default": (c, 0.03, 7, *I8),
        "dequantize_per_tensor.tensor": (c, scale, zero, *I8),
        "dequantize_per_channel.default": (c, along, None, 1, *I8),
        "dequantize_per_token.default": (c, rows, tokens, *I8, torch.float32),
        "dequantize_per_channel_group.default": (c, groups, None, *I8, 2, torch.float32),
    }
    assert set(calls) == set(QUANTIZATION)
    return finish(g, [g.call(f"quantized_decomposed.{name}", *arguments) for name, arguments in calls.items()])


INPUTS = [
    (np.random.default_rng(0).standard_normal((4, 6)) * 3).astype(np.float32),
    np.random.default_rng(1).integers(-128, 128, (4, 6)).astype(np.int8),
    np.array([0.07], np.float32),
    np.array([5], np.int32),
]


def test_the_torch_dialect_computes_the_same(tmp_path: Path) -> None:
    exported = program()
    wanted = exported.module()(*map(torch.from_numpy, INPUTS))
    (results,) = isolation.call("tests.handoff.upstream_linalg:run", to_torch(exported).bytecode(), [INPUTS])
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want.numpy())
    save_pt2(exported, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2")
    for again, want in zip(loaded.module()(*map(torch.from_numpy, INPUTS)), wanted, strict=True):
        torch.testing.assert_close(again, want, rtol=0, atol=0)
