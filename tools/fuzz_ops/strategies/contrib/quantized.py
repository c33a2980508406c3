"""Quantized operators of onnxruntime: products, elements, windows and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies.windows import window


def _scale(d: Draw, name: str, shape: Sequence[int] = (), low: float = 0.02, high: float = 0.9) -> None:
    d.give(name, d.array("float", shape, low, high), known=d.flag(), static=True)


def _zero(d: Draw, name: str, dtype: str, shape: Sequence[int] = (), *, alike: bool = False) -> None:
    array = d.array(dtype, shape, 0, 9)
    d.give(name, np.full_like(array, array.flat[0]) if alike and array.size else array, known=d.flag(), static=True)


def _parameters(d: Draw, prefix: str, dtype: str) -> None:
    """A scale, and perhaps no zero point where it is optional, at the end, and onnxruntime's type inference bears it."""
    _scale(d, f"{prefix}_scale")
    name = f"{prefix}_zero_point"
    may_lack = d.version.inputs[-1].name == name and d.version.op not in ("QLinearLeakyRelu", "QLinearSigmoid")
    if may_lack and d.formal(name).kind == "optional" and d.one_in(3):
        d.give(name, None)
    else:
        _zero(d, name, dtype)


def _matrices(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    m, k, n = d.size(1, 17), d.size(1, 17), d.size(1, 17)
    return (*d.shape(0, 2, smallest=1), m, k), (k, n)


def matmul_to_float(d: Draw) -> None:
    """DynamicQuantizeMatMul, MatMulIntegerToFloat: parameters of B for the whole of it or by column."""
    first, second = _matrices(d)
    # Signed weights are small: sums of two products saturate at 16 bits in onnxruntime's AVX2 kernels.
    dynamic = d.version.op == "DynamicQuantizeMatMul"
    right = d.dtype("T2")
    left = "float" if dynamic else d.choose(("uint8", "int8") if right == "int8" else ("uint8",))
    by_column = second[1:] if d.flag() else ()
    d.give("A", d.array(left, first, -4, 4) if dynamic else d.array(left, first))
    d.give("B", d.array(right, second, -60, 60), known=d.flag(), static=bool(by_column))
    if not dynamic:
        _scale(d, "a_scale")
    _scale(d, "b_scale", by_column)
    if not dynamic and d.flag():
        _zero(d, "a_zero_point", left)
    if d.flag():
        _zero(d, "b_zero_point", right, by_column)
    if d.flag():
        d.give("bias", d.array("float", second[1:], -4, 4), static=True)


def matmul16(d: Draw) -> None:
    """MatMulInteger16: small enough for 32 bits."""
    for name, shape in zip(("A", "B"), _matrices(d), strict=True):
        d.give(name, d.array("int16", shape, -2000, 2000))


def gemm(d: Draw) -> None:
    """QGemm: transposed, with C, to float or to 8 bits."""
    m, k, n = d.size(1, 17), d.size(1, 17), d.size(1, 17)
    right = d.choose(("uint8", "int8"))
    left = d.choose(("uint8", "int8") if right == "int8" else ("uint8",))
    by_column = (n,) if d.flag() else ()
    turned = [bool(d.attribute(f"trans{name}", 1, 0)) for name in ("A", "B")]
    d.attribute("alpha", 0.5, 2.0)
    d.give("A", d.array(left, (k, m) if turned[0] else (m, k)))
    _scale(d, "a_scale")
    _zero(d, "a_zero_point", left)
    d.give("B", d.array(right, (n, k) if turned[1] else (k, n), -60, 60), known=d.flag(), static=True)
    _scale(d, "b_scale", by_column)
    _zero(d, "b_zero_point", right, by_column)
    d.give("C", d.array("int32", d.choose(((n,), (m, n))), -999, 999) if d.flag() else None, static=True)
    if d.flag():
        _scale(d, "y_scale", (), 1, 9)
        _zero(d, "y_zero_point", left)


def elements(d: Draw) -> None:
    """QLinearAdd, QLinearMul."""
    dtype = d.dtype("T")
    shape = d.shape(0, 4, smallest=1)
    d.broadcasts = True
    for name, own in (("A", shape), ("B", d.broadcastable(shape))):
        d.give(name, d.array(dtype, own))
        _parameters(d, name, dtype)
    _parameters(d, "C", dtype)


def of_one(d: Draw) -> None:
    """QLinearLeakyRelu, QLinearSigmoid."""
    dtype = d.dtype("T")
    d.give("X", d.array(dtype, d.shape(0, 4)))
    _parameters(d, "X", dtype)
    _parameters(d, "Y", dtype)
    d.attribute("alpha", 0.2, -0.5)


def softmax(d: Draw) -> None:
    """QLinearSoftmax of either kind; over more than one element."""
    dtype = d.dtype("T")
    shape = d.shape(1, 4, smallest=2)
    d.give("X", d.array(dtype, shape))
    _scale(d, "X_scale", (), 0.01, 0.3)
    if d.one_in(3):
        d.give("x_zero_point", None)
    else:
        _zero(d, "x_zero_point", dtype)
    _scale(d, "y_scale", (), 0.0039, 0.02)
    _zero(d, "y_zero_point", dtype)
    d.attributes["opset"] = d.choose((13, 12))
    d.attribute("axis", d.axis(len(shape)))


def concat(d: Draw) -> None:
    """QLinearConcat of up to four tensors."""
    dtype = d.choose(("uint8", "int8"))
    shape = list(d.shape(1, 4, smallest=1))
    axis = d.axis(len(shape))
    d.attributes["axis"] = axis
    _parameters(d, "Y", dtype)
    for _ in range(d.integer(1, 4)):
        own = [d.size(1, 5) if index == axis % len(shape) else size for index, size in enumerate(shape)]
        d.give("inputs", d.array(dtype, own))
        d.give("inputs", d.array("float", (), 0.02, 0.9), known=d.flag(), static=True)
        d.give("inputs", d.array(dtype, (), 0, 9), known=d.flag(), static=True)


def where(d: Draw) -> None:
    """QLinearWhere."""
    dtype = d.dtype("T")
    shape = d.shape(0, 4, smallest=1)
    d.broadcasts = True
    d.give("condition", d.array("bool", d.broadcastable(shape)))
    for name in ("X", "Y"):
        d.give(name, d.array(dtype, shape if name == "X" else d.broadcastable(shape)))
        _parameters(d, name.lower(), dtype)
    _parameters(d, "z", dtype)


def linear(d: Draw) -> None:
    """QuantizeLinear, DequantizeLinear: one scale, or one for each slice of an axis."""
    shape = list(d.shape(1, 4, smallest=1))
    axis = d.axis(len(shape))
    by_axis = d.flag()
    own = (shape[axis],) if by_axis else ()
    if by_axis:
        d.attributes["axis"] = axis
    if d.version.op == "QuantizeLinear":
        kind = d.dtype("T2", ("uint8", "int8", "uint16", "int16", "uint4", "int4"))
        d.give("x", d.array("float", shape, -20, 20))
        _scale(d, "y_scale", own)
        if kind != "uint8" or d.flag():
            _zero(d, "y_zero_point", kind, own)
        return
    kind = d.dtype("T1")
    d.give("x", d.array(kind, shape))
    _scale(d, "x_scale", own)
    if kind != "int32" and d.flag():
        _zero(d, "x_zero_point", kind, own)


def _turned(d: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` [N, C, …], with the channels last if it is drawn so."""
    last = d.attribute("channels_last", 1, 0)
    return (shape[0], *shape[2:], shape[1]) if last else tuple(shape)


def conv(d: Draw) -> None:
    """QLinearConv with the channels first or last."""
    found = window(d, 2, kernel_attribute=False)
    group, per_group, filters = d.integer(1, 2), d.integer(1, 3), d.integer(1, 3)
    if group > 1:
        d.attributes["group"] = group
    w = d.choose(("int8", "uint8"))
    x = "uint8" if w == "uint8" else d.choose(("uint8", "int8"))
    shape = (d.size(1, 2), group * per_group, *(size + 2 for size in found.image))
    d.give("x", d.array(x, _turned(d, shape)))
    _parameters(d, "x", x)
    d.give("w", d.array(w, (group * filters, per_group, *found.kernel), -60, 60), known=d.flag())
    _scale(d, "w_scale", (group * filters,) if d.flag() else ())
    d.give("w_zero_point", d.array(w, (), 0, 0 if w == "int8" else 9), known=True)
    _parameters(d, "y", x)
    if d.flag():
        d.give("B", d.array("int32", (group * filters,), -100, 100))


def average_pool(d: Draw) -> None:
    """QLinearAveragePool and its form over whole planes."""
    dtype = d.choose(("uint8", "int8"))
    if d.version.op == "QLinearAveragePool":
        found = window(d, d.integer(1, 3), kernel_attribute=True, ceil=True)
        d.attribute("count_include_pad", 1, 0)
        image: Sequence[int] = found.image
    else:
        image = [d.size(1, 7) for _ in range(d.integer(1, 3))]
    d.give("X", d.array(dtype, _turned(d, (d.size(1, 3), d.size(1, 3), *image))))
    _parameters(d, "x", dtype)
    _parameters(d, "y", dtype)


def lstm(d: Draw) -> None:
    """DynamicQuantizeLSTM of one sequence: onnxruntime may quantize each part of a batch by itself."""
    direction = d.attribute("direction", "reverse", "bidirectional", "forward")
    directions = 2 if direction == "bidirectional" else 1
    steps, inputs, hidden = d.size(1, 7), d.size(1, 5), d.size(1, 5)
    d.attributes["hidden_size"] = hidden
    d.attribute("input_forget", 1)
    if d.flag():
        d.attributes["clip"] = 1.5
    if d.one_in(3):
        _activations(d, directions)
    kind = d.dtype("T2")
    d.give("X", d.array("float", (steps, 1, inputs), -2, 2))
    for name, rows in (("W", inputs), ("R", hidden)):
        d.give(name, d.array(kind, (directions, rows, 4 * hidden), -60, 60), known=d.flag())
    optional = {
        "B": d.array("float", (directions, 8 * hidden), -1, 1),
        "sequence_lens": np.array([d.integer(1, steps)], np.int32),
        "initial_h": d.array("float", (directions, 1, hidden), -1, 1),
        "initial_c": d.array("float", (directions, 1, hidden), -1, 1),
        "P": d.array("float", (directions, 3 * hidden), -1, 1),
    }
    for name, array in optional.items():
        d.give(name, array if d.flag() else None, static=True)
    wide = (directions, 4 * hidden) if d.flag() else (directions,)
    for name in ("W", "R"):
        _scale(d, f"{name}_scale", wide, 0.005, 0.03)
        if kind == "int8":
            d.give(f"{name}_zero_point", np.zeros(wide, np.int8), known=d.flag(), static=True)
        else:
            _zero(d, f"{name}_zero_point", kind, wide, alike=True)
    d.outputs = d.choose(((True, True, True), (True,), (False, True, True), (True, False, True)))


_OF_RECURRENT = {
    **dict.fromkeys(("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"), ()),
    **dict.fromkeys(("LeakyRelu", "ThresholdedRelu", "Elu"), (0.3,)),
    **dict.fromkeys(("HardSigmoid", "ScaledTanh", "Affine"), (0.3, 0.7)),
}


def _activations(d: Draw, directions: int) -> None:
    """Three functions of each direction, with the numbers of those that have some."""
    chosen = [d.choose(tuple(_OF_RECURRENT)) for _ in range(3 * directions)]
    d.attributes["activations"] = chosen
    for place, name in enumerate(("activation_alpha", "activation_beta")):
        numbers = [_OF_RECURRENT[item][place] for item in chosen if len(_OF_RECURRENT[item]) > place]
        if numbers:
            d.attributes[name] = numbers


STRATEGIES = {
    "DynamicQuantizeMatMul": matmul_to_float,
    "MatMulIntegerToFloat": matmul_to_float,
    "MatMulInteger16": matmul16,
    "QGemm": gemm,
    "QLinearAdd": elements,
    "QLinearMul": elements,
    "QLinearLeakyRelu": of_one,
    "QLinearSigmoid": of_one,
    "QLinearSoftmax": softmax,
    "QLinearConcat": concat,
    "QLinearWhere": where,
    "QuantizeLinear": linear,
    "DequantizeLinear": linear,
    "QLinearConv": conv,
    "QLinearAveragePool": average_pool,
    "QLinearGlobalAveragePool": average_pool,
    "DynamicQuantizeLSTM": lstm,
}
