"""Models of one convolution and what follows it, and the same in double precision."""

import numpy as np
import torch
from onnx import helper, numpy_helper

FLOAT = 1


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def model(shape, weight, bias, tail=(), dynamic=False, **attributes):
    """A convolution, and the operators of ``tail`` one by one after it; the last may read ``r``."""
    nodes, value = [helper.make_node("Conv", ["x", "w"] + ["b"] * bias, ["y0"], **attributes)], "y0"
    for i, name in enumerate(tail):
        nodes.append(helper.make_node(name, [value, "r"] if name == "Add" else [value], [f"y{i + 1}"]))
        value = f"y{i + 1}"
    out, channels = weight.shape[:2]
    given = ["n", channels, "h", "v"] if dynamic else shape
    inputs = [helper.make_tensor_value_info("x", FLOAT, given)]
    if "Add" in tail:
        inputs.append(helper.make_tensor_value_info("r", FLOAT, [given[0], out, *given[2:]]))
    weights = [numpy_helper.from_array(weight, "w")] + [numpy_helper.from_array(numbers(out), "b")] * bias
    result = helper.make_tensor_value_info(value, FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "g", inputs, [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(x, weight, bias, tail=(), r=None, pads=0, **attributes):
    """The same in double precision."""
    x, w, b = (torch.from_numpy(a).double() for a in (x, weight, numbers(weight.shape[0])))
    y = torch.nn.functional.conv2d(x, w, b if bias else None, padding=pads, **attributes).numpy()
    for name in tail:
        y = y + r if name == "Add" else np.maximum(y, 0)
    return y
