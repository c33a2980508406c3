"""Caches of keys and values in 8 or 4 bits, with one scale for all, or one for every channel of every head."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import exact_div, floor_div, to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


@dataclass(frozen=True)
class Code:
    """How a cache [B, heads, steps, H] holds its numbers: rounded quotients by ``scale``, in ``bits``.

    8 bits are int8; of 4 bits, counted from 8, two stand in an uint8, the first one in the low half.
    """

    scale: Value
    bits: int

    @staticmethod
    def of(g: ProgramBuilder, kind: str, scale: Value | None, bits: int, past: Value | None, heads: int) -> Code | None:
        """The code that the attributes name; None for a cache of floats.

        Raises:
            Refusal: O2M-C003 for what onnxruntime's CPU kernel refuses.
        """
        if kind == "NONE":
            return None
        types = {8: torch.int8, 4: torch.uint8}
        if kind not in ("PER_TENSOR", "PER_CHANNEL") or scale is None or past is None or types.get(bits) is not past.dtype:
            raise refuse("O2M-C003", f"a cache quantized as {kind} in {bits} bits", case=f"k_quant_type={kind}")
        if kind == "PER_TENSOR":
            return Code(g.reshape(scale, [1, 1, 1, 1]), bits)
        size = to_dim(past.shape[3] * (8 // bits))
        return Code(g.reshape(scale, [1, heads, 1, size]), bits)

    def encoded(self, g: ProgramBuilder, x: Value) -> Value:
        """``x`` as the cache holds it."""
        low, high = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        quotient = g.unary("round", g.div(g.cast(x, torch.float32), self.scale))
        number = g.minimum(g.maximum(quotient, float(low)), float(high))
        if self.bits == 8:
            return g.cast(number, torch.int8)
        half = exact_div(x.shape[3], 2)
        if half is None:
            half = floor_div(x.shape[3], 2)
            g.require_equal(to_dim(half * 2), x.shape[3], "a head of an even size")
        pairs = g.reshape(g.cast(g.sub(number, float(low)), torch.int32), [*x.shape[:3], half, 2])
        return g.cast(g.add(g.select(pairs, 4, 0), g.mul(g.select(pairs, 4, 1), 16)), torch.uint8)

    def decoded(self, g: ProgramBuilder, cache: Value) -> Value:
        """What the cache holds, in float32."""
        if self.bits == 8:
            return g.mul(g.cast(cache, torch.float32), self.scale)
        both = g.cast(cache, torch.int32)
        halves = [g.binary("bitwise_and", both, 15), g.floor_div(both, 16)]
        shape = [*cache.shape[:3], to_dim(cache.shape[3] * 2)]
        numbers = g.reshape(g.cat([g.unsqueeze(item, 4) for item in halves], 4), shape)
        return g.mul(g.cast(g.sub(numbers, 8), torch.float32), self.scale)
