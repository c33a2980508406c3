"""quantized_decomposed as PyTorch has it, and dq -> op -> q in integers: what is emitted, and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch.nn import functional
from torch_mlir import ir

from onnx2torch_mlir.core.primitives import QUANTIZATION
from onnx2torch_mlir.lowering import lower
from tests.lowering.execution import run_lowered

q = torch.ops.quantized_decomposed
I8, U8, I16, F32 = torch.int8, torch.uint8, torch.int16, torch.float32
GENERATOR = torch.Generator()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Numbers do not hang on which tests ran before."""
    GENERATOR.manual_seed(4)


def codes(*shape: int, dtype: torch.dtype = I8) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, generator=GENERATOR).to(dtype)


def uniform(*shape: int, low: float = 0.01, high: float = 0.1) -> torch.Tensor:
    return torch.rand(shape, generator=GENERATOR) * (high - low) + low


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def native(function: Callable[..., Any], *tensors: torch.Tensor) -> tuple[list[torch.Tensor], bytes]:
    """The results through Linalg, and the module."""
    lowered = lower(torch.export.export(Function(function), tensors, strict=False).run_decompositions())
    return run_lowered(lowered, tensors), lowered.bytecode


def test_as_pytorch() -> None:
    x = torch.randn(4, 6, generator=GENERATOR) * 3
    x[0, :4] = torch.tensor([float("inf"), -float("inf"), 0.25, -0.75])
    c, wide, group = codes(4, 6), codes(4, 6, dtype=I16), uniform(4, 3)
    one, zero, along, zeros = torch.tensor([0.03]), torch.tensor(5), uniform(6), codes(6).int()
    rows, tokens, offsets = uniform(4, 1), codes(4, 1).float(), codes(4, 3).int()

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, c, wide, group, one, zero, along, zeros, rows, tokens, offsets = given
        return (
            q.quantize_per_tensor.default(x, 0.03, 7, -100, 100, I8),
            q.quantize_per_tensor.default(x, 0.001, 0, -32768, 32767, I16),
            q.quantize_per_tensor.tensor(x, one, zero, 0, 255, U8),
            q.quantize_per_channel.default(x, along, zeros, 1, -128, 127, I8),
            q.quantize_per_token.default(x, rows, tokens, -128, 127, I8),
            q.quantize_per_channel_group.default(x, group, offsets, -128, 127, I8, 2),
            q.dequantize_per_tensor.default(c, 0.03, 7, -128, 127, I8),
            q.dequantize_per_tensor.default(wide, 0.03, -700, -32768, 32767, I16),
            q.dequantize_per_tensor.default(wide.int(), 0.03, 9, -(2**31), 2**31 - 1, torch.int32),
            q.dequantize_per_tensor.tensor(c, one, zero, -128, 127, I8),
            q.dequantize_per_channel.default(c, along, zeros, 1, -128, 127, I8),
            q.dequantize_per_channel.default(c, along[:4], None, 0, -128, 127, I8),
            q.dequantize_per_token.default(c, rows, tokens, -128, 127, I8, F32),
            q.dequantize_per_channel_group.default(c, group, offsets, -128, 127, I8, 2, F32),
            q.dequantize_per_channel_group.default(c, group, None, -128, 127, I8, 2, F32),
        )

    given = (x, c, wide, group, one, zero, along, zeros, rows, tokens, offsets)
    results, module = native(function, *given)
    for own, wanted in zip(results, function(*given), strict=True):
        torch.testing.assert_close(own, wanted, rtol=0, atol=0)
    assert len(QUANTIZATION) == 10 and module


def dq(x: torch.Tensor, scale: float, zero: int = 0) -> torch.Tensor:
    limits = torch.iinfo(x.dtype)
    return q.dequantize_per_tensor.default(x, scale, zero, limits.min, limits.max, x.dtype)


def dqc(x: torch.Tensor, scales: torch.Tensor, axis: int) -> torch.Tensor:
    return q.dequantize_per_channel.default(x, scales, None, axis, -128, 127, I8)


def quantized(x: torch.Tensor, scale: float, zero: int, dtype: torch.dtype = U8) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    return q.quantize_per_tensor.default(x / scale, 1.0, zero, limits.min, limits.max, dtype)


def contractions(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, b: torch.Tensor, k: torch.Tensor, ks: torch.Tensor) -> Any:
    """Products and sums of bytes, with everything that may stand between them and their quantization."""
    a, image = dq(x, 0.02, 120), dq(x.reshape(2, 3, 4, 6), 0.02, 120)
    filtered = functional.conv2d(image, dqc(k, ks, 0), None, 1, 1)
    return (
        quantized(a @ dq(w, 0.01), 0.3, 100),
        quantized(a @ dqc(w, s, 1) + dq(b, 0.0002), 0.3, 100),
        quantized(torch.relu(filtered), 0.2, 3),
        quantized(functional.conv2d(image, dqc(k, ks, 0), dq(b[:5], 0.001), 2), 0.2, 90),
        quantized(functional.conv_transpose2d(image, dq(k[:3], 0.02, 0), None, 2, 1), 0.2, 90),
        quantized(torch.bmm(a.reshape(2, 6, 12), a.reshape(2, 6, 12).transpose(1, 2)), 0.5, 90, I8),
        quantized(a + a, 0.05, 120),
        quantized(a * a, 0.05, 30),
        quantized(functional.avg_pool2d(image, 2, 2, 1, False, False), 0.02, 120),
        quantized(image.mean((2, 3)), 0.01, 120),
    )


def test_products_of_what_is_dequantized_are_integers() -> None:
    x, w, k = codes(12, 12, dtype=U8), codes(12, 7), codes(5, 3, 3, 3)
    given = (x, w, uniform(7), codes(7, dtype=I16).int(), k, uniform(5))
    results, module = native(contractions, *given)
    for own, wanted in zip(results, contractions(*given), strict=True):
        assert own.dtype is wanted.dtype
        difference = (own.int() - wanted.int()).abs()
        assert difference.max() <= 1 and (difference > 0).float().mean() < 0.1
    with ir.Context():
        assert not float_reductions(ir.Module.parse(module))


def moves(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Data movement between a dq and a q of the same scale."""
    a = dq(x, 0.02, 120)
    joined = torch.cat([functional.max_pool2d(a, 2), dq(y, 0.02, 120)], 1).permute(0, 2, 3, 1)
    return quantized(torch.relu(joined).reshape(2, 2, 20)[:, 1:].flip(2), 0.02, 120)


def test_data_movement_is_of_integers() -> None:
    given = (codes(2, 3, 4, 4, dtype=U8), codes(2, 7, 2, 2, dtype=U8))
    (own,), module = native(moves, *given)
    torch.testing.assert_close(own, moves(*given), rtol=0, atol=0)
    with ir.Context():
        assert "xf32>" not in str(ir.Module.parse(module))


def along_the_sum(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> Any:
    return quantized(dq(x, 0.02, 120) @ dqc(w, s, 0), 0.3, 100), dq(x, 0.02, 120) @ dq(w, 0.1)


def test_scales_along_the_sum_are_floats() -> None:
    given = (codes(4, 12, dtype=U8), codes(12, 7), uniform(12))
    (first, second), module = native(along_the_sum, *given)
    wanted = along_the_sum(*given)
    assert (first.int() - wanted[0].int()).abs().max() <= 1
    torch.testing.assert_close(second, wanted[1])
    with ir.Context():
        assert len(float_reductions(ir.Module.parse(module))) == 1


def float_reductions(module: ir.Module) -> list[str]:
    """The reductions of a module whose result is of floats."""
    (main,) = module.body.operations
    found = [op for op in main.regions[0].blocks[0].operations if op.operation.name == "linalg.generic"]
    reductions = [op for op in found if "reduction" in str(op.operation.attributes["iterator_types"])]
    assert reductions
    return [str(op) for op in reductions if "f32" in str(op.operation.results[0].type)]
