"""Operators that compute each element by itself: drawn from their schemas alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.fuzz_ops.draw import Draw

ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "alpha": (0.5, 1.0, 2.0, 0.1, -0.5),
    "beta": (0.5, 1.0, 0.1, 0.0),
    "gamma": (1.5, 1.0, 0.5),
    "bias": (0.0, 0.5, -0.25),
    "lambd": (0.5, 1.5, 0.0),
    "approximate": ("none", "tanh"),
    "detect_negative": (1, 0),
    "detect_positive": (1, 0),
    "direction": ("LEFT", "RIGHT"),
    "min": (-1.0, 0.0),
    "max": (1.0, 6.0, -0.5),
    "limit": (1.0, 7.0),
}
"""What attributes of elementwise operators take, by name."""


def attributes(d: Draw) -> None:
    """Draw every attribute that the table knows."""
    for name, options in ATTRIBUTES.items():
        d.attribute(name, *options)


def pointwise(d: Draw) -> None:
    """All inputs broadcast to one shape; before opset 7 only as the attributes axis and broadcast say."""
    attributes(d)
    d.broadcasts = len(d.version.inputs) > 1 or d.version.inputs[0].kind == "variadic"
    formals = d.version.inputs
    if formals[0].kind == "variadic":
        _variadic(d)
    elif d.has_attribute("broadcast"):
        _legacy(d)
    else:
        shape = d.shape()
        shapes = [shape, *(d.broadcastable(shape, prefix=True) for _ in formals[1:])]
        for formal, each in zip(formals, d.permuted(shapes), strict=True):
            _give(d, formal.name, each)


def _variadic(d: Draw) -> None:
    shape = d.shape()
    name = d.version.inputs[0].name
    broadcasts = d.version.since_version >= 8
    for index in range(d.integer(1, 4)):
        _give(d, name, d.broadcastable(shape) if index and broadcasts else shape)


def _legacy(d: Draw) -> None:
    first, second = (formal.name for formal in d.version.inputs)
    shape = d.shape(1, 4)
    _give(d, first, shape)
    if d.flag():
        _give(d, second, shape)
        return
    d.attributes["broadcast"] = 1
    start = d.integer(0, len(shape))
    stop = d.integer(start, len(shape))
    if stop < len(shape) or d.flag():
        d.attributes["axis"] = start
    else:
        start, stop = start, len(shape)
    _give(d, second, shape[start:stop])


def _give(d: Draw, name: str, shape: Sequence[int]) -> None:
    """Values that the operator defines: divisors are not 0, shifts are narrower than the type."""
    op = d.version.op
    dtype = d.dtype(d.formal(name).type)
    whole = dtype.lstrip("u").startswith("int")
    last = name == d.version.inputs[-1].name
    if op in ("Div", "Mod") and last and whole:
        negative = dtype.startswith("int") and d.flag()
        d.tensor(name, shape, low=-9 if negative else 1, high=-1 if negative else 9)
    elif op == "Pow" and whole:
        # ONNX says nothing of NaN and infinity as an integer: a base that is not positive has whole exponents.
        fraction = not d.dtype(d.formal(d.version.inputs[-1].name).type).lstrip("u").startswith("int")
        low, high = (0, 3) if last else (1, 4) if fraction else (-4, 4)
        d.tensor(name, shape, low=low, high=high)
    elif op == "Pow" and last:
        d.tensor(name, shape, low=-3, high=3)
    elif op == "Shrink" and whole:
        # onnxruntime adds the bias in float32, where the largest integers have no neighbours.
        d.tensor(name, shape, low=0 if dtype.startswith("u") else -99, high=99)
    elif op == "BitShift" and last:
        d.tensor(name, shape, low=0, high=7)
    else:
        d.tensor(name, shape)


def mod(d: Draw) -> None:
    """Mod: floats need fmod=1."""
    dtype = d.dtype("T")
    if dtype in ("float", "double", "float16", "bfloat16"):
        d.attributes["fmod"] = 1
    else:
        d.attribute("fmod", 0, 1)
    pointwise(d)


def clip(d: Draw) -> None:
    """Clip: bounds are scalars, absent, constant or at run time."""
    if d.has_attribute("min"):
        pointwise(d)
        return
    d.tensor("input", d.shape())
    for name, low, high in (("min", -3, 1), ("max", 1, 4)):
        if d.flag():
            d.give(name, d.array(d.dtype("T"), (), low, high), known=d.flag(), static=True)
        else:
            d.give(name, None)


def prelu(d: Draw) -> None:
    """PRelu: one slope for all, one for each channel (before 7), or unidirectional broadcasting."""
    shape = d.shape(1, 4)
    d.broadcasts = True
    d.tensor("X", shape)
    if d.version.since_version < 7:
        d.tensor("slope", d.choose([(1,), shape[1:2] or (1,)]))
    else:
        d.tensor("slope", d.broadcastable(shape))


def where(d: Draw) -> None:
    """Where: all three broadcast."""
    d.broadcasts = True
    shape = d.shape()
    shapes = d.permuted([shape, d.broadcastable(shape), d.broadcastable(shape)])
    for name, each in zip(("condition", "X", "Y"), shapes, strict=True):
        d.tensor(name, each)


def softmax(d: Draw) -> None:
    """Softmax, LogSoftmax, Hardmax: an axis of either sign (before 11 only not negative)."""
    shape = d.shape(1, 5)
    axis = d.axis(len(shape))
    d.attribute("axis", axis if d.version.since_version >= 11 else axis % len(shape))
    if "axis" not in d.attributes and d.version.since_version < 13 and len(shape) < 2:
        d.attributes["axis"] = 0
    d.tensor("input", shape)


def cast(d: Draw) -> None:
    """Cast and CastLike: values that the target holds, so that nothing is undefined."""
    version = d.version
    if version.op == "Cast" and "tensor(string)" in version.type_constraints["T1"] and d.one_in(8):
        _words(d)
        return
    names = d.allowed("T2")
    target = d.choose([name for name in ("float", "int64", "float16", "int32", "bool", "uint8") if name in names] + names)
    integers = target.lstrip("u").startswith("int")
    unsigned = target.startswith("uint")
    bits = int("".join(c for c in target if c.isdigit()) or 8) if integers else 8
    low, high = (
        (0 if unsigned else -(2 ** min(bits - 1, 6)), 2 ** min(bits - (not unsigned), 6) - 1) if integers else (None, None)
    )
    source = d.dtype("T1")
    shape = d.shape()
    d.give("input", d.array(source, shape, low, high))
    d.attribute("saturate", 0, 1)
    d.attribute("round_mode", "up", "down", "nearest")
    if version.op == "CastLike":
        d.types["T2"] = target
        d.tensor("target_type", d.shape(0, 2))
    elif version.attributes["to"].type == "string":
        d.attributes["to"] = target.upper()
    else:
        import onnx

        d.attributes["to"] = onnx.TensorProto.DataType.Value(target.upper())


def _words(d: Draw) -> None:
    """Cast from words to numbers and back, on the host."""
    import onnx

    if d.flag():
        target = d.choose(("float", "double", "int64", "int32"))
        words = ("1", "-25", "300") if target.startswith("int") else ("1", "-2.5", "3e2", "NaN", "-INF")
        d.types["T1"] = "string"
        d.give("input", d.words(d.shape(0, 3), words), known=False)
    else:
        target = "string"
        d.give("input", d.array(d.dtype("T1", ("int64", "float", "bool", "uint8", "double")), d.shape(0, 3)), known=False)
    d.attributes["to"] = onnx.TensorProto.DataType.Value(target.upper())


def identity(d: Draw) -> None:
    """Identity: any type, any shape."""
    type_name = d.version.inputs[0].type
    d.dtype(type_name)
    d.tensor(d.version.inputs[0].name, d.shape())


def bitcast(d: Draw) -> None:
    """BitCast: to a type of the same width."""
    import onnx

    groups = (
        ("float", "int32", "uint32"),
        ("float16", "bfloat16", "int16", "uint16"),
        ("double", "int64", "uint64"),
        ("int8", "uint8"),
    )
    group = d.choose(groups)
    d.types["T1"] = d.choose(group)
    d.tensor(d.version.inputs[0].name, d.shape())
    d.attributes["to"] = onnx.TensorProto.DataType.Value(d.choose(group).upper())


_BY_SCHEMA = """
    BitShift Div IsInf Mean Pow Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Selu Shrink Softplus Softsign Swish
    SwiGLU ThresholdedRelu
"""

STRATEGIES = {
    "Mod": mod,
    "Clip": clip,
    "PRelu": prelu,
    "Where": where,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Hardmax": softmax,
    "Cast": cast,
    "CastLike": cast,
    "Identity": identity,
    "BitCast": bitcast,
    **dict.fromkeys(_BY_SCHEMA.split(), pointwise),
}
