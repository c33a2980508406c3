"""The closed list of core primitives: everything a core-torch program may call.

Each entry is an ATen overload, a symbolic-int function or a higher-order operator, grouped by the family of its lowering
rule. A converter may also use any ATen op that PyTorch decomposes into this list; the builder decomposes it on the spot.
"""

from __future__ import annotations

POINTWISE_UNARY = """
    abs neg ceil floor round trunc sign sqrt rsqrt reciprocal exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh erf sigmoid relu logical_not bitwise_not isnan isinf gelu
""".split()

POINTWISE_BINARY = """
    add.Tensor sub.Tensor mul.Tensor div.Tensor div.Tensor_mode fmod.Tensor remainder.Tensor pow.Tensor_Tensor
    maximum minimum atan2 eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor
    logical_and logical_or logical_xor bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor
    bitwise_left_shift.Tensor bitwise_right_shift.Tensor
    add.Scalar sub.Scalar mul.Scalar div.Scalar div.Scalar_mode fmod.Scalar remainder.Scalar pow.Tensor_Scalar pow.Scalar
    eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar
""".split()

POINTWISE_OTHER = "where.self clamp clamp.Tensor _to_copy clone view.dtype".split()

REDUCTION = """
    sum.dim_IntList mean.dim amax amin prod.dim_int any.dims all.dims argmax argmin var.correction
    _softmax _log_softmax native_layer_norm
""".split()

SCAN_SORT = "cumsum cumprod sort.stable topk".split()

CONTRACTION = "mm bmm convolution".split()

WINDOW = "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d".split()

MOVEMENT = """
    view permute expand unsqueeze squeeze.dims slice.Tensor select.int cat constant_pad_nd flip index_select gather index.Tensor
    scatter.src scatter_add scatter_reduce.two index_put
""".split()

CREATION = "full arange.start_step scalar_tensor".split()

DATA_DEPENDENT = "nonzero _local_scalar_dense".split()

QUANTIZATION = """
    quantize_per_tensor.default quantize_per_tensor.tensor dequantize_per_tensor.default dequantize_per_tensor.tensor
    quantize_per_channel.default dequantize_per_channel.default quantize_per_token.default dequantize_per_token.default
    quantize_per_channel_group.default dequantize_per_channel_group.default
""".split()
"""Of `torch.ops.quantized_decomposed`, with the meaning that PyTorch gives them: see `core.shapes.quantization`."""

SYMBOLIC = "sym_size.int _assert_scalar".split()


def _overload(name: str) -> str:
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


CARRYING: frozenset[str] = frozenset(
    _overload(name)
    for name in """
        view permute expand unsqueeze squeeze.dims slice.Tensor select.int cat constant_pad_nd flip index_select gather
        index.Tensor scatter.src index_put where.self clone
    """.split()
)
"""Primitives that carry elements without looking at them, whatever they stand for."""

PRIMITIVES: frozenset[str] = frozenset(
    _overload(name)
    for group in (
        POINTWISE_UNARY,
        POINTWISE_BINARY,
        POINTWISE_OTHER,
        REDUCTION,
        SCAN_SORT,
        CONTRACTION,
        WINDOW,
        MOVEMENT,
        CREATION,
        DATA_DEPENDENT,
        SYMBOLIC,
    )
    for name in group
) | {f"quantized_decomposed.{name}" for name in QUANTIZATION}
"""Names of the overloads, as ``aten.relu.default``."""

SYMBOLIC_INT_FUNCTIONS: frozenset[str] = frozenset(
    "add sub mul floordiv mod neg pow eq ne lt le gt ge and_ or_ not_ truediv trunc".split()
    + "sym_max sym_min sym_not sym_ite sym_float".split()
)
"""Python functions over symbolic ints that may stand in the graph: of `operator`, and of `torch` (``sym_*``)."""

HIGHER_ORDER: frozenset[str] = frozenset({"cond", "while_loop", "scan", "invoke_subgraph"})
"""torch's control-flow operators, and calls of named parts (`core.named`); their sub-programs use the same closed list."""
