"""Tables of known keys: every element of a tensor is found among them by binary search."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value


def sorted_table(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``keys`` [n] in ascending order with their ``values`` [n]; of equal keys the first stays, NaN is dropped."""
    if keys.is_floating_point():
        kept = keys == keys
        keys, values = keys[kept], values[kept]
    order = torch.sort(keys, stable=True).indices
    keys, values = keys[order], values[order]
    first = torch.ones_like(keys, dtype=torch.bool)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first], values[first]


def look_up(g: ProgramBuilder, x: Value, keys: torch.Tensor, values: torch.Tensor, default: float | int | bool) -> Value:
    """``x`` of any shape, every element replaced by the value of its key, or by ``default``.

    ``keys`` [n] are of the dtype of ``x``, ascending and different (`sorted_table`); the result has that of ``values`` [n].
    Takes log2(n) steps, each a gather and a comparison.
    """
    count = keys.shape[0]
    if count == 0:
        return g.full(x.shape, default, values.dtype)
    flat = g.reshape(x, [D.product(x.shape)])
    table = g.known(keys)
    position = g.full(flat.shape, 0, torch.int64)
    for power in reversed(range((count - 1).bit_length())):
        candidate = g.minimum(g.add(position, 1 << power), count - 1)
        below = g.binary("le", pick(g, table, candidate), flat)
        position = g.where(below, candidate, position)
    found = g.binary("eq", pick(g, table, position), flat)
    result = g.where(found, pick(g, g.known(values), position), g.scalar(default, values.dtype))
    return g.reshape(result, x.shape)


def pick(g: ProgramBuilder, table: Value, index: Value) -> Value:
    """Rows of ``table`` [n, …] at ``index`` (any shape, 0 … n-1): shape [*index, …]."""
    flat = g.reshape(index, [D.product(index.shape)])
    rows = g.call("aten.index_select.default", table, 0, flat)
    return g.reshape(rows, [*index.shape, *table.shape[1:]])
