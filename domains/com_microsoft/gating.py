"""Gates: what lets a part of a tensor through, and the normalizations by root mean square that are fused with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.activation import in_float32
from onnx2torch_mlir.families.normalization import by_root_mean_square


def scaled_silu(g: ProgramBuilder, x: Value, scale: Value | None = None, *, alpha: float = 1.0) -> Value:
    """z * sigmoid(z) with z the product of ``x`` and ``scale`` (or ``alpha``), each step rounded to the type of ``x``.

    Source: com.microsoft ScaledSiLU.
    """
    factor = alpha if scale is None else g.cast(g.reshape(scale, []), torch.float32)
    scaled = g.cast(g.mul(g.cast(x, torch.float32), factor), x.dtype)
    through = in_float32(g, lambda v: g.unary("sigmoid", v), scaled)
    return _product(g, scaled, through)


def gated_add(g: ProgramBuilder, x: Value, y: Value, gate: Value) -> Value:
    """``x`` + ``y`` * ``gate`` [..., 1], the product rounded before it is added.

    Source: com.microsoft GatedAdd.
    """
    g.require_equal(gate.shape[-1] if gate.rank else 1, 1, "the last size of a gate")
    product = _product(g, y, g.reshape(gate, [*gate.shape[:-1], 1]))
    return g.cast(g.add(g.cast(x, torch.float32), g.cast(product, torch.float32)), x.dtype)


def _product(g: ProgramBuilder, a: Value, b: Value) -> Value:
    return g.cast(g.mul(g.cast(a, torch.float32), g.cast(b, torch.float32)), a.dtype)


def gated_rms_norm(
    g: ProgramBuilder, x: Value, scale: Value, gate: Value, *, activation: str = "silu", epsilon: float = 1e-5
) -> Value:
    """Groups of as many elements of the last axis as ``scale`` has, by their root mean square; times scale and gate.

    Everything is computed in float32. Source: com.microsoft GatedRMSNorm.

    Raises:
        Refusal: O2M-C005 for an unknown activation, O2M-C006 where the groups do not divide the axis.
    """
    if activation not in ("silu", "swish", "sigmoid"):
        raise refuse("O2M-C005", f"there is no gate {activation!r}", case=f"activation={activation}")
    size = scale.shape[0] if scale.rank == 1 else None
    if size is None or x.rank < 1:
        raise refuse("O2M-C006", f"a scale of rank {scale.rank} for rank {x.rank}", case="scale")
    data, factor, opening = (g.cast(item, torch.float32) for item in (x, scale, gate))
    grouped = g.reshape(data, [*x.shape[:-1], _groups(g, x.shape[-1], size), size])
    normal, _ = by_root_mean_square(g, grouped, [grouped.rank - 1], epsilon)
    through = g.unary("sigmoid", opening)
    through = through if activation == "sigmoid" else g.mul(opening, through)
    return g.cast(g.mul(g.reshape(g.mul(normal, factor), x.shape), through), x.dtype)


def _groups(g: ProgramBuilder, whole: Dim, size: Dim) -> Dim:
    count = D.floor_div(whole, size)
    g.require_equal(D.product([count, size]), whole, "an axis and the groups it divides into")
    return count


def branchwise_rms_norm(
    g: ProgramBuilder, x: Value, scale: Value | None = None, *, epsilon: float = 1e-5, num_branches: int = 0
) -> Value:
    """Each branch of ``x`` [..., C, H], or with ``num_branches`` C of [..., C * H], by its root mean square.

    ``scale`` is [C * H], [C, H] or [H]. Source: com.microsoft BranchwiseRMSNorm.
    """
    grouped = branches(g, g.cast(x, torch.float32), num_branches)
    normal, _ = by_root_mean_square(g, grouped, [grouped.rank - 1], epsilon)
    if scale is not None:
        normal = g.mul(normal, _of_branches(g, g.cast(scale, torch.float32), grouped.shape[-2:]))
    return g.cast(g.reshape(normal, x.shape), x.dtype)


def _of_branches(g: ProgramBuilder, scale: Value, sizes: Sequence[Dim]) -> Value:
    """A scale [C * H], [C, H] or [H] as one that broadcasts to [C, H]."""
    whole = D.product(sizes)
    if scale.rank != 1 or D.known_equal(scale.shape[0], sizes[1]):
        return scale
    if not D.known_equal(scale.shape[0], whole):
        places = g.binary("remainder", g.arange(0, whole), g.size_value(scale.shape[0]))
        scale = g.call("aten.index_select.default", scale, 0, places)
    return g.reshape(scale, sizes)


def branches(g: ProgramBuilder, x: Value, count: int) -> Value:
    """``x`` as [..., C, H]: as it is, or with ``count`` the C branches of its last axis.

    Raises:
        Refusal: O2M-C006 where there are no such axes.
    """
    if count <= 0:
        if x.rank < 2:
            raise refuse("O2M-C006", f"branches of a value of rank {x.rank}", case="rank")
        return x
    size = D.floor_div(x.shape[-1], count)
    g.require_equal(D.product([count, size]), x.shape[-1], "an axis and the branches it divides into")
    return g.reshape(x, [*x.shape[:-1], count, size])


def engram_gate(
    g: ProgramBuilder,
    key: Value,
    query: Value,
    value: Value,
    key_norm_scale: Value,
    query_norm_scale: Value,
    conv_norm_scale: Value | None = None,
    *,
    epsilon: float = 1e-5,
    wanted: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    """``value`` [B, S, H] through a gate for each of M connections: [B, S, M, H], and that by its root mean square.

    The gate is sigmoid(±√|d|) of the product d of ``key`` and ``query`` [B, S, M, H], both normalized, by √H; √|d| is at
    least 0.001. Source: com.microsoft EngramGate.

    Raises:
        Refusal: O2M-C005 where the second output lacks its scale.
    """
    if key.rank != 4 or value.rank != 3:
        raise refuse("O2M-C006", f"a key of rank {key.rank}, a value of rank {value.rank}", case="rank")
    left, right = (
        g.mul(by_root_mean_square(g, g.cast(item, torch.float32), [3], epsilon)[0], g.cast(scale, torch.float32))
        for item, scale in ((key, key_norm_scale), (query, query_norm_scale))
    )
    size = key.shape[3]
    total = g.sum(g.mul(left, right), [3], True)
    length = math.sqrt(size) if isinstance(size, int) else g.unary("sqrt", g.size_value(size, torch.float32))
    product = g.div(total, length)
    root = g.unary("sqrt", g.maximum(g.unary("abs", product), 1e-6))
    gate = g.unary("sigmoid", g.mul(g.unary("sign", product), root))
    gated = g.mul(gate, g.unsqueeze(g.cast(value, torch.float32), 2))
    result = g.cast(gated, key.dtype)
    if wanted[1:2] != (True,):
        return (result,)
    if conv_norm_scale is None:
        raise refuse("O2M-C005", "input conv_norm_scale is missing", case="conv_norm_scale")
    normal = g.mul(by_root_mean_square(g, gated, [3], epsilon)[0], g.cast(conv_norm_scale, torch.float32))
    return result, g.cast(normal, key.dtype)
