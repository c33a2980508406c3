"""Convolutions of bytes with windows of 3 by 3 by fewer products, against sums in double precision: every result is exact.

They go so where the processor has no instruction for fours of bytes, which these tests let the matcher believe of any.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.compiler import integer_winograd
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.layout import INTEGERS_HEADER, Packing
from onnx2torch_mlir.engine.packed_weights import packed
from tests.engine.made_here import engine_of, entry_of

UINT8, INT8 = np.uint8, np.int8
TYPES = [(UINT8, INT8), (INT8, INT8), (UINT8, UINT8), (INT8, UINT8)]


@pytest.fixture
def unit(monkeypatch):
    """Every matcher is on, whatever the environment leaves out; sets what the matcher believes of the processor."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)

    def believe(**what):
        believed = replace(of_host(), **{"multiplies_pairs": True, "largest_byte": 64} | what)
        monkeypatch.setattr(integer_winograd, "of_host", lambda: believed)

    believe()
    return believe


def codes(dtype, *shape):
    limits = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def lowered(nodes, x, constants, result, shape=None):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info("x", kind, x.shape if shape is None else shape)]
    outputs = [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(result)), [None] * 4)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [tensor(*pair) for pair in constants.items()])
    return o2m.convert(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)).lowered


def convolution(x, weight, zeros, shape=None, **attributes):
    """Of numbers less their zero points, as int32."""
    constants = {"w": weight, "xz": x.dtype.type(zeros[0]), "wz": weight.dtype.type(zeros[1])}
    return lowered([helper.make_node("ConvInteger", ["x", *constants], ["y"], **attributes)], x, constants, np.int32, shape)


def expected(x, weight, zeros, padding=1, **attributes):
    image, windows = (torch.from_numpy(a.astype(np.float64) - zero) for a, zero in zip((x, weight), zeros, strict=True))
    return torch.nn.functional.conv2d(image, windows, padding=padding, **attributes).numpy()


def goes_by_winograd(entry):
    return any(Packing(*fields).windows for fields in entry["packings"])


def check(x, weight, zeros, threads=1, padding=1):
    program = convolution(x, weight, zeros, pads=[padding] * 4)
    entry = entry_of(program)
    assert goes_by_winograd(entry)
    np.testing.assert_array_equal(engine_of(program, entry, threads=threads).run([x])[0], expected(x, weight, zeros, padding))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", [(1, 12, 10), (2, 13, 9), (1, 3, 40), (5, 8, 7), (1, 31, 33)], ids=str)
@pytest.mark.parametrize("channels", [(32, 32), (37, 70), (64, 33), (49, 130)], ids=str)
def test_any_size(channels, sizes, threads, unit):
    """Lines, columns and channels that are odd, tiles of several lines and images in a block, panels that are not full."""
    count, h, v = sizes
    check(codes(UINT8, count, channels[0], h, v), codes(INT8, channels[1], channels[0], 3, 3), (7, 0), threads)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize(("types", "zeros"), [*zip(TYPES, [(0, 0), (-128, 3), (255, 131), (5, 0)], strict=True)])
def test_types_and_zero_points(types, zeros, padding, unit):
    check(codes(types[0], 1, 40, 11, 12), codes(types[1], 36, 40, 3, 3), zeros, padding=padding)


@pytest.mark.parametrize("weight", [-128, 127])
@pytest.mark.parametrize("signs", ["same", "by turns"])
def test_largest_numbers(signs, weight, unit):
    """Of images whose transformed numbers are as large as they can be, and of the longest sums."""
    x = np.full((1, 1792, 8, 8), 255, UINT8)
    windows = np.full((33, 1792, 3, 3), weight, INT8)
    if signs == "by turns":
        x[:, :, ::2], x[:, :, :, 1::2] = 0, 0
        windows[:, :, 1] = -127
    check(x, windows, (0, 0))
    check(255 - x, windows, (255, 0))


def test_sums_that_may_be_too_large_do_not(unit):
    """4 * 9 * 1828 * 255 * 128 is above 2**31."""
    for channels, is_exact in [(1827, True), (1828, False)]:
        x, weight = codes(UINT8, 1, channels, 8, 8), codes(INT8, 32, channels, 3, 3)
        assert goes_by_winograd(entry_of(convolution(x, weight, (0, 0), pads=[1] * 4))) == is_exact


def test_sizes_that_are_open(unit):
    """One code for all sizes, of which some have few pixels, or one line, or none at all."""
    weight = codes(INT8, 40, 64, 3, 3)
    program = convolution(codes(UINT8, 1, 64, 1, 1), weight, (9, 0), ["n", 64, "h", "v"], pads=[1] * 4)
    entry = entry_of(program)
    assert goes_by_winograd(entry)
    code = engine_of(program, entry, threads=2)
    for sizes in [(1, 14, 14), (3, 5, 7), (1, 1, 1), (2, 1, 50), (1, 40, 1), (0, 4, 4)]:
        x = codes(UINT8, sizes[0], 64, *sizes[1:])
        np.testing.assert_array_equal(code.run([x])[0], expected(x, weight, (9, 0)))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_follows_meets_the_sums(threads, unit):
    """A bias for each filter and quantization follow the sums while these are in the cache."""
    x, weight = codes(UINT8, 2, 48, 13, 10), codes(INT8, 70, 48, 3, 3)
    constants = {
        "xs": np.float32(0.02), "xz": UINT8(131), "w": weight, "ws": np.linspace(0.001, 0.003, 70, dtype=np.float32),
        "wz": np.zeros(70, INT8), "ys": np.float32(0.3), "yz": UINT8(100), "b": np.arange(70, dtype=np.int32) * 500,
    }  # fmt: skip
    operands = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    program = lowered([helper.make_node("QLinearConv", operands, ["y"], pads=[1] * 4)], x, constants, UINT8)
    entry, other = entry_of(program), entry_of(program, disabled=["winograd"])
    assert goes_by_winograd(entry) and not goes_by_winograd(other)
    found, wanted = (engine_of(program, made, threads=threads).run([x])[0] for made in (entry, other))
    np.testing.assert_array_equal(found, wanted)
    sums = expected(x, weight, (131, 0)) + constants["b"][:, None, None]
    scaled = sums * (constants["xs"] * constants["ws"] / constants["ys"])[:, None, None] + 100
    assert np.abs(np.clip(scaled, 0, 255) - found).max() < 0.51
    assert len(np.unique(found)) > 100


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((64, 64, 3, 3), {"strides": [2, 2]}),
        ((64, 64, 3, 3), {"dilations": [1, 2]}),
        ((64, 32, 3, 3), {"group": 2}),
        ((64, 64, 3, 5), {}),
        ((31, 64, 3, 3), {}),
    ],
    ids=str,
)
def test_other_windows_do_not(shape, attributes, unit):
    x, weight = codes(UINT8, 1, 64, 16, 15), codes(INT8, *shape)
    program = convolution(x, weight, (3, 0), pads=[1] * 4, **attributes)
    entry = entry_of(program)
    assert not goes_by_winograd(entry)
    named = {"strides": "stride", "dilations": "dilation", "group": "groups"}
    given = {named[key]: value for key, value in attributes.items()}
    np.testing.assert_array_equal(engine_of(program, entry).run([x])[0], expected(x, weight, (3, 0), **given))


@pytest.mark.parametrize("what", [{"largest_byte": 128}, {"multiplies_pairs": False}], ids=str)
def test_where_it_does_not_pay(what, unit):
    unit(**what)
    x, weight = codes(UINT8, 1, 64, 16, 15), codes(INT8, 64, 64, 3, 3)
    assert not goes_by_winograd(entry_of(convolution(x, weight, (0, 0), pads=[1] * 4)))


def test_weights_are_transformed_once():
    """4 G g G^T of each window less its zero point, in pairs of channels, in panels of columns, filled up with zeros."""
    weight = codes(UINT8, 5, 3, 3, 3)
    packing = Packing(0, 0, 4, [], (5, 27), [(3, 3), (3, 1), (3, 9)], zero=130, signed=False, largest=64, windows=True)
    memory = packed(weight, packing)
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    wanted = 4 * np.einsum("ip,fcpq,jq->ijcf", g, weight - 130.0, g).reshape(16, 3, 5)
    assert memory[:16].view(np.int64).tolist() == [0, 2 * 2 * 4 * 4]
    found = memory[INTEGERS_HEADER:].view(np.int16).reshape(16, 2, 2, 4, 2).transpose(0, 2, 4, 1, 3).reshape(16, 4, 8)
    np.testing.assert_array_equal(found[:, :3, :5], wanted)
    assert not found[:, 3].any() and not found[..., 5:].any()
