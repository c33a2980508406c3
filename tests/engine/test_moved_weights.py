"""Weights that are laid out anew for a contraction are made once, when a program is loaded; transposed convolutions need it."""

import numpy as np
import pytest
import torch

import onnx2torch_mlir as o2m
from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import contractions, order_propagation
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.derived import evaluated
from onnx2torch_mlir.engine.options import Options
from tests.engine.programs import lowered, tensor
from tests.one_node import node_model

F = torch.float32
WINDOWS = {
    "strides that divide": {"kernel": (4, 4), "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "no overlap": {"kernel": (2, 2), "strides": [2, 2]},
    "strides that do not divide": {"kernel": (3, 3), "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    "strides beyond the kernel": {"kernel": (2, 1), "strides": [3, 2], "output_padding": [2, 1]},
    "one stride": {"kernel": (5, 2), "strides": [1, 2], "pads": [2, 0, 1, 1]},
    "no stride": {"kernel": (3, 2), "pads": [1, 1, 1, 0]},
    "dilated": {"kernel": (3, 3), "strides": [2, 1], "dilations": [2, 2], "pads": [2, 2, 2, 2]},
    "groups": {"kernel": (3, 3), "strides": [2, 2], "pads": [1, 1, 1, 1], "group": 3},
    "a line": {"kernel": (16,), "strides": [8], "pads": [4, 4]},
    "a space": {"kernel": (2, 3, 2), "strides": [2, 2, 1], "group": 2},
}


def transposed(kernel, *, group=1, known=True, **attributes):
    rng = np.random.default_rng(len(kernel) + group)
    size = (9, 7, 4)[: len(kernel)]
    x = rng.standard_normal((2, 6, *size)).astype(np.float32)
    weight = rng.standard_normal((6, 5, *kernel)).astype(np.float32)
    inputs = [x, weight]
    return node_model("ConvTranspose", inputs, opset=11, known=[1] if known else [], group=group, **attributes), inputs


def expected(x, weight, *, strides=(1,), pads=(), dilations=(1,), output_padding=(0,), group=1):
    spatial = x.ndim - 2
    strides, dilations, extra = (list(v) * (spatial if len(v) == 1 else 1) for v in (strides, dilations, output_padding))
    function = getattr(torch.nn.functional, f"conv_transpose{spatial}d")
    wide = (torch.from_numpy(v).double() for v in (x, weight))
    whole = function(*wide, stride=strides, dilation=dilations, groups=group).numpy()
    whole = np.pad(whole, [(0, 0), (0, 0), *((0, e) for e in extra)])
    pads = list(pads) or [0] * (2 * spatial)
    inside = (slice(low, size - high) for low, high, size in zip(pads[:spatial], pads[spatial:], whole.shape[2:], strict=True))
    return whole[:, :, *inside]


@pytest.mark.parametrize("known", [True, False], ids=["weight", "input"])
@pytest.mark.parametrize("name", WINDOWS)
def test_transposed_convolutions(name, known):
    window = WINDOWS[name]
    model, inputs = transposed(known=known, **window)
    program = o2m.convert(model).compile(threads=1)
    feeds = {f"in{i}": array for i, array in enumerate(inputs[: 1 if known else 2])}
    reference = expected(*inputs, **{key: value for key, value in window.items() if key != "kernel"})
    np.testing.assert_allclose(program.run(feeds)[0], reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["strides that divide", "strides that do not divide", "no stride", "a line"])
def test_register_tiles_take_them(name, monkeypatch):
    found = []
    # Where lines fill vectors, few channels are no sums of products.
    monkeypatch.setattr(order_propagation, "is_along_lines", lambda generic: False)
    match = contractions.match
    monkeypatch.setattr(contractions, "match", lambda nest: found.append(match(nest)) or found[-1])
    model, _ = transposed(**WINDOWS[name])
    made = o2m.convert(model).lowered
    entry = build(made.bytecode, Options(inputs=1))
    assert any(each is not None for each in found)
    ((_, is_read, _),) = entry["derived"]
    assert entry["packings"]
    assert not is_read


def test_a_weight_that_is_repeated_stays_small():
    """What would be many times as large in memory is repeated while the program runs."""
    small, large, wide = tensor(F, (3, 4)), tensor(F, (8, 3, 4)), tensor(F, (24, 4))
    x, y = tensor(F, (24, 5)), tensor(F, (5, 4))
    body = f"""
      %e = tensor.empty() : {large}
      %b = linalg.generic {{indexing_maps = [affine_map<(r, k, n) -> (k, n)>, affine_map<(r, k, n) -> (r, k, n)>],
          iterator_types = ["parallel", "parallel", "parallel"]}} ins(%a1 : {small}) outs(%e : {large}) {{
        ^bb0(%p: f32, %o: f32):
          linalg.yield %p : f32 }} -> {large}
      %w = tensor.collapse_shape %b [[0, 1], [2]] : {large} into {wide}
      %z = arith.constant 0.0 : f32
      %ye = tensor.empty() : {y}
      %yf = linalg.fill ins(%z : f32) outs(%ye : {y}) -> {y}
      %y = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%a0, %w : {x}, {wide}) outs(%yf : {y}) {{
        ^bb0(%u: f32, %v: f32, %t: f32):
          %p = arith.mulf %u, %v : f32
          %s = arith.addf %t, %p : f32
          linalg.yield %s : f32 }} -> {y}
      return %y : {y}"""
    rng = np.random.default_rng(0)
    weight, given = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (24, 5)))
    made = lowered(body, [(F, (24, 5))], [(F, (5, 4))], [(weight, F, (3, 4))])
    assert not build(made.bytecode, Options(inputs=1))["derived"]
    np.testing.assert_allclose(engine.compile(made).run([given])[0], given.T @ np.tile(weight, (8, 1)), rtol=1e-5, atol=1e-5)


def test_steps_that_lay_out_anew():
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    steps = [["weight", 0], ["flip", 0, [1]], ["pad", 1, 7.0, [1, 0], [0, 2]]]
    whole = [[7, 7, 7, 7, 7], [2, 1, 0, 7, 7], [5, 4, 3, 7, 7]]
    np.testing.assert_array_equal(evaluated(steps, [weight]), np.array(whole, np.float32))
