"""Networks around convolutions: the same numbers as onnxruntime, and values moved only where orders meet."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import channels_last, passes, reshaped_nests, single_pixels
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert


class Net:
    """An ONNX graph that grows node by node from one input ``x``."""

    def __init__(self, seed, shape, dtype=np.float32, dynamic=()):
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.nodes, self.constants = [], []
        self.channels = {"x": shape[1]}
        named = [f"d{axis}" if axis in dynamic else size for axis, size in enumerate(shape)]
        element = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.inputs = [helper.make_tensor_value_info("x", element, named)]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op, *inputs, channels=None, outputs=1, **attributes):
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.channels[name] = self.channels.get(inputs[0]) if channels is None else channels
        return name

    def weight(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5).astype(self.dtype))

    def conv(self, x, filters, kernel=(3, 3), groups=1, **attributes):
        weights = self.weight(filters, self.channels[x] // groups, *kernel), self.weight(filters)
        return self.add("Conv", x, *weights, channels=filters, group=groups, kernel_shape=kernel, **attributes)

    def model(self, *outputs):
        declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, declared, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def agrees(net, *outputs, rtol=2e-5, shape=None, reference="onnxruntime"):
    """Natively as onnxruntime, or as PyTorch runs the core program."""
    model = net.model(*outputs)
    program = convert(read(model))
    x = net.rng.standard_normal(shape or net.shape).astype(net.dtype)
    if reference == "onnxruntime":
        wanted = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    else:
        wanted = program.eager().run([x])
    for result, want in zip(program.compile().run([x]), wanted, strict=True):
        assert result.dtype == want.dtype and result.shape == want.shape
        np.testing.assert_allclose(result, want, rtol=rtol, atol=rtol * (1 + np.abs(want).max(initial=0)))


def moves(net, *outputs, what="linalg.transpose"):
    """How many values are moved once the orders are chosen; or ``what`` else is counted then."""
    program = convert(read(net.model(*outputs))).lowered
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        passes.run(module, "simplification", "inline," + passes.SIMPLIFY, passes.Diagnostics())
        channels_last.carry(module)
        assert module.operation.verify()
        passes.run(module, "simplification", passes.SIMPLIFY, passes.Diagnostics())
        return str(module).count(what)


def residual(net, x):
    inner = net.add("Relu", net.conv(x, net.channels[x], pads=[1] * 4))
    return net.add("Add", net.conv(inner, net.channels[x], pads=[1] * 4), x)


def squeezed(net, x):
    pooled = net.add("GlobalAveragePool", x)
    gate = net.add("HardSigmoid", net.conv(pooled, net.channels[x], (1, 1)))
    return net.add("Mul", x, gate)


def test_a_residual_network_is_moved_at_its_edges():
    net = Net(0, (2, 3, 19, 17), dynamic=(0, 2, 3))
    x = net.add(
        "MaxPool", net.conv("x", 8, (7, 7), strides=[2, 2], pads=[3] * 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
    )
    x = squeezed(net, residual(net, residual(net, x)))
    scores = net.add("Gemm", net.add("Flatten", net.add("GlobalAveragePool", x)), net.weight(8, 5))
    assert moves(net, scores) == 1
    assert moves(net, x) == 2
    agrees(net, scores, x, shape=(3, 3, 23, 30))


def test_joined_cut_padded_and_enlarged():
    net = Net(1, (1, 4, 11, 13))
    x = net.conv("x", 6, pads=[1] * 4)
    joined = net.add("Concat", x, net.add("Relu", net.conv(x, 5, pads=[2] * 4, dilations=[2, 2])), axis=1, channels=11)
    cut = net.add("Slice", joined, *(net.constant(np.array(v)) for v in ([2, 1], [9, 12], [1, 2], [2, 3])), channels=4)
    padded = net.add("Pad", cut, net.constant(np.array([0, 1, 0, 2, 0, 0, 1, 0])), channels=5)
    larger = net.add("Resize", padded, "", net.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear")
    result = net.conv(net.add("Tanh", larger), 3, (1, 1))
    assert moves(net, result) == 2
    agrees(net, result, cut)


def test_transposed_and_grouped():
    net = Net(2, (2, 6, 5, 7))
    x = net.conv("x", 8, (3, 2), groups=2)
    x = net.add("ConvTranspose", x, net.weight(8, 4, 2, 2), net.weight(4), strides=[2, 2], channels=4)
    x = net.add("ConvTranspose", net.add("Relu", x), net.weight(4, 3, 3, 3), group=2, pads=[1] * 4, channels=6)
    agrees(net, net.conv(x, 12, groups=6))


def test_a_single_image_of_groups_has_its_dims_where_its_neighbours_have_them():
    net = Net(2, (1, 6, 9, 7))
    x = net.add("Relu", net.conv("x", 24, (1, 1)))
    x = net.add("Relu", net.conv(x, 24, groups=3, pads=[1] * 4, strides=[2, 2]))
    result = net.conv(x, 5, (1, 1))
    # All that is reshaped are the groups of channels: the batch of one is no reason.
    assert moves(net, result, what="tensor.collapse_shape") == 1
    agrees(net, result)


def test_tokens_of_patches_are_not_moved():
    net = Net(3, (2, 3, 12, 8), dynamic=(0,))
    x = net.conv("x", 16, (4, 4), strides=[4, 4])
    flat = net.add("Reshape", x, net.constant(np.array([0, 16, 6])))
    tokens = net.add("Transpose", flat, perm=[0, 2, 1])
    result = net.add("MatMul", net.add("LayerNormalization", tokens, net.weight(16)), net.weight(16, 5))
    assert moves(net, result) == 1
    agrees(net, result, tokens)


def test_shuffled_channels_and_planes_that_are_flattened():
    net = Net(4, (1, 4, 6, 5))
    x = net.conv("x", 12, groups=4, pads=[1] * 4)
    split = net.add("Reshape", x, net.constant(np.array([1, 3, 4, 6, 5])))
    shuffled = net.add(
        "Reshape", net.add("Transpose", split, perm=[0, 2, 1, 3, 4]), net.constant(np.array([1, 12, 6, 5])), channels=12
    )
    x = net.add("DepthToSpace", net.conv(shuffled, 8), blocksize=2, channels=2)
    agrees(net, net.add("Flatten", x), net.add("Softmax", x, axis=1), net.add("Gather", x, net.constant(np.array(1)), axis=1))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dynamic", [(), (0, 2, 3)], ids=["static", "dynamic"])
def test_channels_that_are_shuffled_stay_last(batch, dynamic):
    net = Net(6, (batch, 12, 5, 7), dynamic=dynamic)
    # Nearer to the convolution behind them, as what joins branches is.
    x = net.add("Sigmoid", net.add("Neg", net.conv("x", 12, (3, 3))))
    sizes = [net.add("Shape", x, start=axis, end=axis + 1) for axis in range(4)]
    fine = net.add("Concat", sizes[0], net.constant(np.array([3, 4])), sizes[2], sizes[3], axis=0)
    turned = net.add("Transpose", net.add("Reshape", x, fine), perm=[0, 2, 1, 3, 4])
    coarse = net.add("Concat", sizes[0], net.constant(np.array([12])), sizes[2], sizes[3], axis=0)
    out = net.conv(net.add("Reshape", turned, coarse, channels=12), 8, (3, 3))
    # The input and the result are turned, and the channels once where they are.
    assert moves(net, out) == 3
    agrees(net, out)
    agrees(net, out, shape=(2, 12, 6, 9) if dynamic else None)


@pytest.mark.parametrize(
    ("shape", "kernel", "dtype"),
    [
        ((2, 3, 9), (2,), "float32"),
        ((1, 2, 5, 4, 6), (3, 1, 2), "float32"),
        ((0, 3, 5, 5), (3, 3), "float32"),
        ((1, 1, 1, 1), (1, 1), "float32"),
        ((2, 3, 4, 5), (2, 2), "float64"),
    ],
    ids=str,
)
def test_ranks_and_sizes(shape, kernel, dtype):
    net = Net(5, shape, dtype)
    x = net.add("Relu", net.conv("x", 4, kernel))
    pointed = net.add("Add", net.conv(x, 4, (1,) * len(kernel), groups=2), x)
    agrees(net, x, net.add("ReduceMean", pointed, channels=4), reference="torch")


def random_network(seed):
    """A network of a dozen nodes, each reading what was made before."""
    net = Net(seed, (2, 6, 9, 8), dynamic=(0,) if seed % 2 else (0, 2, 3))
    rng = net.rng
    planes = ["x"]
    for _ in range(12):
        x = planes[rng.integers(len(planes) // 2, len(planes))]
        c = net.channels[x]
        choice = rng.integers(10)
        if choice < 3:
            groups = int(rng.choice([g for g in (1, 2, 3, c) if c % g == 0]))
            planes.append(net.conv(x, groups * int(rng.integers(1, 4)), (3, 3), groups=groups, pads=[1] * 4))
        elif choice == 3:
            other = next(p for p in reversed(planes) if net.channels[p] == c)
            planes.append(net.add(str(rng.choice(["Add", "Mul", "Max"])), x, other))
        elif choice == 4:
            other = planes[rng.integers(len(planes))]
            planes.append(net.add("Concat", x, other, axis=1, channels=c + net.channels[other]))
        elif choice == 5:
            planes.append(net.add("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=int(rng.integers(2))))
        elif choice == 6:
            pool = net.add(str(rng.choice(["GlobalAveragePool", "GlobalMaxPool"])), x)
            planes.append(net.add("Sub", x, pool))
        elif choice == 7:
            turned = net.add("Transpose", x, perm=[0, 2, 3, 1])
            normal = net.add("LayerNormalization", turned, net.weight(c), net.weight(c))
            planes.append(net.add("Transpose", normal, perm=[0, 3, 1, 2], channels=c))
        elif choice == 8:
            planes.append(net.add("InstanceNormalization", x, net.weight(c), net.weight(c)))
        else:
            planes.append(net.add("Sigmoid", net.add("Softmax", x, axis=int(rng.integers(1, 4)))))
    return net, planes[-1]


@pytest.mark.parametrize("seed", range(4))
def test_networks_at_random(seed):
    net, last = random_network(seed)
    agrees(net, last, rtol=1e-4, shape=(3, 6, 7, 10) if not seed % 2 else None)


def test_the_switch(monkeypatch):
    net, last = random_network(11)
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "channels_last")
    agrees(net, last, rtol=1e-4)


def test_nothing_is_done_without_convolutions():
    net = Net(6, (2, 3, 4, 5))
    assert moves(net, net.add("GlobalAveragePool", net.add("MaxPool", "x", kernel_shape=[2, 2]))) == 0


@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 1]}, {"pads": [1, 0, 2, 1]}], ids=str)
@pytest.mark.parametrize("dynamic", [(), (0, 2, 3)], ids=["static", "dynamic"])
def test_a_product_of_pixels_alone_stays_where_it_is(attributes, dynamic):
    net = Net(7, (2, 24, 9, 13), dynamic=dynamic)
    alone = net.add("Relu", net.conv("x", 33, (1, 1), **attributes))
    assert moves(net, alone) == 0
    agrees(net, alone)
    follower = net.conv(alone, 16, (1, 1))
    assert moves(net, follower) == 2
    agrees(net, follower, alone)


@pytest.mark.parametrize("dynamic", [(), (0, 2, 3)], ids=["static", "dynamic"])
def test_pixels_of_all_axes_are_one_loop(dynamic):
    net = Net(9, (2, 5, 4, 6), dynamic=dynamic)
    program = convert(read(net.model(net.conv("x", 7, (1, 1))))).lowered
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        passes.run(module, "simplification", "inline," + passes.SIMPLIFY, passes.Diagnostics())
        single_pixels.merge_pixels(module)
        reshaped_nests.expand_batches(module)
        assert module.operation.verify()
        assert str(module).count('iterator_types = ["parallel", "parallel", "parallel", "reduction"]') == 1


@pytest.mark.parametrize(
    "shape, filters, kernel, stride, moved",
    [
        ((2, 3, 9, 130), 96, (3, 3), 1, 0),
        ((2, 3, 9, 129), 400, (3, 3), 1, 2),  # lines of 127
        ((2, 11, 9, 130), 98, (3, 3), 1, 2),  # sums of 99 products
        ((1, 2, 700), 60, (5,), 5, 0),
        ((1, 2, 700), 59, (5,), 5, 2),
        ((2, 2, "n"), 40, (4,), 1, 0),
        ((2, 2, 9, "n"), 40, (4, 2), 1, 2),
    ],
    ids=str,
)
def test_long_lines_of_short_sums_stay_where_they_are(shape, filters, kernel, stride, moved):
    known = tuple(300 if size == "n" else size for size in shape)
    net = Net(10, known, dynamic=[axis for axis, size in enumerate(shape) if size == "n"])
    alone = net.add("Relu", net.conv("x", filters, kernel, strides=[stride] * len(kernel)))
    assert moves(net, alone) == moved
    agrees(net, alone, rtol=1e-4)
    follower = net.conv(alone, 16, kernel)
    assert moves(net, follower) == 2
    agrees(net, follower, alone, rtol=1e-4)


def test_long_lines_of_groups_move():
    net = Net(11, (1, 64, 5, 200))
    assert moves(net, net.conv("x", 64, groups=2)) == 2


@pytest.mark.parametrize(
    "shape, filters, kernel, stride, groups, stays",
    [
        ((2, 3, 9, 34), 32, (3, 3), 1, 1, True),
        ((2, 16, 9, 34), 17, (3, 3), 1, 1, True),
        ((2, 41, 9, 34), 25, (3, 3), 1, 1, False),  # more channels times filters than 1024
        ((2, 32, 9, 34), 32, (3, 3), 1, 1, False),  # many of both
        ((2, 16, 9, 34), 32, (3, 3), 1, 1, True),
        ((2, 16, 9, 28), 32, (3, 3), 1, 1, of_host().lanes < 8),  # filters fill vectors, lines of 26 do not
        ((2, 8, 9, 28), 32, (3, 3), 1, 1, True),  # channels that are very few
        ((2, 34, 9, 34), 34, (3, 3), 1, 17, True),
        ((1, 5, 9, 23), 5, (3, 3), 2, 5, True),
        ((1, 10, 9, 65), 10, (3, 3), 2, 5, True),
        ((1, 17, 9, 65), 16, (3, 3), 2, 1, False),  # more than 256, with a stride
        ((1, 5, 9, 41), 5, (3, 3), 3, 5, False),
        ((2, 3, 9, 19), 4, (3, 3), 1, 1, of_host().lanes < 16),  # lines of 17
        ((2, 3, 9, 34), 4, (1, 3), 1, 1, False),  # windows of one line
        ((2, 3, 3, 34), 4, (3, 3), 1, 1, False),  # images of one line
        ((2, 3, 34), 4, (3,), 1, 1, False),
        ((2, 3, 9, "n"), 4, (3, 3), 1, 1, False),
    ],
    ids=str,
)
def test_few_channels_and_filters_stay_where_they_are(shape, filters, kernel, stride, groups, stays):
    known = tuple(34 if size == "n" else size for size in shape)
    net = Net(12, known, dynamic=[axis for axis, size in enumerate(shape) if size == "n"])
    alone = net.add("Relu", net.conv("x", filters, kernel, strides=[stride] * len(kernel), groups=groups))
    assert (moves(net, alone) == 0) == stays
    agrees(net, alone, rtol=1e-4)


@pytest.mark.parametrize("filters, stays", [((8, 16, 5), True), ((8, 16, 80), False)], ids=str)
def test_convolutions_of_few_channels_that_reach_each_other_stay_too(filters, stays):
    """All of them, through what is between them, unless one is better off with its channels last."""
    net, out = Net(13, (1, 3, 18, 66)), "x"
    for number in filters:
        out = net.add("Relu", net.conv(out, number, pads=[1] * 4))
    assert (moves(net, out) == 0) == stays
    agrees(net, out, rtol=1e-4)


@pytest.mark.parametrize(
    "shape, taps, stride, dynamic, stays",
    [
        ((2, 24, 50), 5, 1, (), True),
        ((2, 24, 50), 8, 2, (), True),
        ((1, 24, 50), 9, 1, (), False),
        ((1, 3, 50), 9, 1, (), True),
        ((2, 24, 50), 3, 1, (0, 2), True),
        ((2, 24, 50, 9), (3, 1), 1, (), False),  # images
    ],
    ids=str,
)
def test_few_taps_of_single_lines_stay_where_they_are(shape, taps, stride, dynamic, stays):
    net = Net(13, shape, dynamic=dynamic)
    kernel = taps if isinstance(taps, tuple) else (taps,)
    alone = net.add("Relu", net.conv("x", shape[1], kernel, strides=[stride] * len(kernel), groups=shape[1]))
    assert (moves(net, alone) == 0) == stays
    agrees(net, alone, rtol=1e-4)


@pytest.mark.parametrize("groups, filters", [(8, 8), (8, 16), (4, 12), (2, 8), (2, 34)])
@pytest.mark.parametrize(
    "shape, dynamic", [((1, 8, 6, 5), ()), ((3, 8, 7, 9), ()), ((2, 8, 6, 5), (0, 2, 3)), ((2, 8, 3, 4, 5), ())]
)
def test_grouped_pixels_stay(shape, dynamic, groups, filters):
    """They are products of matrices, one for each group, over all pixels as one loop."""
    net = Net(8, shape, dynamic=dynamic)
    alone = net.add("Relu", net.conv("x", filters, (1,) * (len(shape) - 2), groups=groups))
    assert moves(net, alone) == 0
    agrees(net, alone, rtol=1e-4)


@pytest.mark.parametrize("shape, dynamic", [((2, 8, 1, 1), ()), ((2, 8, 1, 1), (0,)), ((1, 8, 1, 1), ()), ((2, 8, 5, 1), (0,))])
def test_one_number_per_channel_where_images_are_one_pixel(shape, dynamic):
    """The columns of the sums are not their last axis: behind it are two of one place."""
    net = Net(5, shape, dynamic=dynamic)
    agrees(net, net.add("HardSigmoid", net.conv("x", 7, (1, 1))))
