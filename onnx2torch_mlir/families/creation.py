"""Range and Trilu: tensors made of numbers, and of the places of elements."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.families.indexing import count_along


def range_(
    g: ProgramBuilder, start: Value, limit: Value, delta: Value | None = None, *, stash_type: int = 1
) -> Value:
    """``start``, ``start + delta`` … up to ``limit``. Source: ONNX Range.

    16-bit floats are computed in ``stash_type``; the others in their own type.
    """
    dtype = start.dtype
    delta = g.scalar(1, dtype) if delta is None else delta
    start, limit, delta = (g.reshape(item, []) for item in (start, limit, delta))
    bounds = [item.dims() for item in (start, limit, delta)]
    first, last, step = (None if item is None else item[0] for item in bounds)
    if first is not None and last is not None and isinstance(step, int):
        if step == 0:
            raise refuse("O2M-C005", "the delta of a Range is 0", case="delta")
        return g.arange(first, (D.maximum if step > 0 else D.minimum)(first, last), step, dtype)
    narrow = dtype.is_floating_point and dtype.itemsize < 4
    wide = torch_dtype(stash_type) if narrow else dtype if dtype.is_floating_point else torch.int64
    start, limit, delta = (g.cast(item, wide) for item in (start, limit, delta))
    if dtype.is_floating_point:
        length = g.unary("ceil", g.div(g.sub(limit, start), delta))
    else:
        length = g.unary("neg", g.floor_div(g.sub(start, limit), delta))
    count = g.item(g.maximum(g.cast(length, torch.int64), 0))
    steps = g.cast(g.arange(0, count), wide)
    return g.cast(g.add(g.mul(steps, delta), start), dtype)


def trilu(g: ProgramBuilder, data: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    """The part of the last two axes on one side of diagonal ``k``, zeros elsewhere. Source: ONNX Trilu."""
    if data.rank < 2:
        raise refuse("O2M-C006", f"Trilu takes at least two axes, not {data.rank}", case=f"rank={data.rank}")
    rows, columns = (count_along(g, data.shape[-2:], axis) for axis in (0, 1))
    offset = g.sub(columns, rows)
    diagonal = g.scalar(0, torch.int64) if k is None else g.reshape(k, [])
    kept = g.binary("ge" if upper else "le", offset, diagonal)
    return g.where(kept, data, 0)
