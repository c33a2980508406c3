"""What convolution and pooling share: how a window's position and offset address the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from torch_mlir import ir

T = TypeVar("T")


def spread(values: Sequence[T], count: int, default: Sequence[T] = ()) -> list[T]:
    """One value per spatial dim: a single one stands for all, none for ``default``."""
    given = list(values) or list(default)
    return given * count if len(given) == 1 else given


def window_entry(place: int, tap: int, stride: int, dilation: int) -> ir.AffineExpr:
    """``place * stride + tap * dilation``."""
    first = ir.AffineExpr.get_mul(ir.AffineDimExpr.get(place), stride)
    return ir.AffineExpr.get_add(first, ir.AffineExpr.get_mul(ir.AffineDimExpr.get(tap), dilation))
