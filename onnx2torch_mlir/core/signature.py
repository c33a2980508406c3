"""What a program takes and gives: names, dtypes and symbolic shapes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import sympy
import torch

Dim: TypeAlias = int | sympy.Expr
"""One size: a number, or an expression over the symbols of the program's inputs (or of its data-dependent sizes)."""


@dataclass(frozen=True)
class TensorSpec:
    """One input, weight or output of a program.

    ``shape`` holds numbers and sympy expressions; a bare symbol of an input dim is named after the ONNX dim it came
    from (``dim_names`` maps the symbol's name to it).
    """

    name: str
    dtype: torch.dtype
    shape: tuple[Dim, ...]

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        return all(isinstance(dim, int) for dim in self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]"
