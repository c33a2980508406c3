"""What is only copied: by vectors, not by the C library, which takes long where places are a few bytes apart but for pages."""

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m
from tests.one_node import reference

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine import objects
from tests.engine.made_here import entry_of

GRAPHS = {
    "joined": "(float[40, 70] x, float[23, 70] x1) => (float[63, 70] y) { y = Concat<axis = 0>(x, x1) }",
    "joined rows": "(float[40, 70] x, float[40, 300] x1) => (float[40, 370] y) { y = Concat<axis = 1>(x, x1) }",
    "a part": (
        "(float[400, 70] x) => (float[399, 70] y) { a = Constant<value_ints = [1]>()\n"
        " b = Constant<value_ints = [400]>()\n c = Constant<value_ints = [0]>()\n y = Slice(x, a, b, c) }"
    ),
    "padded": (
        "(float[400, 257] x) => (float[402, 257] y) { p = Constant<value_ints = [1, 0, 1, 0]>()\n y = Pad(x, p) }"
    ),
    "of open size": "(float[n, 70] x, float[m, 70] x1) => (float[k, 70] y) { y = Concat<axis = 0>(x, x1) }",
    "bytes": "(uint8[40, 700] x, uint8[23, 700] x1) => (uint8[63, 700] y) { y = Concat<axis = 0>(x, x1) }",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_copies_are_loops(name):
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g {GRAPHS[name]}')
    program = o2m.convert(model)
    code = entry_of(program.lowered)["object"]
    assert not {"memcpy", "memmove"} & set(objects.undefined_symbols(code))
    rng = np.random.default_rng(0)
    feeds = {}
    for given in model.graph.input:
        shape = [dim.dim_value or 90 for dim in given.type.tensor_type.shape.dim]
        feeds[given.name] = (100 * rng.random(shape)).astype(np.uint8 if name == "bytes" else np.float32)
    np.testing.assert_array_equal(program.compile(threads=1).run(feeds)[0], reference(model, feeds)[0])
