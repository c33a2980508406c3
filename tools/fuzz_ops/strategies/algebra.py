"""Products of matrices, determinants, quantization and normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from tools.fuzz_ops.draw import Draw


def _factors(d: Draw) -> tuple[Sequence[int], Sequence[int]]:
    """The shapes of two operands of a product: vectors, matrices, and stacks that broadcast."""
    m, k, n = d.size(0, 17), d.size(0, 17), d.size(0, 17)
    batch = d.shape(0, 2)
    first = [*d.broadcastable(batch), m, k]
    second = [*d.broadcastable(batch), k, n]
    d.broadcasts = True
    if d.one_in(5):
        first = [k]
    if d.one_in(5):
        second = [k]
    return first, second


def matmul(d: Draw) -> None:
    """MatMul."""
    for name, shape in zip(("A", "B"), _factors(d), strict=True):
        d.tensor(name, shape, low=-4, high=4, known=name == "B" and d.flag())


def matmul_integer(d: Draw) -> None:
    """MatMulInteger: zero points absent, of the tensor, or of each row or column."""
    first, second = _factors(d)
    a, b = d.dtype("T1"), d.dtype("T2")
    d.give("A", d.array(a, first))
    d.give("B", d.array(b, second), known=d.flag())
    if d.flag():
        d.give("a_zero_point", d.array(a, (), 0, 9), static=True)
        if d.flag():
            d.give("b_zero_point", d.array(b, (), 0, 9), static=True)


def qlinear_matmul(d: Draw) -> None:
    """QLinearMatMul: scales of the tensors."""
    first, second = _factors(d)
    types = {name: d.dtype(f"T{index}", ("int8", "uint8")) for index, name in ((1, "a"), (2, "b"), (3, "y"))}
    scale = d.dtype("TS", ("float",)) if "TS" in d.version.type_constraints else "float"
    for name, shape in (("a", first), ("b", second), ("y", None)):
        if shape is not None:
            d.give(name, d.array(types[name], shape))
        d.give(f"{name}_scale", d.array(scale, (), 0.02, 0.9), known=d.flag(), static=True)
        d.give(f"{name}_zero_point", d.array(types[name], (), 0, 9), known=d.flag(), static=True)


def gemm(d: Draw) -> None:
    """Gemm: transposed operands, and a bias that broadcasts."""
    m, k, n = d.size(0, 17), d.size(1, 17), d.size(0, 17)
    d.broadcasts = True
    for name, shape in (("A", (m, k)), ("B", (k, n))):
        turned = d.attribute(f"trans{name}", 1, 0)
        d.tensor(name, shape[::-1] if turned else shape, low=-4, high=4, known=name == "B" and d.flag())
    d.attribute("alpha", 0.5, 2.0)
    d.attribute("beta", 0.5, 0.0)
    if d.version.since_version < 11 or d.flag():
        if d.has_attribute("broadcast"):
            d.attributes["broadcast"] = 1
        d.tensor("C", d.broadcastable((m, n)), low=-4, high=4)


def det(d: Draw) -> None:
    """Det: of stacks of square matrices."""
    size = d.integer(1, 5)
    d.tensor("X", (*d.shape(0, 2), size, size), low=-3, high=3)


_EQUATIONS = (
    ("ij,jk->ik", ("ij", "jk")),
    ("bij,bjk->bik", ("bij", "bjk")),
    ("i,i->", ("i", "i")),
    ("ii->i", ("ii",)),
    ("ii", ("ii",)),
    ("ij->ji", ("ij",)),
    ("ij->", ("ij",)),
    ("bhid,bhjd->bhij", ("bhid", "bhjd")),
    ("...ij,...jk->...ik", ("bij", "bjk")),
    ("i,j,k->ijk", ("i", "j", "k")),
    (" ij , jk ", ("ij", "jk")),
)


def einsum(d: Draw) -> None:
    """Einsum: products, diagonals, transposes, sums, ellipses."""
    equation, operands = d.choose(_EQUATIONS)
    sizes = {letter: d.size(0, 5) for letter in sorted(set("".join(operands)))}
    d.attributes["equation"] = equation
    for letters in operands:
        d.tensor("Inputs", [sizes[letter] for letter in letters], low=-4, high=4)


def quantize(d: Draw) -> None:
    """QuantizeLinear and DequantizeLinear: one scale, one for each slice of an axis, or one for each block."""
    since = d.version.since_version
    linear = d.version.op == "QuantizeLinear"
    shape = list(d.shape(1, 4, smallest=1))
    axis = d.axis(len(shape))
    ways = ["tensor"] + (["axis"] if since >= 13 else []) + (["block"] if since >= 21 else [])
    way = d.choose(ways)
    scale_shape: Sequence[int] = ()
    if way == "axis":
        d.attributes["axis"] = axis
        scale_shape = (shape[axis],)
    elif way == "block":
        block = d.integer(1, 4)
        scale_shape = [size if index != axis % len(shape) else d.integer(1, 3) for index, size in enumerate(shape)]
        shape[axis] = scale_shape[axis] * block
        d.attributes["axis"], d.attributes["block_size"] = axis, block
    wide = ("float", "float16", "bfloat16", "int32")
    if linear:
        target = d.formal("y_zero_point").type
        first = d.dtype(d.formal("x").type, wide)
        kind = d.dtype(target)
        d.give("x", d.array(first, shape, -20, 20))
        scale = d.dtype(d.formal("y_scale").type, wide)
        if since < 23:
            scale = first if d.formal("y_scale").type == d.formal("x").type else scale
    else:
        kind = d.dtype(d.formal("x").type)
        d.give("x", d.array(kind, shape))
        scale = d.dtype(d.formal("x_scale").type, wide[:3])
    prefix = "y" if linear else "x"
    low, high = (1, 3) if scale == "int32" else (0.05, 1.5)
    d.give(f"{prefix}_scale", d.array(scale, scale_shape, low, high), known=d.flag(), static=True)
    if d.flag():
        narrow = kind.startswith(("float8", "float4")) or kind == "int32"
        d.give(f"{prefix}_zero_point", d.array(kind, scale_shape, 0, 0 if narrow else 1), known=d.flag(), static=True)
    elif linear and kind != "uint8" and since >= 21:
        import onnx

        d.attributes["output_dtype"] = onnx.TensorProto.DataType.Value(kind.upper())
    d.attribute("saturate", 0, 1)


def dynamic_quantize(d: Draw) -> None:
    """DynamicQuantizeLinear."""
    d.tensor("x", d.shape(1, 4, smallest=1), low=-20, high=20)
    d.outputs = (True, True, True)


def batch_norm(d: Draw) -> None:
    """BatchNormalization at inference."""
    shape = (d.size(1, 3), d.size(1, 5), *d.shape(0, 3, smallest=1))
    d.attribute("epsilon", 1e-3)
    d.attribute("momentum", 0.8)
    if d.has_attribute("is_test"):
        d.attributes["is_test"] = 1
    d.tensor("X", shape)
    for formal in d.version.inputs[1:]:
        low, high = (0.2, 3) if "var" in formal.name else (-2, 2)
        d.tensor(formal.name, (shape[1],), low=low, high=high, known=d.flag())


def channel_norm(d: Draw) -> None:
    """InstanceNormalization and GroupNormalization: the scale and bias have one value for each channel (or group)."""
    group = d.integer(1, 3)
    grouped = d.version.op == "GroupNormalization"
    channels = group * d.integer(1, 3) if grouped else d.size(1, 5)
    if grouped:
        d.attributes["num_groups"] = group
        d.attribute("stash_type", 1)
    first = d.version.inputs[0].name
    d.attribute("epsilon", 1e-3)
    d.tensor(first, (d.size(1, 3), channels, *d.shape(1, 3, smallest=1)), low=-4, high=4)
    count = group if grouped and d.version.since_version < 21 else channels
    for formal in d.version.inputs[1:]:
        d.tensor(formal.name, (count,), low=-2, high=2, known=d.flag())


def layer_norm(d: Draw) -> None:
    """LayerNormalization and RMSNormalization: over the last axes."""
    shape = d.shape(1, 4, smallest=1)
    axis = d.axis(len(shape))
    d.attribute("axis", axis)
    d.attribute("epsilon", 1e-3)
    d.tensor("X", shape, low=-4, high=4)
    scaled = shape[d.attributes.get("axis", -1) :]
    first = d.version.inputs[1].name
    if "V" in d.version.type_constraints:
        # ONNX infers X's type for the result and declares the scale's: only one type for both says the same.
        d.types["V"] = d.types["T"]
    d.tensor(first, scaled, low=-2, high=2, known=d.flag())
    if d.has_input("B") and d.flag():
        d.tensor("B", scaled, low=-2, high=2, known=d.flag())
    if len(d.version.outputs) > 1 and d.flag():
        d.outputs = (True, d.flag(), True)


def lrn(d: Draw) -> None:
    """LRN: a window over the channels."""
    d.attributes["size"] = d.choose((1, 3, 5))
    d.attribute("alpha", 0.5, 0.001)
    d.attribute("beta", 0.5, 0.75)
    d.attribute("bias", 2.0)
    d.tensor("X", (d.size(1, 2), d.size(1, 7), d.size(1, 4), d.size(1, 4)))


def lp_norm(d: Draw) -> None:
    """LpNormalization: p of 1 and 2."""
    shape = d.shape(1, 4)
    d.attribute("axis", d.axis(len(shape)))
    d.attribute("p", 1, 2)
    d.tensor("input", shape, low=0.1, high=4)


def mean_variance(d: Draw) -> None:
    """MeanVarianceNormalization over some axes."""
    shape = d.shape(4, 4, smallest=1)
    d.attribute("axes", d.axes(4, empty=False))
    d.tensor("X", shape, low=-4, high=4)


STRATEGIES = {
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul,
    "Gemm": gemm,
    "Det": det,
    "Einsum": einsum,
    "QuantizeLinear": quantize,
    "DequantizeLinear": quantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": channel_norm,
    "GroupNormalization": channel_norm,
    "LayerNormalization": layer_norm,
    "RMSNormalization": layer_norm,
    "LRN": lrn,
    "LpNormalization": lp_norm,
    "MeanVarianceNormalization": mean_variance,
}
