"""Every operator with sizes that vary: one program, compiled once, run at two sizes and at size 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from onnx2torch_mlir.specs import default_ledger
from tests.families.dynamic_cases import CASES, ELSEWHERE, STATIC, Case
from tests.one_node import node_model, reference, widened

SIZES = (5, 2, 1)


def symbolic_model(case: Case) -> tuple[onnx.ModelProto, int]:
    """The case's model with a symbol for each dim that varies; gives their number too."""
    made = [case.make(n) for n in SIZES]
    model = node_model(
        case.op, made[0], opset=case.opset, known=case.known, outputs=case.outputs, domain=case.domain, **case.attributes
    )
    varying = 0
    for value in model.graph.input:
        index = int(value.name.removeprefix("in"))
        arrays = [item[index] for item in made]
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            sizes = tuple(int(array.shape[axis]) for array in arrays if array is not None)
            if len(set(sizes)) > 1:
                dim.ClearField("dim_value")
                dim.dim_param = "n_" + "_".join(map(str, sizes))
                varying += 1
    return model, varying


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_runs_at_every_size(case: Case) -> None:
    model, varying = symbolic_model(case)
    engine = convert(read(model)).compile()
    by_value = case.op in ("ConstantOfShape", "Range", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")
    assert varying or by_value, "nothing varies"
    for n in SIZES:
        feeds = {f"in{i}": a for i, a in enumerate(case.make(n)) if a is not None and i not in case.known}
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        for index, (got, want) in enumerate(zip(engine.run(arrays), reference(model, arrays), strict=True)):
            compare(widened(got), np.asarray(want), case, f"n={n}, output {index}")


def compare(got: Any, want: Any, case: Case, where: str) -> None:
    assert got.shape == want.shape, where
    assert got.dtype == want.dtype, where
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=case.rtol, atol=case.atol, err_msg=f"{case.op} {where}"
    )


def test_one_case_for_each_operator() -> None:
    names = [case.op for case in CASES]
    assert len(names) == len(set(names))
    domain = default_ledger().domain("ai.onnx")
    assert domain is not None
    assert {*names, *ELSEWHERE, *STATIC} == set(domain.operators())
    assert all((Path(__file__).parents[1] / place).exists() for place in ELSEWHERE.values())
