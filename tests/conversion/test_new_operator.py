"""A new elementwise operator is one YAML row and no Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from onnx2torch_mlir.specs import BUILTIN, Ledger, Root, SpecTable
from tests.one_node import eager, native_run

ROW = """
- op: Arctan2
  family: elementwise.binary
  core: aten.atan2.default
"""

LEDGER = """
since 1:
  inputs: {Y: T, X: T}
  outputs: {Z: T}
  types:
    T: float double
"""


def test_one_row(tmp_path: Path) -> None:
    for folder, name, text in (("op_specs", "rows.yaml", ROW), ("opsets", "Arctan2.yaml", LEDGER)):
        (tmp_path / folder / "test.domain").mkdir(parents=True)
        (tmp_path / folder / "test.domain" / name).write_text(text)
    (tmp_path / "opsets" / "test.domain" / "_domain.yaml").write_text("newest_opset: 1\n")
    root = Root(tmp_path / "op_specs", tmp_path / "opsets", "test_domains")
    node = h.make_node("Arctan2", ["y", "x"], ["z"], domain="test.domain", name="angle")
    formals = [h.make_tensor_value_info(name, T.FLOAT, ["N", 3]) for name in ("y", "x")]
    graph = h.make_graph([node], "g", formals, [h.make_tensor_value_info("z", T.FLOAT, ["N", 3])])
    imports = [h.make_opsetid("test.domain", 1), h.make_opsetid("", 17)]
    model = h.make_model(graph, opset_imports=imports, ir_version=8)

    table, ledger = SpecTable.load(BUILTIN, root), Ledger(BUILTIN.opsets, root.opsets)
    converted = convert(read(model), table=table, ledger=ledger)

    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2)]
    np.testing.assert_allclose(eager(converted, arrays)[0], np.arctan2(*arrays), rtol=1e-6)
    np.testing.assert_allclose(native_run(converted, arrays)[0], np.arctan2(*arrays), rtol=1e-6)
