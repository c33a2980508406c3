"""A primitive of this package: its eager implementation, and the sizes of its result."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.extension import TensorType, primitive
from onnx2torch_mlir.core.values import Value


@torch.library.custom_op("com_example::stretch", mutates_args=())
def stretch(x: torch.Tensor, times: int) -> torch.Tensor:
    """Every row ``times`` times, in order."""
    return x.repeat_interleave(times, dim=0)


@stretch.register_fake
def _(x: torch.Tensor, times: int) -> torch.Tensor:
    return x.new_empty((x.shape[0] * times, *x.shape[1:]))


@primitive("com_example.stretch.default", lowering="onnx2torch_com_example.lowering")
def stretched(g: ProgramBuilder, x: Value, times: int) -> TensorType:
    """``times`` as many rows."""
    return TensorType(x.dtype, (x.shape[0] * times, *x.shape[1:]))
