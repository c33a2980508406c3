"""Pointwise nests as the fewest loops, of known and of open sizes: the same numbers at every size."""

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import collapse, kernels
from tests.engine.made_here import engine_of, entry_of

X = "float[a, b, c] x"
PADS = "p = Constant<value_ints = [0, 1, 2, 0, 3, 1]>()\n n = Neg(x)\n q = Pad(n, p)\n y = Neg(q)"
NESTS = {
    "dense": (X, "y = Neg(x)", [1]),
    "one number": (X + ", float s", "y = Mul(x, s)", [1]),
    "by column": (X + ", float[c] v", "y = Add(x, v)", [2]),
    "by row": (X + ", float[a, b, 1] v", "y = Add(x, v)", [2]),
    "by the middle": (X + ", float[1, b, 1] v", "y = Add(x, v)", [3]),
    "by the outermost": (X + ", float[a, 1, 1] v", "y = Add(x, v)", [2]),
    "by plane": (X + ", float[b, c] v", "y = Add(x, v)", [2]),
    "turned": ("float[a, b, c] x, float[a, c, b] v", "t = Transpose<perm = [0, 2, 1]>(v)\n y = Add(x, t)", None),
    "turned as one": ("float[a, b, c] x, float[b, c, a] v", "t = Transpose<perm = [2, 0, 1]>(v)\n y = Add(x, t)", None),
    "known columns": ("float[a, b, 5] x, float[5] v", "y = Add(x, v)", [2]),
    "into the middle": (X, PADS, None),
    "of a slice": (
        X,
        "l = Constant<value_ints = [1, 0, 1]>()\n h = Constant<value_ints = [99, 99, 99]>()\n z = Slice(x, l, h)\n y = Neg(z)",
        None,
    ),
    "several axes as one": (X, "r = Flatten<axis = 1>(x)\n y = Neg(r)", [1]),
}
SHAPES = [(2, 3, 5), (3, 7, 33), (1, 1, 1), (4, 1, 70), (1, 65, 2), (2, 0, 3), (0, 3, 3)]


def model_of(inputs, text, sizes):
    """A model whose dims are ``sizes``, or open ones of these names."""
    for name in "abc":
        inputs = inputs.replace(f"[{name}", f"[{sizes[name]}").replace(f", {name}]", f", {sizes[name]}]")
        inputs = inputs.replace(f", {name},", f", {sizes[name]},")
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({inputs}) => (float y) {{ {text} }}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def feeds_of(inputs, shape):
    sizes = dict(zip("abc", shape, strict=True))
    random = np.random.default_rng(0)
    found = {}
    for one in inputs.replace("float", "").split("["):
        dims, _, rest = one.partition("]")
        if rest:
            shape_ = [sizes[dim] if dim in sizes else int(dim) for dim in dims.replace(" ", "").split(",")]
            found[rest.split(",")[0].strip()] = random.standard_normal(shape_).astype("f")
    if " s" in inputs:
        found["s"] = np.float32(0.7)
    return found


def built(model, monkeypatch):
    """The engine, and how many loops each pointwise kernel has."""
    counts = []
    loops = collapse.pointwise_loops

    def counted(generic):
        found = loops(generic)
        counts.append(None if found is None else len(found.extents))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(kernels, "pointwise_loops", counted)
        lowered = convert(read(model)).lowered
        return engine_of(lowered, entry_of(lowered, disabled=["turns"])), counts


@pytest.mark.parametrize("name", NESTS)
def test_open_sizes(name, monkeypatch):
    inputs, text, expected = NESTS[name]
    model = model_of(inputs, text, dict(zip("abc", "abc", strict=True)))
    engine, counts = built(model, monkeypatch)
    assert counts and None not in counts
    if expected is not None:
        assert counts == expected
    for shape in SHAPES:
        feeds = feeds_of(inputs, shape)
        np.testing.assert_array_equal(engine.run(feeds)[0], reference(model, feeds)[0])


@pytest.mark.parametrize("name", NESTS)
def test_known_sizes(name, monkeypatch):
    inputs, text, _ = NESTS[name]
    for shape in SHAPES[:5]:
        model = model_of(inputs, text, dict(zip("abc", shape, strict=True)))
        feeds = feeds_of(inputs, shape)
        np.testing.assert_array_equal(built(model, monkeypatch)[0].run(feeds)[0], reference(model, feeds)[0])
