"""What a program takes and gives: names, dtypes and symbolic shapes of its tensors, and what these stand for."""

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
    from (``dim_names`` maps the symbol's name to it). ``element`` names an element type of less than a byte (`core.narrow`)
    that ``dtype`` holds; it is empty where the dtype says all.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[Dim, ...]
    element: str = ""

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        return all(isinstance(dim, int) for dim in self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.element or str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]"

    @property
    def flat(self) -> tuple[TensorSpec, ...]:
        """The tensors that stand for the value: itself."""
        return (self,)


@dataclass(frozen=True)
class SequenceSpec:
    """A sequence of tensors; it is a list of arrays for the caller.

    ``flat`` are the tensors that stand for it: if ``packed``, the elements' data [total] and their sizes [length, rank] (the
    row of an element of lower rank is filled up with -1), else the elements themselves. ``sizes`` are those that all elements
    have (None: any); it is None where the rank is open.
    """

    name: str
    dtype: torch.dtype
    flat: tuple[TensorSpec, ...]
    sizes: tuple[int | None, ...] | None
    packed: bool

    def __str__(self) -> str:
        sizes = "" if self.sizes is None else f"[{', '.join('?' if size is None else str(size) for size in self.sizes)}]"
        return f"{self.name}: sequence({str(self.dtype).removeprefix('torch.')}{sizes})"


@dataclass(frozen=True)
class OptionalSpec:
    """A value that may be absent: None for the caller. ``has`` is a 0-d bool; ``value`` is what may be there."""

    name: str
    has: TensorSpec
    value: TensorSpec | SequenceSpec

    @property
    def flat(self) -> tuple[TensorSpec, ...]:
        """The tensors that stand for it."""
        return (self.has, *self.value.flat)

    def __str__(self) -> str:
        return f"{self.name}: optional({str(self.value).partition(': ')[2]})"


Spec: TypeAlias = TensorSpec | SequenceSpec | OptionalSpec
"""One input or output of a program, as its caller sees it."""
