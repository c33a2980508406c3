"""How far two results may be apart: one row per dtype.

An element agrees where ``|ours - reference| <= rtol * |reference| + atol``. The absolute part is what summing up
costs: it is ``scale`` times the largest finite magnitude of the reference's tensor, because the error of a sum is
relative to its largest terms and not to a result that may have cancelled; and never less than ``floor``. Integers,
bools and strings have to be equal; NaN agrees with NaN, and an infinity with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tolerance:
    """One row: ``rtol`` of each element, ``scale`` of the largest element, ``floor`` in absolute terms."""

    rtol: float
    scale: float = 0.0
    floor: float = 0.0

    def atol(self, reference: Array) -> float:
        """The absolute part for a reference tensor."""
        if self.scale == 0.0 or reference.size == 0:
            return self.floor
        magnitude = np.abs(reference)
        finite = magnitude[np.isfinite(magnitude)]
        return max(self.floor, self.scale * float(finite.max())) if finite.size else self.floor


EXACT = Tolerance(0.0)

TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(1e-7, 1e-9, 1e-12),
    "float32": Tolerance(1e-4, 1e-5, 1e-7),
    "float16": Tolerance(5e-3, 2e-3, 1e-6),
    "bfloat16": Tolerance(2e-2, 1e-2, 1e-6),
    "float8_e4m3fn": Tolerance(0.125, 2**-5, 2**-9),
    "float8_e4m3fnuz": Tolerance(0.125, 2**-5, 2**-10),
    "float8_e5m2": Tolerance(0.25, 2**-4, 2**-16),
    "float8_e5m2fnuz": Tolerance(0.25, 2**-4, 2**-17),
    "complex64": Tolerance(1e-4, 1e-5, 1e-7),
    "complex128": Tolerance(1e-7, 1e-9, 1e-12),
}
"""By NumPy's (ml_dtypes') name of the dtype; what is not here is exact. float8: one step of the mantissa."""


def tolerance_of(dtype: np.dtype[Any], rtol: float | None = None, atol: float | None = None) -> Tolerance:
    """The row of ``dtype``; a given ``rtol`` or ``atol`` replaces its part for floating-point dtypes."""
    row = TOLERANCES.get(dtype.name, EXACT)
    if row is EXACT:
        return row
    relative = row.rtol if rtol is None else rtol
    return Tolerance(relative, row.scale, row.floor) if atol is None else Tolerance(relative, 0.0, atol)
