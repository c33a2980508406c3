"""Runs programs through the engine on torch tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.export import ExportedProgram

from onnx2torch_mlir.engine import compile
from onnx2torch_mlir.engine.arrays import from_anything
from onnx2torch_mlir.lowering import Lowered, lower


def run_lowered(lowered: Lowered, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a lowered program as torch tensors."""
    arrays = [from_anything(t, t.dtype) for t in tensors]
    results = compile(lowered).run(arrays)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    out = []
    for array, spec in zip(results, lowered.outputs, strict=True):
        plain = torch.from_numpy(array.view(f"i{array.itemsize}" if array.itemsize > 1 else "u1").copy())
        out.append(plain.view(bits[array.itemsize]).view(spec.dtype))
    return out


def run(exported: ExportedProgram, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Lower, compile and run."""
    return run_lowered(lower(exported), tensors)
