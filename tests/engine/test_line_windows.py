"""Lone convolutions of few channels, done as they lie, a vector along a line: the numbers of onnxruntime, and which are."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.options import of_environment
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine.programs import lowered, tensor
from tests.engine.test_channels_last import Net, agrees

F = torch.float32

# The shape, how many filters and groups, the kernel, and attributes.
CASES = {
    "depthwise": ((2, 5, 9, 29), 5, 5, (3, 3), {"pads": [1] * 4}),
    "depthwise, whole vectors": ((1, 3, 11, 34), 3, 3, (3, 3), {}),
    "depthwise, several filters": ((2, 5, 9, 29), 10, 5, (3, 3), {"pads": [1] * 4}),
    "depthwise, with a stride": ((2, 5, 13, 27), 5, 5, (5, 5), {"pads": [2] * 4, "strides": [2, 2]}),
    "stride, whole vectors": ((1, 2, 9, 65), 2, 2, (3, 3), {"strides": [2, 2]}),
    "stride along lines alone": ((1, 2, 9, 57), 2, 2, (3, 3), {"strides": [1, 2]}),
    "stride across lines alone": ((1, 2, 19, 30), 2, 2, (3, 3), {"strides": [3, 1]}),
    "dilations": ((1, 4, 20, 40), 4, 4, (3, 3), {"dilations": [2, 3]}),
    "stride and dilations": ((1, 4, 30, 90), 4, 4, (4, 3), {"dilations": [3, 2], "strides": [2, 2]}),
    "few channels": ((2, 3, 10, 32), 7, 1, (3, 3), {"pads": [1] * 4}),
    "one channel": ((1, 1, 28, 28), 64, 1, (5, 5), {}),
    "groups": ((2, 12, 10, 29), 8, 4, (3, 3), {"pads": [1] * 4}),
    "tall windows": ((1, 4, 40, 30), 4, 2, (33, 2), {}),
    "lines of one tap": ((1, 4, 12, 30), 4, 2, (5, 1), {}),
    "volumes": ((1, 2, 5, 6, 30), 4, 2, (2, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
    "less at one side": ((1, 3, 9, 30), 3, 3, (3, 3), {"pads": [2, 0, 1, 3]}),
}


def network(name, dynamic=(), tail=("Relu",)):
    shape, filters, groups, kernel, attributes = CASES[name]
    net = Net(3, shape, dynamic=dynamic)
    out = net.conv("x", filters, kernel, groups=groups, **attributes)
    for op in tail:
        out = net.add(op, out)
    return net, out


def code_of(net, out):
    program = convert(read(net.model(out))).lowered
    return build(program.bytecode, of_environment(len(program.inputs)))["object"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("disabled", ["", "windows", "all"])
def test_same_numbers_as_onnxruntime(name, disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    net, out = network(name)
    assert (b"o2m_window_0" in code_of(net, out)) == (not disabled)
    agrees(net, out)


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("batch", [1, 5])
def test_any_batch(batch, threads, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_THREADS", threads)
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    net, out = network("groups", dynamic=(0, 2))
    assert b"o2m_window_0" in code_of(net, out)
    agrees(net, out, shape=(batch, 12, 17, 29))


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("name, size", [("few channels", (5, 3, 17, 32)), ("volumes", (3, 2, 7, 9, 30))])
def test_any_size_of_an_image(name, size, threads, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_THREADS", threads)
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    net, out = network(name, dynamic=range(2, len(size) - 1))
    assert b"o2m_window_0" in code_of(net, out)
    agrees(net, out, shape=(CASES[name][0][0], *size[1:]))


def test_what_follows_is_done_too_in_volumes(monkeypatch):
    """The loop over filters lies between that over images and those over planes."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    net = Net(7, (2, 2, 5, 6, 34))
    out = net.add("Relu", net.conv("x", 7, (2, 3, 3)))
    assert b"o2m_kernel_0" not in code_of(net, out)
    agrees(net, out)


@pytest.mark.parametrize("tail", [(), ("Relu",), ("Sigmoid",), ("Exp", "Sqrt")], ids=str)
def test_what_follows_is_done_too(tail, monkeypatch):
    """The bias moves with the filters: no kernel is left over but what pads the image."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    net, out = network("depthwise", tail=tail)
    code = code_of(net, out)
    # The borders of the image, two by two, and the image.
    assert b"o2m_kernel_2" in code and b"o2m_kernel_3" not in code
    agrees(net, out)


def test_a_number_of_each_line_follows_by_itself():
    net = Net(4, (2, 3, 9, 34))
    convolved = net.conv("x", 3, groups=3)
    scaled = net.add("Mul", convolved, net.constant(net.rng.standard_normal((3, 7, 1)).astype(np.float32)))
    agrees(net, scaled)


def test_an_image_is_added():
    net = Net(5, (2, 3, 9, 32))
    convolved = net.conv("x", 3, groups=3, pads=[1] * 4)
    agrees(net, net.add("Add", convolved, "x"))


def test_a_number_of_each_image_follows_too():
    net = Net(6, (2, 3, 9, 34), dynamic=(0,))
    net.inputs.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, ["d0", 1, 1, 1]))
    scaled = net.add("Mul", net.conv("x", 3, groups=3), "s")
    model = net.model(scaled)
    x, s = (net.rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3, 9, 34), (4, 1, 1, 1)))
    program = convert(read(model))
    found, wanted = program.compile().run([x, s])[0], program.eager().run([x, s])[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


TAILS = {
    "an image": ("Add", (2, 0, 7, 34)),  # 0: as many as there are filters
    "a number of each filter": ("Mul", (0, 1, 1)),
    "a line": ("Add", (34,)),
    "none": (),
}


@pytest.mark.parametrize("filters", [2, 3, 4, 6, 9])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("after", [(), ("Gelu", "Tanh")], ids=["short", "long"])
def test_filters_that_read_the_same_are_done_together(filters, tail, after, monkeypatch):
    """So many as registers have room for, and those that are left: what follows is each one's own."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    net = Net(filters, (2, 3, 9, 36))
    out, others = net.conv("x", filters), []
    if TAILS[tail]:
        op, shape = TAILS[tail]
        shape = tuple(size or filters for size in shape)
        net.inputs.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, shape))
        out, others = net.add(op, out, "s"), [net.rng.standard_normal(shape).astype(np.float32)]
    for op in after:
        out = net.add(op, out)
    most = of_host().registers // 8
    assert (b"o2m_window_1" in code_of(net, out)) == (filters > most and filters % most != 0)
    x = net.rng.standard_normal((2, 3, 9, 36)).astype(np.float32)
    program = convert(read(net.model(out)))
    found, wanted = program.compile().run([x, *others])[0], program.eager().run([x, *others])[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("threads", ["2", "5"])
def test_a_single_image_of_few_filters_is_shared_among_threads(threads, monkeypatch):
    """Tiles of lines are, of which there are more than filters."""
    monkeypatch.setenv("ONNX2MLIR_THREADS", threads)
    net = Net(9, (1, 4, 131, 200))
    agrees(net, net.add("Relu", net.conv("x", 3, pads=[1] * 4)))


def test_weights_that_are_inputs_are_products():
    net = Net(7, (2, 3, 9, 34))
    net.inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3, 3, 3]))
    out = net.add("Conv", "x", "w", channels=4)
    program = convert(read(net.model(out)))
    x, w = (net.rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 9, 34), (4, 3, 3, 3)))
    found, wanted = program.compile().run([x, w])[0], program.eager().run([x, w])[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_weights_of_each_place_are_no_filter():
    """Every other number of a line meets weights of its own: places that are apart do not stand for channels."""
    w = np.random.default_rng(0).standard_normal((20, 3, 3)).astype(np.float32)
    x, y = tensor(F, (9, 41)), tensor(F, (7, 20))
    body = f"""
      %e = tensor.empty() : {y}
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%e : {y}) -> {y}
      %r = linalg.generic {{indexing_maps = [affine_map<(i, j, p, q) -> (i + p, j * 2 + q)>,
          affine_map<(i, j, p, q) -> (j, p, q)>, affine_map<(i, j, p, q) -> (i, j)>],
          iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
          ins(%a0, %a1 : {x}, {tensor(F, w.shape)}) outs(%f : {y}) {{
        ^bb0(%u: f32, %v: f32, %t: f32):
          %m = arith.mulf %u, %v : f32
          %s = arith.addf %t, %m : f32
          linalg.yield %s : f32 }} -> {y}
      return %r : {y}"""
    image = np.random.default_rng(1).standard_normal((9, 41)).astype(np.float32)
    (found,) = engine.compile(lowered(body, [(F, (9, 41))], [(F, (7, 20))], [(w, F, w.shape)])).run([image])
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))[:, ::2]
    np.testing.assert_allclose(found, np.einsum("ijpq,jpq->ij", windows, w), rtol=1e-4, atol=1e-4)


def test_nothing_behind_the_last_number_is_read(monkeypatch):
    """The last line ends where a page of memory does, behind which there is none."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    net = Net(8, (1, 1, 9, 65))
    out = net.conv("x", 1, strides=[2, 2])
    size = 9 * 65 * 4
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(base + pages * page), page, 0) == 0
    x = np.frombuffer((ctypes.c_char * size).from_address(base + pages * page - size), np.float32).reshape(1, 1, 9, 65)
    x[:] = net.rng.standard_normal(x.shape)
    program = convert(read(net.model(out)))
    found, wanted = program.compile().run([x])[0], program.eager().run([x.copy()])[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
