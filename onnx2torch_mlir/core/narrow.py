"""Element types of less than a byte: held one to a byte, under the name that ONNX's type strings give them.

Integers are held as numbers in int8 or uint8. Small floats (their bits are sign, exponent, mantissa, from the left; they
have no infinities and no NaN) are held as their codes in uint8. At the border arrays have ml_dtypes' types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Narrow:
    """One element type: its bits, the dtype that holds it, ml_dtypes' type, and a float's bits of mantissa and bias."""

    name: str
    bits: int
    storage: torch.dtype
    numpy: np.dtype[Any]
    mantissa: int = 0
    bias: int = 0

    @property
    def is_float(self) -> bool:
        """Whether it is one of the small floats."""
        return self.bias > 0

    @property
    def signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.storage is torch.int8

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest number of an integer type."""
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.signed else (0, (1 << self.bits) - 1)

    @property
    def largest(self) -> float:
        """The largest number of a float type."""
        top = (1 << (self.bits - 1)) - 1
        fraction = (top & ((1 << self.mantissa) - 1)) / (1 << self.mantissa)
        return float((1 + fraction) * 2.0 ** ((top >> self.mantissa) - self.bias))


NARROW: dict[str, Narrow] = {
    item.name: item
    for item in (
        Narrow("uint4", 4, torch.uint8, np.dtype(ml_dtypes.uint4)),
        Narrow("int4", 4, torch.int8, np.dtype(ml_dtypes.int4)),
        Narrow("uint2", 2, torch.uint8, np.dtype(ml_dtypes.uint2)),
        Narrow("int2", 2, torch.int8, np.dtype(ml_dtypes.int2)),
        Narrow("float4e2m1", 4, torch.uint8, np.dtype(ml_dtypes.float4_e2m1fn), 1, 1),
        Narrow("float6e2m3", 6, torch.uint8, np.dtype(ml_dtypes.float6_e2m3fn), 3, 1),
        Narrow("float6e3m2", 6, torch.uint8, np.dtype(ml_dtypes.float6_e3m2fn), 2, 3),
    )
}
"""By ONNX's name."""

_BY_NUMPY = {item.numpy: item for item in NARROW.values()}


def narrow_of(dtype: np.dtype[Any]) -> Narrow | None:
    """The narrow element type of an array's dtype, if it has one."""
    return _BY_NUMPY.get(dtype)


def unpacked(array: Array, narrow: Narrow) -> Array:
    """An array of ml_dtypes' type (whose unused bits may be anything) as it is held here: a new, dense array."""
    result: Array = np.array(array, order="C", ndmin=array.ndim).view(np.uint8)
    unused = np.uint8(8 - narrow.bits)
    np.left_shift(result, unused, out=result)
    result = result.view(np.int8 if narrow.signed else np.uint8)
    np.right_shift(result, result.dtype.type(unused), out=result)
    return result


def repacked(array: Array, narrow: Narrow) -> Array:
    """What is held here as an array of ml_dtypes' type; signed integers are copied, others share their memory."""
    if narrow.signed:
        array = np.asarray(array.view(np.uint8) & np.uint8((1 << narrow.bits) - 1))
    return array.view(narrow.numpy)
