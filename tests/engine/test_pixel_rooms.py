"""Room behind the channels of pixels: which images have it, and that whatever reads and writes these finds its numbers."""

import re

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import kernels
from tests.engine.made_here import entry_of

RNG = np.random.default_rng(0)


def weight(*shape):
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def bottleneck(channels, images=1, size=6, *, depthwise=True, dynamic=False):
    """Single pixels to so many channels with a branch of their own, a window over these, single pixels of that."""
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["first"]),
        helper.make_node("Conv", ["first", "w1"], ["again"]),
        helper.make_node("Add", ["again", "first"], ["joined"]),
        helper.make_node("Relu", ["joined"], ["second"]),
        helper.make_node(
            "Conv", ["second", "w2"], ["windows"], pads=[1, 1, 1, 1], strides=[2, 2], group=channels if depthwise else 1
        ),
        helper.make_node("Relu", ["windows"], ["third"]),
        helper.make_node("Conv", ["third", "w3"], ["y"]),
    ]
    weights = {
        "w0": weight(channels, 16, 1, 1),
        "b0": weight(channels, 1)[:, 0],
        "w1": weight(channels, channels, 1, 1),
        "w2": weight(channels, 1 if depthwise else channels, 3, 3),
        "w3": weight(32, channels, 1, 1),
    }
    sizes = ["n", 16, "h", "w"] if dynamic else [images, 16, size, size]
    given = [helper.make_tensor_value_info("x", 1, sizes)]
    kept = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", 1, None)], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def images(monkeypatch):
    """How many channels, room with them, the images have that the program at hand takes memory for."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    outline, found = kernels.outline, []

    def see(module, loops):
        text = module.operation.get_asm(large_elements_limit=4)
        found.extend(int(number) for number in re.findall(r"memref\.alloc\([^)]*\)[^:]*: memref<[0-9?x]*x(\d+)xf32>", text))
        return outline(module, loops)

    monkeypatch.setattr(kernels, "outline", see)
    return found


def built(model):
    lowered = o2m.convert(model).lowered
    entry_of(lowered)


@pytest.mark.parametrize(("channels", "room"), [(256, 272), (512, 528), (768, 784)])
def test_room_where_pixels_share_sets(images, channels, room):
    built(bottleneck(channels))
    # Two images of convolutions of single pixels at least, one of them padded.
    assert images.count(room) >= 2


@pytest.mark.parametrize("channels", [128, 240, 272])
def test_no_room_where_pixels_are_in_many_sets(images, channels):
    built(bottleneck(channels))
    assert images
    assert set(images).isdisjoint({channels + 16})


def test_padded_images_of_open_size_have_room_too(images):
    built(bottleneck(256, dynamic=True))
    assert 272 in images


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("depthwise", [True, False], ids=["depthwise", "dense"])
@pytest.mark.parametrize(("channels", "count", "size"), [(256, 1, 6), (256, 3, 5), (512, 2, 7), (1024, 1, 4)])
def test_numbers(channels, count, size, depthwise, threads):
    model = bottleneck(channels, count, size, depthwise=depthwise)
    x = RNG.standard_normal((count, 16, size, size)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    engine = o2m.convert(model).compile(threads=threads)
    engine.worth = 1 if threads > 1 else 0
    for _ in range(2):
        np.testing.assert_allclose(engine.run({"x": x})[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_numbers_of_open_size(size):
    model = bottleneck(256, dynamic=True)
    engine = o2m.convert(model).compile(threads=1)
    x = RNG.standard_normal((2, 16, size, size)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(engine.run({"x": x})[0], expected, rtol=1e-4, atol=1e-4)


def test_no_room_where_no_window_reads_what_is_padded(images):
    pads = numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 0, 2, 0]), "pads")
    node = helper.make_node("Pad", ["x", "pads"], ["y"])
    shapes = [helper.make_tensor_value_info("x", 1, [1, 3, 5, 256]), helper.make_tensor_value_info("y", 1, [1, 3, 8, 256])]
    graph = helper.make_graph([node], "g", shapes[:1], shapes[1:], [pads])
    built(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert 272 not in images
