"""Nests over the same rows as one loop: the same numbers with and without, at every size, and fewer passes over memory."""

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import kernels, rows, task
from onnx2torch_mlir.engine.compiler.walks import named

MODELS = {
    "softmax": ("y = Softmax<axis = -1>(x)", 3),
    "log softmax of a middle axis": ("y = LogSoftmax<axis = 1>(x)", 3),
    "softmax of the first axis": ("y = Softmax<axis = 0>(x)", 2),
    "masked": ("q = Mul(x, s)\n r = Where(m, q, s)\n y = Softmax<axis = -1>(r)", 3),
    "layer norm": ("y, mean, deviation = LayerNormalization<axis = -1>(x, w, w)", 2),
    "decomposed norm": (
        "a = Constant<value_ints = [-1]>()\n t = ReduceMean(x, a)\n c = Sub(x, t)\n q = Mul(c, c)\n v = ReduceMean(q, a)\n"
        " e = Sqrt(v)\n z = Add(e, s)\n y = Div(c, z)\n k = Neg(c)",
        2,
    ),
    "over two axes": ("a = Constant<value_ints = [1, 2]>()\n u = ReduceSum(x, a)\n d = Div(x, u)\n y = Exp(d)", 3),
    "extremes": (
        "a = Constant<value_ints = [-1]>()\n h = ReduceMax(x, a)\n l = ReduceMin(x, a)\n r = Sub(h, l)\n"
        " o = Sub(x, l)\n y = Div(o, r)",
        3,
    ),
    "position": ("i = ArgMax<axis = -1>(x)\n f = Cast<to = 1>(i)\n y = Add(x, f)", 2),
    "half": ("h = Cast<to = 10>(x)\n g = Softmax(h)\n y = Cast<to = 1>(g)", 2),
    "twice": ("p = Softmax<axis = -1>(x)\n n = Neg(x)\n r = Softmax<axis = -1>(n)\n y = Add(p, r)", 2),
    "read anywhere": (
        "p = Softmax<axis = -1>(x)\n a = Constant<value_ints = [-1]>()\n e = Constant<value_ints = [-9223372036854775807]>()\n"
        " o = Constant<value_ints = [1]>()\n y = Slice(p, a, e, o, a)",
        2,
    ),
    "turned": ("p = Softmax<axis = -1>(x)\n t = Transpose<perm = [1, 0]>(p)\n y = Softmax<axis = -1>(t)", 2),
}
SIZES = {2: [(5, 37), (1, 1), (3, 0), (0, 9), (67, 8)], 3: [(2, 5, 37), (3, 1, 1), (2, 3, 0), (4, 17, 3), (1, 2, 1025)]}


def model_of(text, rank):
    dims = ", ".join(f"d{axis}" for axis in range(rank))
    outputs = [name for name in ("y", "mean", "deviation", "k") if f"{name} =" in text or f"{name}," in text.split("=")[0]]
    inputs = f"float[{dims}] x, float s, bool[{dims}] m, float[d{rank - 1}] w"
    header = f'<ir_version: 9, opset_import: ["": 21]> g ({inputs}) => ({", ".join(f"float {name}" for name in outputs)})'
    model = parser.parse_model(f"{header} {{ {text} }}")
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    used = {name for node in model.graph.node for name in node.input}
    kept = [value for value in model.graph.input if value.name in used]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model


def feeds_of(model, shape):
    random = np.random.default_rng(0)
    every = {
        "x": (random.standard_normal(shape) * 4).astype("f"),
        "s": np.float32(0.7),
        "m": random.random(shape) < 0.8,
        "w": random.standard_normal(shape[-1]).astype("f"),
    }
    return {value.name: np.asarray(every[value.name]) for value in model.graph.input}


@pytest.mark.parametrize("name", MODELS)
def test_same_numbers_with_and_without(name, monkeypatch):
    text, rank = MODELS[name]
    model = model_of(text, rank)
    fused = convert(read(model)).compile()
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "rows")
    plain = convert(read(model)).compile()
    for shape in SIZES[rank]:
        feeds = feeds_of(model, shape)
        ours, others = fused.run(feeds), plain.run(feeds)
        empty_extreme = 0 in shape and name in ("extremes", "position")
        wanted = others if empty_extreme else reference(model, feeds)
        for one, other, want in zip(ours, others, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(one, want, rtol=2e-3 if name == "half" else 2e-5, atol=1e-3 if name == "half" else 2e-6)


@pytest.mark.parametrize("text", ["y = Softmax<axis = -1>(x)", "y = LogSoftmax<axis = 1>(x)"])
def test_not_a_number_is_in_every_element_of_its_row(text):
    x = np.random.default_rng(0).standard_normal((3, 40)).astype("f")
    x[1, 17], x[2, 3] = np.nan, -np.inf
    (result,) = convert(read(model_of(text, 2))).compile().run([x])
    assert np.isnan(result[1]).all() and not np.isnan(result[[0, 2]]).any()


def loops_of(name, monkeypatch):
    """(nests before, nests after, text of the loops over rows)."""
    text, rank = MODELS[name]
    seen = []

    def outline(module, loops=()):
        after = len(named(module.operation, "linalg.generic"))
        seen.append((after, [loop.get_asm(use_local_scope=True) for loop in loops]))
        return original(module, loops)

    original = kernels.outline
    monkeypatch.setattr(kernels, "outline", outline)
    task.build(convert(read(model_of(text, rank))).lowered.bytecode)
    return seen[0]


@pytest.mark.parametrize("name, passes", [("softmax", 3), ("layer norm", 3), ("decomposed norm", 3)])
def test_passes_over_a_row(name, passes, monkeypatch):
    """Softmax: the maximum; powers and their sum; quotients. Norms: the mean; the variance; the result.

    Each pass is a loop over several vectors at once, and one over what is left."""
    after, loops = loops_of(name, monkeypatch)
    assert after == 0 and len(loops) == 1
    assert loops[0].count("scf.parallel") == 1 and loops[0].count("scf.for") == 2 * passes


def test_nests_that_share_no_rows_stay(monkeypatch):
    after, loops = loops_of("softmax of the first axis", monkeypatch)
    assert after > 0 and not loops


def test_a_module_without_reductions():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @main(%m: memref<4xf32>) { return }")
        assert rows.fuse(module) == []
