"""ExpandDims, UnfoldTensor, Pad, Unique: elements moved as ONNX's operators of those names do not quite."""

from __future__ import annotations

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import KnownInt
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import padding, sorting
from onnx2torch_mlir.families.indexing import axis_in


def expand_dims(g: ProgramBuilder, x: Value, axis: KnownInt) -> Value:
    """A new axis of size 1 at ``axis`` of the result. Source: com.microsoft ExpandDims."""
    return g.unsqueeze(x, axis_in(axis, x.rank + 1))


def unfold_tensor(g: ProgramBuilder, x: Value, *, size: int, dim: int = -1, step: int = 1) -> Value:
    """All slices of ``size`` elements along ``dim``, ``step`` apart, in a new last axis.

    Source: com.microsoft UnfoldTensor.

    Raises:
        Refusal: O2M-C005 for a size or step below 1, O2M-C006 where there is no slice of that size.
    """
    axis = axis_in(dim, x.rank)
    if size < 1 or step < 1:
        raise refuse("O2M-C005", f"slices of {size} elements, {step} apart", case="size")
    count = g.as_size(to_dim(D.floor_div(to_dim(x.shape[axis] - size), step) + 1))
    starts = g.unsqueeze(g.mul(g.arange(0, count), step), 1)
    places = g.reshape(g.add(starts, g.arange(0, size)), [D.product([count, size])])
    slices = g.call("aten.index_select.default", x, axis, places)
    apart = g.reshape(slices, [*x.shape[:axis], count, size, *x.shape[axis + 1 :]])
    order = [*range(axis + 1), *range(axis + 2, x.rank + 1), axis + 1]
    return g.permute(apart, order)


def pad(g: ProgramBuilder, data: Value, pads: Value, value: Value | None = None, *, mode: str = "constant") -> Value:
    """ONNX's Pad, with ``pads`` of rank 1, or [1, 2 * rank]. Source: com.microsoft Pad."""
    return padding.pad(g, data, g.reshape(pads, [2 * data.rank]) if pads.rank == 2 else pads, value, mode=mode)


def unique(g: ProgramBuilder, x: Value) -> tuple[Value, Value, Value]:
    """The different elements of ``x`` [N] as they come, positions of all, and counts. Source: com.microsoft Unique."""
    if x.rank != 1:
        raise refuse("O2M-C006", f"Unique of rank {x.rank}", case="rank")
    values, _, inverse, counts = sorting.unique(g, x, sorted=0)
    return values, inverse, counts
