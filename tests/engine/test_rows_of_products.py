"""A single row times a matrix that is no weight, as a decoder's step: its sums are those of a row, and lie in registers."""

import numpy as np
import pytest

pytest.importorskip("torch_mlir")

from onnx import parser

from onnx2torch_mlir.engine.compiler import kernels
from onnx2torch_mlir.engine.compiler.walks import named
from tests.engine.test_row_lanes import UNITS, results
from tests.one_node import reference

TEXTS = {
    "columns": "y = MatMul(p, x)",
    "keys": "t = Transpose<perm = [0, 2, 1]>(x)\n y = MatMul(q, t)",
    "attention": (
        "t = Transpose<perm = [0, 2, 1]>(x)\n s = MatMul(q, t)\n e = Constant<value_float = 0.3>()\n c = Mul(s, e)\n"
        " w = Softmax<axis = -1>(c)\n y = MatMul(w, x)"
    ),
}
"""Of x [heads, places, width], q [heads, 1, width] and p [heads, 1, places]."""


def arrays(text, heads, places, width, rows=1):
    rng = np.random.default_rng(0)
    shapes = {"x": (heads, places, width), "q": (heads, rows, width), "p": (heads, rows, places)}
    taken = [name for name in shapes if f"({name}," in text or name == "x"]
    return {name: rng.standard_normal(shapes[name]).astype("f") for name in taken}


def model_of(text, feeds, open_places=False):
    places = feeds["x"].shape[1]
    dims = [
        ", ".join("places" if open_places and size == places else str(size) for size in array.shape) for array in feeds.values()
    ]
    inputs = ", ".join(f"float[{each}] {name}" for name, each in zip(feeds, dims, strict=True))
    return parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({inputs}) => (float[a, b, c] y) {{ {text} }}')


def check(name, heads, places, width, monkeypatch, unit=None, rows=1, open_places=False):
    feeds = arrays(TEXTS[name], heads, places, width, rows)
    model = model_of(TEXTS[name], feeds, open_places)
    (found,), _ = results(model, [feeds], monkeypatch, unit)
    np.testing.assert_allclose(found, reference(model, feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("open_places", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("width", [1, 2, 8, 15, 16, 17, 61, 64, 67, 256, 257])
@pytest.mark.parametrize("name", TEXTS)
def test_widths(name, width, open_places, monkeypatch):
    for places in (1, 5, 70):
        if places != width:
            check(name, 3, places, width, monkeypatch, open_places=open_places)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_width_of_a_vector(name, unit, monkeypatch):
    for width in (7, 17, 64, 67):
        check(name, 3, 19, width, monkeypatch, UNITS[unit])


@pytest.mark.parametrize("name", TEXTS)
def test_several_rows_and_one_head(name, monkeypatch):
    for rows in (1, 2, 3):
        check(name, 1, 19, 17, monkeypatch, rows=rows)
        check(name, 4, 19, 17, monkeypatch, rows=rows)


@pytest.mark.parametrize("name", TEXTS)
def test_no_nest_is_left(name, monkeypatch):
    """All that is done is in loops over rows, whose sums are vectors."""
    left = []
    outline = kernels.outline
    see = lambda module, loops: (left.extend(named(module.operation, "linalg.generic")), outline(module, loops))[1]  # noqa: E731
    monkeypatch.setattr(kernels, "outline", see)
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    check(name, 4, 70, 61, monkeypatch)
    assert not left
