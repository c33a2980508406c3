"""Attributes by which lowering tells the engine's compiler more of single operations; what knows neither may drop them.

They stand apart from both, for the compiler's process loads MLIR alone.
"""

from __future__ import annotations

INDEPENDENT = "o2m.independent"
"""The attribute of an ``scf.for`` whose turns may go side by side: each has elements of its own of what they carry."""

NOT_POSITIVE = "o2m.not_positive"
"""The attribute of a function of one number, ``math.exp``, whose argument is at most 0, or NaN: shorter code will do."""

ANY_OF_NAN = "o2m.any_of_nan"
"""The attribute of an ``arith.maximumf`` that may give any number where one of its terms is NaN: what follows is NaN anyway."""

FIRST_OF_EQUAL = "o2m.first_of_equal"
"""The attribute of an ``arith.select`` that takes the position of an element if it comes before the best so far in a strict
order, in a nest that takes the element by the same condition: of two parts of a row, the best of the second is asked alike."""

HINTS = (NOT_POSITIVE, ANY_OF_NAN, FIRST_OF_EQUAL)
"""Attributes of single operations that only say more about their operands or results."""
