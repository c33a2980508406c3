"""Annotations by which a converter says which inputs it must know while the program is built.

The binder reads them from the converter's signature: a parameter annotated `KnownInts` arrives as a list of ints (or the
node is refused with the name of the input), one annotated `Sizes` as a list of sizes, one annotated `Value` as it is.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import torch

from onnx2torch_mlir.core.signature import Dim


class Need(Enum):
    """What of an input's contents a parameter takes."""

    INT = "one integer"
    INTS = "a list of integers"
    FLOAT = "one number"
    FLOATS = "a list of numbers"
    BOOL = "one truth value"
    SIZE = "one size"
    SIZES = "a list of sizes"
    TENSOR = "the whole tensor"


KnownInt = Annotated[int, Need.INT]
KnownInts = Annotated[list[int], Need.INTS]
KnownFloat = Annotated[float, Need.FLOAT]
KnownFloats = Annotated[list[float], Need.FLOATS]
KnownBool = Annotated[bool, Need.BOOL]
KnownTensor = Annotated[torch.Tensor, Need.TENSOR]
Size = Annotated[Dim, Need.SIZE]
"""One integer that may depend on sizes, or on run-time data: it is then read when the program runs."""
Sizes = Annotated[list[Dim], Need.SIZES]
"""A 1-D integer input as sizes; elements only known at run time become symbols."""
