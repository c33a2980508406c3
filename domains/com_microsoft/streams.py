"""HyperConnectionPreMix and HyperConnectionPostMix: streams mixed to one tensor, and one tensor mixed into streams."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.gating import branches


def pre_mix(
    g: ProgramBuilder, streams: Value, mix: Value, *, num_branches: int = 0, reduction_scale: float = 1.0
) -> Value:
    """``streams`` [..., C, H], or C of [..., C * H], weighed by ``mix`` and summed over C, times ``reduction_scale``.

    ``mix`` is [..., C], [..., C, 1], [..., C, H], or shaped as flattened streams are. Computed in float32.
    Source: com.microsoft HyperConnectionPreMix.
    """
    grouped = branches(g, g.cast(streams, torch.float32), num_branches)
    weights = _weights(g, grouped, g.cast(mix, torch.float32), num_branches)
    total = g.sum(g.mul(grouped, weights), [grouped.rank - 2])
    return g.cast(total if reduction_scale == 1.0 else g.mul(total, reduction_scale), streams.dtype)


def _weights(g: ProgramBuilder, grouped: Value, mix: Value, num_branches: int) -> Value:
    """``mix`` as [..., C, 1] or [..., C, H].

    Raises:
        Refusal: O2M-C006 where it has neither the rank of the streams nor one axis less.
    """
    if mix.rank == grouped.rank:
        return mix
    if mix.rank != grouped.rank - 1:
        raise refuse("O2M-C006", f"gates of rank {mix.rank} for streams of rank {grouped.rank}", case="mix")
    single = g.simplify(mix.shape[-1]) == g.simplify(grouped.shape[-2])
    return g.unsqueeze(mix, mix.rank) if single or num_branches <= 0 else branches(g, mix, num_branches)


def post_mix(
    g: ProgramBuilder,
    streams: Value,
    block_output: Value,
    mix: Value,
    stream_mix: Value | None = None,
    *,
    num_branches: int = 0,
) -> Value:
    """``streams`` [..., C, H] mixed by ``stream_mix`` [..., C, C], plus ``block_output`` [..., H] weighed by ``mix``.

    ``mix`` is [..., C], [..., C, 1] or [..., C, H]. Computed in float32. Source: com.microsoft HyperConnectionPostMix.
    """
    grouped = branches(g, g.cast(streams, torch.float32), num_branches)
    if stream_mix is not None:
        turned = g.transpose(g.cast(stream_mix, torch.float32), -2, -1)
        grouped = g.matmul(turned, grouped)
    weights = g.cast(mix, torch.float32)
    if weights.rank == grouped.rank - 1:
        weights = g.unsqueeze(weights, weights.rank)
    added = g.mul(weights, g.unsqueeze(g.cast(block_output, torch.float32), block_output.rank - 1))
    return g.cast(g.reshape(g.add(grouped, added), streams.shape), streams.dtype)
