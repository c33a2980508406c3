"""Element types of a byte and less: casts over all values, quantization, what carries them, and how they cross the border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx2torch_mlir.core.narrow import NARROW, repacked, unpacked
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import node_model, reference

Array = np.ndarray[Any, Any]
OPSET = 28
NARROW_TYPES = {
    "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2, "INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn, "FLOAT6E2M3": ml_dtypes.float6_e2m3fn, "FLOAT6E3M2": ml_dtypes.float6_e3m2fn,
}  # fmt: skip
FLOAT8 = {
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
WIDE = {
    "FLOAT": np.float32, "FLOAT16": np.float16, "BFLOAT16": ml_dtypes.bfloat16, "DOUBLE": np.float64, "INT8": np.int8,
    "UINT8": np.uint8, "INT16": np.int16, "UINT16": np.uint16, "INT32": np.int32, "UINT32": np.uint32, "INT64": np.int64,
    "UINT64": np.uint64, "BOOL": np.bool_,
}  # fmt: skip
ALL = {**NARROW_TYPES, **FLOAT8, **WIDE}


def number(name: str) -> int:
    """The number of an element type in TensorProto.DataType."""
    return int(TensorProto.DataType.Value(name))


def every(name: str) -> Array:
    """Every value of a type of at most a byte."""
    dtype = np.dtype(ALL[name])
    bits = 8 if name in FLOAT8 else int(name.removeprefix("U").removeprefix("INT").removeprefix("FLOAT")[0])
    return np.arange(2**bits, dtype=np.uint8).view(dtype)


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Array], outputs: Sequence[str], **held: Array
) -> onnx.ModelProto:
    formals = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    initializers = [numpy_helper.from_array(value, name) for name, value in held.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "narrow", formals, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 13
    return model


def runs_as(model: onnx.ModelProto, inputs: Sequence[Array], expected: Sequence[Any], *, eager: bool = True) -> None:
    """Both ways to run give exactly ``expected``: dtype, shape, every value, the signs of zeros."""
    program = convert(read(model))
    for runnable in [program.compile(), *([program.eager()] if eager else [])]:
        for index, (got, want) in enumerate(zip(runnable.run(list(inputs)), expected, strict=True)):
            want = np.asarray(want)
            assert got.dtype == want.dtype, f"output {index} is {got.dtype}, not {want.dtype}"
            assert got.shape == want.shape
            a, b = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_array_equal(a, b, err_msg=f"output {index} ({want.dtype})")
            zero = b == 0
            np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]), err_msg=f"output {index} ({want.dtype})")


def cast_model(data: Array, targets: Sequence[str], **attributes: Any) -> onnx.ModelProto:
    nodes = [helper.make_node("Cast", ["x"], [name], to=number(name), **attributes) for name in targets]
    return model_of(nodes, {"x": data}, list(targets))


@pytest.mark.parametrize("source", [*NARROW_TYPES, *FLOAT8])
def test_every_value_to_every_type(source: str) -> None:
    data = every(source)
    if source in FLOAT8:
        data = data[np.isfinite(data.astype(np.float32))]
    wide = data.astype(np.float32)
    targets = [name for name in ALL if name != source]
    if (wide < 0).any():
        targets = [name for name in targets if not name.startswith("UINT") or name in NARROW_TYPES]
    if source in FLOAT8:
        targets = [name for name in targets if name in FLOAT8 or "FLOAT" in name or name == "INT32"]
    with np.errstate(all="ignore"):
        expected = [
            numpy_helper.saturate_cast(wide, np.dtype(ALL[name])) if name in FLOAT8 else wide.astype(ALL[name])
            for name in targets
        ]
    # Signs of NaN aside, float8 through float32 is exact.
    runs_as(cast_model(data, targets), [data], expected)


BEYOND = [-9.0, -8.5, -1.9, -0.5, -0.0, 0.3, 7.0, 8.0, 9.0, 15.0, 15.9, 16.0, 17.0, 23.0, 100.0, 255.0, 300.0, 1e4]
HUGE = [1e9, 2.0**31, 1e10, 1e20, -1e20, np.nan, np.inf, -np.inf]
TIES = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.5, -2.5, 0.2500001, 1e-7, -1e-7, 0.0625, 0.03125, 0.09375, 27.0, 7.75, 29.0]


@pytest.mark.parametrize("source", WIDE)
def test_every_wide_type_to_narrow_ones(source: str) -> None:
    kind = np.dtype(WIDE[source]).kind
    numbers = [*BEYOND, *TIES, *(HUGE if kind in "fV" else [])]
    with np.errstate(all="ignore"):
        data = np.array(numbers if kind in "fV" else np.round(numbers)).astype(np.int64 if kind in "iub" else np.float64)
        data = data.astype(WIDE[source])
        through = data.astype(np.float32) if data.dtype == np.dtype(ml_dtypes.bfloat16) else data
        expected = [through.astype(dtype) for dtype in NARROW_TYPES.values()]
    runs_as(cast_model(data, list(NARROW_TYPES)), [data], expected)


def test_doubles_beside_ties_round_twice() -> None:
    """First to float32, then to the small float: as onnxruntime, PyTorch and ml_dtypes have it."""
    candidates = {**NARROW_TYPES, **FLOAT8, "BFLOAT16": ml_dtypes.bfloat16}
    small = {name: dtype for name, dtype in candidates.items() if "FLOAT" in name}
    values = [every(name).astype(np.float64) for name in small if name != "BFLOAT16"]
    values += [np.arange(1 << 16, dtype=np.uint16).view(np.float16)[::7].astype(np.float64)]
    middles = [(v[1:] + v[:-1]) / 2 for v in (np.unique(v[np.isfinite(v)]) for v in values)]
    ties = np.unique(np.concatenate(middles))
    data = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), ties * (1 + 2.0**-30)])
    expected = [
        numpy_helper.saturate_cast(data.astype(np.float32), np.dtype(dtype)) if name in FLOAT8 else data.astype(dtype)
        for name, dtype in small.items()
    ]
    halves = reference(node_model("Cast", [data], opset=21, to=TensorProto.FLOAT16), {"in0": data})  # onnxruntime
    runs_as(cast_model(data, [*small, "FLOAT16"]), [data], [*expected, *halves])


def test_all_halves_to_small_floats() -> None:
    data = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    data = data[~np.isnan(data)]
    targets = [name for name in NARROW_TYPES if "FLOAT" in name]
    runs_as(cast_model(data, targets), [data], [data.astype(NARROW_TYPES[name]) for name in targets])


POWERS = np.array(
    [0.3, 0.7, 0.75, 1.0, 1.1, 1.5, 1.6, 3.0, 2.0**-127, 1.4 * 2.0**-127, 1.6 * 2.0**-127, 2.0**-126, 2.0**127, 1.5 * 2.0**126],
    np.float32,
)
OUTSIDE = np.array([0.0, np.inf, 3e38, 1e-40], np.float32)
LEAST, MOST = 2.0**-127, 2.0**127


@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two(round_mode: str, saturate: int) -> None:
    data = np.concatenate([POWERS, OUTSIDE, np.array([np.nan], np.float32)])
    ratio, exponent = np.frexp(POWERS.astype(np.float64))
    up = {"up": ratio > 0.5, "down": np.zeros_like(ratio), "nearest": ratio >= 0.75}[round_mode]
    inside = np.maximum(np.ldexp(0.5, exponent + up.astype(int)), LEAST)
    outside = [LEAST, MOST, MOST, LEAST, np.nan] if saturate else [np.nan] * 5
    expected = np.concatenate([inside, outside]).astype(ml_dtypes.float8_e8m0fnu)
    model = cast_model(data, ["FLOAT8E8M0"], round_mode=round_mode, saturate=saturate)
    runs_as(model, [data], [expected])


def test_powers_of_two_to_floats() -> None:
    data = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    targets = ["FLOAT", "BFLOAT16", "DOUBLE"]
    runs_as(cast_model(data, targets), [data], [data.astype(ALL[name]) for name in targets])


INT4 = np.arange(-8, 8).reshape(2, 8).astype(ml_dtypes.int4)
UINT2 = np.arange(24).reshape(2, 3, 4).astype(ml_dtypes.uint2)
FLOAT4 = np.arange(16, dtype=np.uint8).reshape(4, 1, 4).view(ml_dtypes.float4_e2m1fn)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


MOVEMENT: list[tuple[str, list[Array], dict[str, Any], Any]] = [
    ("Identity", [], {}, lambda x: x),
    ("Reshape", [i64(-1, 4)], {}, lambda x: x.reshape(-1, 4)),
    ("Transpose", [], {}, lambda x: x.transpose()),
    ("Flatten", [], {"axis": 1}, lambda x: x.reshape(x.shape[0], -1)),
    ("Unsqueeze", [i64(0)], {}, lambda x: x[None]),
    ("Shape", [], {}, lambda x: i64(*x.shape)),
    ("Size", [], {}, lambda x: np.array(x.size, np.int64)),
]


@pytest.mark.parametrize("data", [INT4, UINT2, FLOAT4], ids=["int4", "uint2", "float4e2m1"])
def test_movement_carries(data: Array) -> None:
    nodes: list[onnx.NodeProto] = []
    held: dict[str, Array] = {}
    expected: list[Array] = []
    for op, others, attributes, function in MOVEMENT:
        names = [f"{op}_{index}" for index in range(len(others))]
        held |= dict(zip(names, others, strict=True))
        nodes.append(helper.make_node(op, ["x", *names], [op], **attributes))
        expected.append(function(data))
    runs_as(model_of(nodes, {"x": data}, [op for op, *_ in MOVEMENT], **held), [data], expected)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode: str) -> None:
    pads = np.pad(INT4.astype(np.int8), ((1, 0), (2, 1)), mode=mode, **({"constant_values": -5} if mode == "constant" else {}))  # type: ignore[call-overload]
    held = {"pads": i64(1, 2, 0, 1), "fill": np.array(-5, ml_dtypes.int4)}
    node = helper.make_node("Pad", ["x", "pads", "fill"], ["y"], mode=mode)
    runs_as(model_of([node], {"x": INT4}, ["y"], **held), [INT4], [pads.astype(ml_dtypes.int4)])


@pytest.mark.parametrize("name", NARROW_TYPES)
def test_packed_in_the_file(name: str) -> None:
    data = every(name)[:3]
    nodes = [
        helper.make_node("Identity", ["w"], ["a"]),
        helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(data)),
        helper.make_node("ConstantOfShape", ["shape"], ["c"], value=numpy_helper.from_array(data[1:2])),
        helper.make_node("Cast", ["w"], ["d"], to=TensorProto.FLOAT),
    ]
    expected = [data, data, np.tile(data[1:2], (2, 1)), data.astype(np.float32)]
    if "6" in name:  # Only Cast and the quantizers take these.
        nodes, expected = nodes[3:], expected[3:]
    model = model_of(nodes, {}, [node.output[0] for node in nodes], w=data, shape=i64(2, 1))
    runs_as(model, [], expected)


BITS = [
    ("INT4", "UINT4"), ("UINT4", "INT4"), ("FLOAT4E2M1", "INT4"), ("UINT4", "FLOAT4E2M1"), ("INT2", "UINT2"), ("UINT2", "INT2"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), BITS)
def test_bits_read_as_another_type(source: str, target: str) -> None:
    data = every(source)
    node = helper.make_node("BitCast", ["x"], ["y"], to=number(target))
    runs_as(model_of([node], {"x": data}, ["y"]), [data], [data.view(ALL[target])])


def test_bits_of_another_width_are_refused() -> None:
    node = helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT8)
    with pytest.raises(Refusal, match="another width"):
        convert(read(model_of([node], {"x": INT4}, ["y"])))


QUANTIZED = [*NARROW_TYPES, *FLOAT8]


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize(
    ("scale", "axis", "block_size"),
    [(np.array(0.5), 1, 0), (np.array([0.5, 2.0, 0.25]), 1, 0), (np.array([[0.5, 0.25], [2, 1], [1, 4.0]]), 2, 3)],
    ids=["tensor", "axis", "blocks"],
)
def test_quantize_and_back(name: str, scale: Array, axis: int, block_size: int) -> None:
    dtype = np.dtype(ALL[name])
    is_integer = "INT" in name
    x = np.linspace(-9, 9, 2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    scale = scale.astype(np.float32)
    scale = np.stack([scale, scale]) if block_size else scale
    zero = np.zeros(scale.shape) + (1 if is_integer else 0)
    inputs = {"x": x, "scale": scale, "zero": zero.astype(dtype)}
    options: dict[str, Any] = {"axis": axis, **({"block_size": block_size} if block_size else {})}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], **options),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], **options),
        helper.make_node("QuantizeLinear", ["x", "scale"], ["r"], output_dtype=number(name), **options),
        helper.make_node("DequantizeLinear", ["r", "scale"], ["z"], **options),
    ]
    model = model_of(nodes, inputs, ["q", "y", "r", "z"])
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, inputs)
    runs_as(model, list(inputs.values()), expected)  # type: ignore[arg-type]


def test_scales_that_are_powers_of_two() -> None:
    x = FLOAT4.reshape(4, 4)
    scale = np.array([[0.5, 2], [1, 4], [8, 0.25], [1, 1]]).astype(ml_dtypes.float8_e8m0fnu)
    node = helper.make_node(
        "DequantizeLinear", ["x", "scale"], ["y"], axis=1, block_size=2, output_dtype=TensorProto.FLOAT
    )
    expected = x.astype(np.float32) * np.repeat(scale.astype(np.float32), 2, 1)
    runs_as(model_of([node], {"x": x, "scale": scale}, ["y"]), [x, scale], [expected])


def test_control_flow_carries() -> None:
    int4 = TensorProto.INT4
    row = helper.make_tensor_value_info("row", int4, [8])
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], [out], **kw)], out, [], [helper.make_tensor_value_info(out, int4, None)])
        for op, out, kw in (("Identity", "kept", {}), ("Transpose", "turned", {"perm": [0, 1]}))
    ]
    scan = helper.make_graph(
        [helper.make_node("Identity", ["row"], ["same"]), helper.make_node("Identity", ["last"], ["before"])],
        "step",
        [helper.make_tensor_value_info("last", int4, [8]), row],
        [helper.make_tensor_value_info("same", int4, [8]), helper.make_tensor_value_info("before", int4, [8])],
    )
    loop = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["c"], ["d"]),
         helper.make_node("Identity", ["c"], ["e"])],
        "turn",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("c", int4, [2, 8])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("d", int4, [2, 8]),
         helper.make_tensor_value_info("e", int4, [2, 8])],
    )  # fmt: skip
    start = np.zeros(8).astype(ml_dtypes.int4)
    nodes = [
        helper.make_node("If", ["flag"], ["a"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Scan", ["start", "x"], ["b", "c"], body=scan, num_scan_inputs=1),
        helper.make_node("Loop", ["count", ""], ["f"], body=_without_carries()),
        helper.make_node("Loop", ["count", "", "x"], ["g", "h"], body=loop),
    ]
    inputs = {"x": INT4, "flag": np.array(False), "count": np.array(3, np.int64)}
    model = model_of(nodes, inputs, ["a", "b", "c", "f", "g", "h"], start=start)
    stacked = np.stack([start, INT4[0]])
    runs_as(model, list(inputs.values()), [INT4, INT4[1], stacked, *[np.stack([INT4] * 3)], INT4, np.stack([INT4] * 3)])


def _without_carries() -> onnx.GraphProto:
    return helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["x"], ["e"])],
        "turn",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("e", TensorProto.INT4, [2, 8])],
    )  # fmt: skip


def test_arrays_at_the_border() -> None:
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": INT4}, ["y"])
    engine = convert(read(model)).compile()
    assert [getattr(item, "dtype", None) for item in (*engine.inputs, *engine.outputs)] == [np.dtype(ml_dtypes.int4)] * 2
    noisy = (INT4.view(np.uint8) | np.uint8(0x50)).view(ml_dtypes.int4)
    assert engine.run([noisy])[0].tobytes() == INT4.tobytes()
    assert engine.run([INT4.T.copy().T])[0].tolist() == INT4.tolist()
    with pytest.raises(Refusal, match="int4"):
        engine.run([INT4.astype(np.int8)])


@pytest.mark.parametrize("name", NARROW)
def test_unused_bits(name: str) -> None:
    narrow = NARROW[name]
    clean = np.arange(2**narrow.bits, dtype=np.uint8)
    noisy = (clean | np.uint8(0xFF << narrow.bits & 0xFF)).view(narrow.numpy)
    held = unpacked(noisy, narrow)
    if not narrow.is_float:
        assert held.tolist() == clean.view(narrow.numpy).astype(np.int64).tolist()
    assert repacked(held, narrow).view(np.uint8).tolist() == clean.tolist()


def test_arithmetic_is_refused() -> None:
    with pytest.raises(Refusal, match="does not take int4"):
        convert(read(model_of([helper.make_node("Add", ["x", "x"], ["y"])], {"x": INT4}, ["y"])))


def test_a_wrong_declaration_is_an_error() -> None:
    model = node_model("Cast", [INT4], opset=25, to=TensorProto.INT8)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT4
    with pytest.raises(Refusal, match="declared int4 but comes out as int8"):
        convert(read(model))


NATIVE = [
    ("Add", 2), ("Sub", 2), ("Mul", 2), ("Div", 2), ("Mod", 2), ("Less", 2), ("Equal", 2), ("Max", 2), ("Min", 2),
    ("ReduceSum", 1), ("ReduceMax", 1), ("ReduceMin", 1), ("ReduceProd", 1), ("BitShift", 2), ("BitwiseNot", 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_arithmetic_runs_natively(dtype: Any) -> None:
    top = int(np.iinfo(dtype).max)
    data = {"a": np.array([[1, top, top - 1], [7, top // 2 + 1, 0]], dtype), "b": np.array([[2, 3, top], [1, 5, 1]], dtype)}
    nodes, names, expected = [], [], []
    for op, arity in NATIVE:
        if np.dtype(dtype).itemsize == 2 and op.startswith("Reduce"):
            continue
        options: dict[str, Any] = {"direction": "LEFT"} if op == "BitShift" else {}
        nodes.append(helper.make_node(op, ["a", "b"][:arity], [op], **options))
        names.append(op)
        single = model_of([nodes[-1]], dict(list(data.items())[:arity]), [op])
        with np.errstate(all="ignore"):
            expected.append(np.asarray(reference(single, dict(list(data.items())[:arity]))[0]))
    runs_as(model_of(nodes, data, names), list(data.values()), expected, eager=False)
