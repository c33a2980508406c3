"""MoE and QMoE: each token goes through the networks of a few of many experts, whose results are weighted and summed.

One loop (``scan``) over the experts: the program has one expert's network whatever their number, weights are dequantized
one expert at a time, and an expert that no token is routed to is passed over.
Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.subprograms import cond, scan
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.blocked_weights import in_8_bits, unpacked
from onnx2torch_mlir.families import activation
from onnx2torch_mlir.families.quantization import dequantize

_ACTIVATIONS: dict[str, Callable[[ProgramBuilder, Value], Value]] = {
    "relu": lambda g, x: g.unary("relu", x),
    "gelu": lambda g, x: activation.gelu(g, x, approximate="tanh"),
    "silu": lambda g, x: activation.swish(g, x),
    "identity": lambda g, x: x,
}


@dataclass(frozen=True)
class Activation:
    """What comes between the two products of an expert; of the kind swiglu with its numbers."""

    kind: str
    fusion: int
    alpha: float
    beta: float
    limit: float | None

    def check(self) -> None:
        """Raise what cannot be done: onnxruntime's CPU kernels know of swiglu but the interleaved form.

        Raises:
            Refusal: O2M-C003.
        """
        if self.kind not in (*_ACTIVATIONS, "swiglu"):
            raise refuse("O2M-C005", f"there is no activation {self.kind!r}", case="activation_type")
        if self.kind == "swiglu" and self.fusion != 1:
            raise refuse(
                "O2M-C003", "gates that are not interleaved, as on a CPU they are", case=f"swiglu_fusion={self.fusion}"
            )

    def __call__(self, g: ProgramBuilder, x: Value) -> Value:
        """The activation of ``x`` [T, I], or of gates and numbers in turn [T, 2*I]."""
        if self.kind != "swiglu":
            return _ACTIVATIONS[self.kind](g, x)
        gate, linear = (g.slice(x, 1, start, x.shape[1], 2) for start in (0, 1))
        if self.limit is not None:
            gate = g.minimum(gate, self.limit)
            linear = g.call("aten.clamp.default", linear, -self.limit, self.limit)
        return g.mul(activation.swish(g, gate, alpha=self.alpha), g.add(linear, self.beta))


Expert = Callable[[ProgramBuilder, Value, list[Value]], Value]
"""``expert(g, tokens, weights)``: what one expert makes of all tokens [T, H] with its slices of the weights."""


def _largest(g: ProgramBuilder, scores: Value, k: int) -> tuple[Value, Value]:
    """The ``k`` largest of each row of ``scores`` and their places; of equal ones the later comes first."""
    last = g.size_value(scores.shape[1] - 1)
    backwards = g.call("aten.flip.default", scores, [1])
    values, places = g.call("aten.topk.default", backwards, k, 1, True, True)
    return values, g.sub(last, places)


def _mixed(
    g: ProgramBuilder, x: Value, places: Value, shares: Value, experts: int, weights: Sequence[Value | None], expert: Expert
) -> Value:
    """The results of the experts at ``places`` [T, k], each times its share, summed: of the shape and dtype of ``x``."""
    tokens = g.reshape(x, [D.product(x.shape[:-1]), x.shape[-1]])
    count = tokens.shape[0]
    g.require_equal(places.shape[0], count, "tokens and rows of router_probs")
    routes = g.call("aten.scatter.src", g.full([count, experts], 0, torch.float32), 1, places, shares)
    rows = g.cast(tokens, torch.float32)

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        total, share, *parts = values
        chosen = b.binary("ne", share, 0.0)

        def compute(inner: ProgramBuilder, _: list[Value]) -> list[Value]:
            column = inner.unsqueeze(share, 1)
            result = inner.mul(expert(inner, rows, parts), column)
            return [inner.add(total, inner.where(inner.unsqueeze(chosen, 1), result, 0.0))]

        return cond(b, b.call("aten.any.dims", chosen, [0], False), (compute, lambda inner, _: [total]))

    start = g.full([count, tokens.shape[1]], 0, torch.float32)
    sequences = [g.transpose(routes, 0, 1), *(item for item in weights if item is not None)]
    (total,), _ = scan(g, step, [start], sequences, experts)
    return g.reshape(g.cast(total, x.dtype), x.shape)


def _count(weights: Value) -> int:
    if not isinstance(weights.shape[0], int):
        raise refuse("O2M-C004", "the number of experts is only known at run time", case="fc1_experts_weights")
    return weights.shape[0]


def _no_third(*inputs: Value | None) -> None:
    if any(item is not None for item in inputs):
        raise refuse("O2M-C003", "a third product, which onnxruntime's CPU kernels do not have", case="fc3_experts_weights")


def moe(
    g: ProgramBuilder,
    x: Value,
    router_probs: Value,
    fc1: Value,
    fc1_bias: Value | None,
    fc2: Value,
    fc2_bias: Value | None = None,
    fc3: Value | None = None,
    fc3_bias: Value | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
) -> Value:
    """Tokens ``x`` [..., H] through the ``k`` likeliest experts by the softmax of ``router_probs`` [T, E].

    ``fc1`` is [E, I, H] (2*I for swiglu), ``fc2`` [E, H, I]. Shares are the probabilities, or sum up to 1.

    Raises:
        Refusal: O2M-C003 for what onnxruntime's CPU kernel does not know.
    """
    between = Activation(activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit)
    between.check()
    _no_third(fc3, fc3_bias)
    shares, places = _largest(g, g.softmax(g.cast(router_probs, torch.float32), 1), k)
    if normalize_routing_weights:
        shares = g.div(shares, g.sum(shares, [1], True))

    def expert(b: ProgramBuilder, tokens: Value, parts: list[Value]) -> Value:
        given = iter(parts)
        layers = [[next(given), next(given) if bias is not None else None] for bias in (fc1_bias, fc2_bias)]
        hidden = between(b, _affine(b, tokens, *layers[0]))
        return _affine(b, hidden, *layers[1])

    wide = [None if item is None else g.cast(item, torch.float32) for item in (fc1, fc1_bias, fc2, fc2_bias)]
    return _mixed(g, x, places, shares, _count(fc1), wide, expert)


def _affine(g: ProgramBuilder, x: Value, weights: Value | None, bias: Value | None) -> Value:
    assert weights is not None
    result = g.matmul(x, g.transpose(weights, 0, 1))
    return result if bias is None else g.add(result, g.cast(bias, torch.float32))


@dataclass(frozen=True)
class Packed:
    """The weights of one product of all experts: packed codes, scales, zero points and biases, each [E, ...]."""

    codes: Value
    scales: Value
    zero_points: Value | None
    bias: Value | None
    bits: int
    block_size: int
    in_8_bits: bool

    @property
    def operands(self) -> list[Value]:
        """What the loop goes through."""
        return [item for item in (self.codes, self.scales, self.zero_points, self.bias) if item is not None]

    def product(self, g: ProgramBuilder, x: Value, parts: Sequence[Value]) -> Value:
        """``x`` [T, K] times the transposed weights of one expert, plus its bias."""
        given = iter(parts)
        codes, scales = unpacked(g, next(given), self.bits), next(given)
        points = None if self.zero_points is None else unpacked(g, next(given), self.bits)
        axis = 1 if self.block_size else 0
        if points is None:
            points = g.full(scales.shape, 1 << (self.bits - 1), torch.uint8)
        points = g.slice(points, axis, 0, scales.shape[axis])
        weights = dequantize(g, codes, scales, points, axis=axis, block_size=self.block_size, dtype=torch.float32)
        if self.in_8_bits:
            x = in_8_bits(g, x, codes.shape[1], self.block_size)
        return _affine(g, x, weights, None if self.bias is None else next(given))


def quantized_moe(
    g: ProgramBuilder,
    x: Value,
    router_probs: Value,
    fc1: Value,
    fc1_scales: Value,
    fc1_bias: Value | None,
    fc2: Value,
    fc2_scales: Value,
    fc2_bias: Value | None = None,
    fc3: Value | None = None,
    fc3_scales: Value | None = None,
    fc3_bias: Value | None = None,
    fc1_zero_points: Value | None = None,
    fc2_zero_points: Value | None = None,
    fc3_zero_points: Value | None = None,
    router_weights: Value | None = None,
    *,
    accuracy_level: int = 0,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    block_size: int = 0,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int | None = None,
    fc2_expert_weight_bits: int | None = None,
    k: int = 1,
    normalize_routing_weights: int = 0,
    quant_type: str = "int",
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
) -> Value:
    """`moe` with weights of 2, 4 or 8 bits, packed along the last axis, with a scale for each row or each block of one.

    Shares are the softmax over the chosen ``router_probs``, or with ``router_weights`` these (made to sum up to 1).
    Where onnxruntime has packed constant weights of 8 bits in whole blocks, or of 4 at ``accuracy_level`` 4, it quantizes
    tokens to 8 bits by blocks: so here too.

    Raises:
        Refusal: O2M-C003 for what onnxruntime's CPU kernel does not know.
    """
    between = Activation(activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit)
    between.check()
    _no_third(fc3, fc3_scales, fc3_bias, fc3_zero_points)
    if quant_type != "int":
        raise refuse("O2M-C003", f"weights of type {quant_type}, of which onnxruntime has no CPU kernel", case="quant_type")
    shares, places = _largest(g, g.cast(router_probs, torch.float32), k)
    if router_weights is None:
        shares = g.softmax(shares, 1)
    else:
        shares = g.call("aten.gather.default", g.cast(router_weights, torch.float32), 1, places)
        if normalize_routing_weights:
            shares = g.div(shares, g.sum(shares, [1], True))
    layers = []
    for codes, scales, points, bias, bits in (
        (fc1, fc1_scales, fc1_zero_points, fc1_bias, fc1_expert_weight_bits),
        (fc2, fc2_scales, fc2_zero_points, fc2_bias, fc2_expert_weight_bits),
    ):
        bits = bits or expert_weight_bits
        size = codes.shape[2] if isinstance(codes.shape[2], int) else 0
        whole = codes.is_known and block_size > 0 and size * (8 // bits) % block_size == 0
        in_codes = whole and (bits == 8 or (bits == 4 and accuracy_level == 4))
        layers.append(Packed(codes, scales, points, bias, bits, max(block_size, 0), in_codes))
    first, second = layers

    def expert(b: ProgramBuilder, tokens: Value, parts: list[Value]) -> Value:
        hidden = between(b, first.product(b, tokens, parts))
        return second.product(b, hidden, parts[len(first.operands) :])

    return _mixed(g, x, places, shares, _count(fc1), [*first.operands, *second.operands], expert)
