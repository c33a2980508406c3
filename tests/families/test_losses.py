"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: one dynamic program for each row, many sizes, against PyTorch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert
from tests.one_node import eager, native_run, node_model

RANDOM = np.random.default_rng(8)
SIZES = [(2, 4, 3), (1, 2, 1), (0, 3, 2), (3, 5, 0), (1, 1, 1)]
NLL, SCE = "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"


@pytest.mark.parametrize(
    ("op", "opset", "reduction", "weights", "ignored", "rank", "dtype", "labels"),
    [
        (NLL, 12, "none", False, None, 2, np.float32, np.int32),
        (NLL, 13, "none", True, 1, 4, np.float64, np.int64),
        (NLL, 22, "mean", True, -5, 3, np.float32, np.int64),
        (NLL, 22, "mean", False, 1, 5, np.float32, np.int32),
        (NLL, 22, "sum", True, 100, 3, ml_dtypes.bfloat16, np.int64),
        (SCE, 12, "none", True, 100, 5, np.float32, np.int32),
        (SCE, 12, "mean", False, None, 2, np.float32, np.int64),
        (SCE, 13, "mean", True, 1, 4, np.float64, np.int32),
        (SCE, 13, "mean", True, -5, 3, np.float16, np.int64),
        (SCE, 13, "sum", False, 1, 3, ml_dtypes.bfloat16, np.int64),
    ],
)
def test_losses(
    op: str, opset: int, reduction: str, weights: bool, ignored: int | None, rank: int, dtype: Any, labels: Any
) -> None:
    """``ignored`` lies inside and outside the range of the classes; batches and planes may be empty."""

    def drawn(n: int, c: int, d: int) -> list[Any]:
        places = [n, *[d] * (rank - 2)]
        target = RANDOM.integers(0, c, places).astype(labels)
        if ignored is not None:
            target.reshape(-1)[::2] = ignored
        scores = RANDOM.standard_normal([n, c, *places[1:]]).astype(dtype)
        return [scores, target, RANDOM.uniform(0.2, 2, c).astype(dtype)][: 3 if weights else 2]

    attributes: dict[str, Any] = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
    outputs = 2 if op == SCE else 1
    model = node_model(op, drawn(2, 4, 3), opset=opset, outputs=outputs, dynamic=True, **attributes)
    program = convert(read(model))
    assert isinstance(program, CoreProgram)
    for sizes in SIZES:
        arrays = drawn(*sizes)
        scores, target, *weight = (torch.from_numpy(array.astype(np.float64)) for array in arrays)
        log = torch.log_softmax(scores, 1) if op == SCE else scores
        more: dict[str, Any] = {"weight": weight[0] if weight else None, "reduction": reduction}
        loss = torch.nn.functional.nll_loss(log, target.long(), ignore_index=-100 if ignored is None else ignored, **more)
        tolerance = {np.float64: 1e-9, np.float32: 1e-5, np.float16: 4e-3}.get(dtype, 3e-2)
        for results in (native_run(program, arrays), eager(program, arrays)):
            for result, want in zip(results, (loss, log), strict=False):
                assert result.shape == want.shape
                np.testing.assert_allclose(result, want.numpy(), rtol=tolerance, atol=tolerance)


def test_what_an_unknown_reduction_says() -> None:
    """A reduction that ONNX does not know is an error of the model, not a sum."""
    scores, target = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    model = node_model(NLL, [scores, target], opset=13, reduction="median")
    with pytest.raises(Refusal, match="median"):
        convert(read(model))
