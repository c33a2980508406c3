"""What rules take and give: a tensor value with its dtype and its sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.dtypes import Kind, kind


@dataclass(frozen=True, slots=True)
class Spec:
    """Dtype and sizes of a tensor; a size is an int exactly where the MLIR type is static, else a sympy expression."""

    dtype: torch.dtype
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def kind(self) -> Kind:
        """Kind of the dtype."""
        return kind(self.dtype)


@dataclass(frozen=True, slots=True)
class Operand(Spec):
    """A tensor in the module being built: ``value`` is a ranked tensor of the type that dtype and shape say."""

    value: ir.Value

    @property
    def spec(self) -> Spec:
        """Dtype and sizes without the value."""
        return Spec(self.dtype, self.shape)
