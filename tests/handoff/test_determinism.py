"""The same model gives the same bytes: whatever its path, the temporary folder, and the seed of Python's hashes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.bench.all_forms import EMITS, WEIGHTS, digests


def mixed_model(path: Path) -> None:
    """Weights of several types, large and small, two of them equal, in a file beside the model; a dynamic dim; odd names."""
    generator = np.random.default_rng(0)
    square = generator.normal(size=(160, 160)).astype(np.float32)
    arrays = {
        'model/weight "0"': square,
        "tied": square,
        "größe": generator.normal(size=(160,)).astype(np.float32),
        "mask": generator.random((1, 160)) > 0.5,
        "order": np.arange(160)[::-1].copy(),
        "main": generator.integers(-100, 100, (160, 600)).astype(np.int8),
    }
    nodes = [
        helper.make_node("MatMul", ["x", 'model/weight "0"'], ["a"]),
        helper.make_node("Where", ["mask", "a", "größe"], ["b"]),
        helper.make_node("Gather", ["b", "order"], ["c"], axis=1),
        helper.make_node("MatMul", ["c", "tied"], ["d"]),
        helper.make_node("Cast", ["main"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["d", "e"], ["y"]),
    ]
    inputs, outputs = ([helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", s])] for n, s in (("x", 160), ("y", 600)))
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "mixed", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.parent.mkdir(parents=True)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


def test_every_form_is_byte_identical(tmp_path: Path) -> None:
    found = []
    for place, name, seed in (("one", "a.onnx", "1"), ("two/deeper", "b.onnx", "77")):
        mixed_model(tmp_path / place / name)
        found.append(digests(tmp_path / place / name, tmp_path / place / "out", {"N": 3}, seed))
    assert found[0] == found[1]
    modules = {f"{emit}.{weights}.{suffix}" for emit in EMITS for weights in WEIGHTS for suffix in ("mlir", "mlirbc")}
    files = {f"{emit}.{suffix}" for emit in EMITS for suffix in ("external.safetensors", "irpa.irpa")}
    assert set(found[0]) == {"core.pt2", "core.txt", *modules, *files}
