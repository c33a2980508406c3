"""Linalg with its weights inside, as arguments, and in a file beside it: the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from onnx2torch_mlir.engine import compile as compile_engine
from onnx2torch_mlir.handoff.linalg import to_linalg
from onnx2torch_mlir.lowering import lower
from tests.handoff.handoff_programs import export


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 24).reshape(4, 6))
        self.register_buffer("mask", torch.tensor([True, False, True, False, True, False]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(self.mask, x @ self.weight, 0.5)


@pytest.fixture(scope="module")
def lowered():
    return lower(export(Layer(), torch.zeros(3, 4)))


def test_inline_weights_are_constants(lowered):
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    (expected,) = compile_engine(lowered).run([x])
    alone = replace(lowered, bytecode=to_linalg(lowered, weights="inline").bytecode(), weights=())
    (result,) = compile_engine(alone).run([x])
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_allclose(expected, Layer()(torch.from_numpy(x)).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("weights", ["args", "external"])
def test_weights_outside(lowered, weights: str, tmp_path: Path):
    module = to_linalg(lowered, weights=weights)
    assert "dense_resource" not in str(module)
    assert str(module).count("onnx2mlir.weight") == len(lowered.weights)
    module.save(tmp_path / "m.mlir")
    assert (tmp_path / "m.safetensors").exists() == (weights == "external")


def test_hints_of_the_lowering_stay_inside():
    softmax = lower(export(nn.Softmax(-1), torch.zeros(3, 4)))
    assert b"o2m.not_positive" in softmax.bytecode
    text = str(to_linalg(softmax))
    assert "math.exp" in text
    assert "o2m." not in text
