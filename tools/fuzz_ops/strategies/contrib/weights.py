"""Operators of onnxruntime with packed weights: products, tables to gather from, and mixtures of experts."""

from __future__ import annotations

import numpy as np

from tools.fuzz_ops.case import Array
from tools.fuzz_ops.draw import Draw


def _bytes(d: Draw, *shape: int) -> Array:
    rng = np.random.default_rng(d.integer(0, 2**16))
    return rng.integers(0, 256, shape).astype(np.uint8)


def n_bits(d: Draw) -> None:
    """MatMulNBits: all bits and block sizes, zero points packed or floating, groups, a bias, accuracy levels."""
    bits, block = d.choose((4, 8, 2)), d.choose((32, 16, 64, 128, 256))
    k, n = d.integer(1, 300), d.integer(1, 9)
    blocks = -(-k // block)
    d.attributes |= {"K": k, "N": n, "bits": bits, "block_size": block}
    kind = d.dtype("T1", ("float", "float16"))
    if bits == 4 and d.flag():
        d.attributes.pop("bits")
    d.attribute("accuracy_level", 4, 3, 2, 1, 0)
    d.attribute("weight_prepacked", 1, 2, 0)
    d.give("A", d.array(kind, (*d.shape(0, 2, smallest=1), d.size(1, 5), k), -2, 2), known=False)
    d.give("B", _bytes(d, n, blocks, block * bits // 8), known=True)
    d.give("scales", d.array(kind, (n, blocks), 0.01, 0.1), known=True)
    groups = bits == 4 and d.one_in(4)
    # onnxruntime takes floating zero points of 2 and 4 bits alone.
    points = d.choose(("none", "packed", "float") if bits == 4 else ("none", "packed"))
    if points == "none":
        d.give("zero_points", None)
    elif points == "packed":
        d.give("zero_points", _bytes(d, n, -(-blocks * bits // 8)), known=True)
    else:
        d.give("zero_points", d.array(kind, (n, blocks), 0, 15), known=True)
    d.give("g_idx", d.indices("int32", (k,), blocks, negative=False) if groups else None, known=True)
    if d.flag():
        d.give("bias", d.array(kind, (n,), -2, 2), known=True)


def bnb4(d: Draw) -> None:
    """MatMulBnb4: FP4 and NF4."""
    block, k, n = d.choose((16, 32, 64, 128, 256)), d.integer(1, 90), d.integer(1, 9)
    d.attribute("training_mode", 1, 0)
    d.attributes |= {"K": k, "N": n, "block_size": block, "quant_type": d.choose((0, 1))}
    d.give("A", d.array("float", (*d.shape(0, 2, smallest=1), d.size(1, 5), k), -2, 2))
    d.give("B", _bytes(d, (n * k + 1) // 2), known=True)
    d.give("absmax", d.array("float", (-(-n * k // block),), 0.1, 2), known=True)


def gather(d: Draw) -> None:
    """GatherBlockQuantized: packed bytes, integers of 4 bits, float8; blocks of every size along every axis."""
    kind = d.dtype("T1")
    block, bits = d.attribute("block_size", 16, 32, 64, 256, 128) or 128, 4
    rank = 3 if kind == "uint8" else d.integer(2, 3)
    if kind == "uint8":
        bits = d.attribute("bits", 8, 2, 4) or 4
    # Packed bytes are gathered by rows, and packed along the last axis, which is then the one of the blocks.
    blocked, axis = (rank - 1, 0) if kind == "uint8" else (d.integer(0, rank - 1), d.integer(0, rank - 1))
    if axis == blocked:
        axis = (blocked + 1) % rank
    shape = [d.size(1, 5) for _ in range(rank)]
    shape[blocked] = block * d.integer(1, 2) if kind == "uint8" else block * d.integer(0, 1) + d.integer(1, block)
    for name, place, default in (("gather_axis", axis, 0), ("quantize_axis", blocked, 1)):
        if place != default or d.flag():
            d.attributes[name] = place - rank if d.flag() else place
    blocks = -(-shape[blocked] // block)
    stored = [*shape[:-1], shape[-1] * bits // 8] if kind == "uint8" else shape
    scales = [blocks if place == blocked else size for place, size in enumerate(shape)]
    d.give("data", _bytes(d, *stored) if kind == "uint8" else d.array(kind, stored), known=True)
    d.give("indices", d.indices(d.dtype("Tind"), d.shape(0, 2), shape[axis]))
    d.give("scales", d.array(d.dtype("T2", ("float", "float16")), scales, 0.02, 0.5), known=True)
    if not kind.startswith("float") and d.flag():
        packed = [*scales[:-1], -(-scales[-1] * bits // 8)]
        d.give("zero_points", _bytes(d, *packed) if kind == "uint8" else d.array(kind, scales), known=True)


def embedding(d: Draw) -> None:
    """QEmbedLayerNormalization: with and without segments and a mask."""
    kind, hidden = d.dtype("T2"), 8 * d.integer(1, 2)
    ids = (d.size(1, 3), d.size(1, 5))
    segments = d.flag()
    d.give("input_ids", d.indices("int32", ids, 9, negative=False))
    d.give("segment_ids", d.indices("int32", ids, 2, negative=False) if segments else None)
    names = ("word_embedding", "position_embedding", "segment_embedding", "gamma", "beta")
    sizes = ((9, hidden), (6, hidden), (2, hidden), (hidden,), (hidden,))
    for name, shape, full in zip(names, sizes, ("_quant", "_quant", "", "_quant", "_quant"), strict=True):
        left_out = name.startswith("segment") and not segments
        d.give(f"{name}{full}", None if left_out else d.array(kind, shape), known=True)
    d.give("mask", d.array("int32", ids, 0, 1) if d.flag() else None)
    for suffix, dtype, low, high in (("scale", "float", 0.02, 0.5), ("zero_point", kind, 0, 9)):
        for name in names:
            left_out = name.startswith("segment") and not segments
            d.give(f"{name}_{suffix}", None if left_out else d.array(dtype, (), low, high), known=True)
    d.attribute("epsilon", 1e-3)
    d.outputs = (True, True)


def experts(d: Draw) -> None:
    """MoE and QMoE: activations, numbers of experts, routing; weights by row or by block."""
    kind = d.attribute("activation_type", "gelu", "silu", "identity", "swiglu", "relu")
    count, hidden, inner = d.integer(1, 5), 32 * d.integer(1, 2), 16 * d.integer(1, 2)
    fused = 2 if kind == "swiglu" else 1
    if count == 1 or d.flag():
        d.attribute("k", 1)
    else:
        d.attributes["k"] = d.integer(1, count)
    d.attribute("normalize_routing_weights", 1)
    d.attribute("use_sparse_mixer", *((1, 0) if d.attributes.get("k") == 2 else (0,)))
    if fused == 2:
        d.attributes["swiglu_fusion"] = 1
        d.attribute("swiglu_limit", 0.7, 7.0)
    else:
        # With another number onnxruntime reads behind the results of other activations.
        d.attribute("swiglu_fusion", 0)
    d.attribute("activation_alpha", 1.702)
    d.attribute("activation_beta", 1.0)
    floating = d.dtype("T", ("float", "float16") if d.version.op == "QMoE" else ("float",))
    rows = d.shape(1, 2, smallest=1)
    d.give("input", d.array(floating, (*rows, hidden), -2, 2))
    d.give("router_probs", d.array(floating, (int(np.prod(rows)), count), -3, 3))
    shapes = {"fc1": (count, fused * inner, hidden), "fc2": (count, hidden, inner)}
    if d.version.op == "QMoE":
        _quantized_experts(d, shapes, floating)
        if d.flag():
            d.give("router_weights", d.array(floating, (int(np.prod(rows)), count), 0.1, 1))
        return
    for name, shape in shapes.items():
        d.give(f"{name}_experts_weights", d.array(floating, shape, -1, 1), known=True)
        d.give(f"{name}_experts_bias", d.array(floating, shape[:2], -1, 1) if d.flag() else None, known=True)


def _quantized_experts(d: Draw, shapes: dict[str, tuple[int, int, int]], floating: str) -> None:
    """The weights of experts by codes of few bits, with scales and zero points."""
    bits, block = d.attribute("expert_weight_bits", 8, 2, 4) or 4, d.choose((0, 16, 32, 64, 128))
    d.attribute("accuracy_level", 4, 0)
    d.attribute("weights_prepacked", 0, -1)
    if block or d.flag():
        d.attributes["block_size"] = block
    if d.one_in(4):
        d.attributes |= {f"{name}_expert_weight_bits": bits for name in ("fc1", "fc2", "fc3") if d.flag()}
    points = d.flag()
    for name, (count, rows, columns) in shapes.items():
        blocks = -(-columns // block) if block else 1
        d.give(f"{name}_experts_weights", _bytes(d, count, rows, columns * bits // 8), known=True)
        scales = (count, rows, blocks) if block else (count, rows)
        d.give(f"{name}_scales", d.array(floating, scales, 0.001, 0.02), known=True)
        d.give(f"{name}_experts_bias", d.array(floating, (count, rows), -1, 1) if d.flag() else None, known=True)
        packed = (count, rows, -(-blocks * bits // 8)) if block else (count, -(-rows * bits // 8))
        d.give(f"{name}_zero_points", _bytes(d, *packed) if points else None, known=True)


STRATEGIES = {
    "MatMulNBits": n_bits,
    "MatMulBnb4": bnb4,
    "GatherBlockQuantized": gather,
    "QEmbedLayerNormalization": embedding,
    "MoE": experts,
    "QMoE": experts,
}
