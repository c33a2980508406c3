"""Pooling as linalg.generic over windows of a padded input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import maximum, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import MapEntry
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, kind, op_math
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, elementwise, pointwise
from onnx2torch_mlir.lowering.reduction import lowest
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.scalars import ROWS, emit
from onnx2torch_mlir.lowering.slicing import pad
from onnx2torch_mlir.lowering.windows import spread, window_entry


class Windows:
    """Windows over the last dims of an operand, of which the leading dims are batch and channels."""

    def __init__(
        self,
        ctx: Context,
        x: Operand,
        sizes: Sequence[Dim],
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
    ) -> None:
        self.ctx, self.x = ctx, x
        self.spatial = len(sizes)
        self.lead = x.rank - self.spatial
        self.sizes, self.kernel, self.stride, self.padding, self.dilation = sizes, kernel, stride, padding, dilation

    def padded(self, value: ir.Value) -> Operand:
        """The operand with ``value`` around it, as far as the last window reaches."""
        low: list[Dim] = [0] * self.lead
        high: list[Dim] = [0] * self.lead
        reach = zip(self.x.shape[self.lead :], self.sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        for size, count, k, s, p, d in reach:
            need = to_dim((count - 1) * s + (k - 1) * d + 1 - size - p)
            low.append(p)
            high.append(max(need, 0) if isinstance(need, int) else maximum(p, need))
        return pad(self.ctx, self.x, low, high, value)

    def generic(self, padded: Operand, inits: Sequence[Operand], body: Callable[..., Sequence[ir.Value]]) -> list[ir.Value]:
        """``body(element, *results so far)`` for each element of each window."""
        b = self.ctx.b
        lead = list(range(self.lead))
        place = [self.lead + i for i in range(self.spatial)]
        tap = [self.lead + self.spatial + i for i in range(self.spatial)]
        reads: list[MapEntry] = [
            window_entry(o, k, s, d) for o, k, s, d in zip(place, tap, self.stride, self.dilation, strict=True)
        ]
        shape = self.ctx.empty(padded.dtype, list(self.kernel))
        return b.generic(
            [(padded.value, (*lead, *reads)), (shape, tuple(tap))],
            [(v.value, (*lead, *place)) for v in inits],
            "p" * (self.lead + self.spatial) + "r" * self.spatial,
            lambda element, _, *results: body(element, *results),
        )

    def position(self, axis: int) -> ir.Value:
        """Inside a body: the position in the operand along a spatial dim; outside [0, size) in the padding."""
        b = self.ctx.b
        place = b.iteration(self.lead + axis)
        tap = b.iteration(self.lead + self.spatial + axis)
        start = b.same("arith.muli", place, b.idx(self.stride[axis]))
        offset = b.same("arith.muli", tap, b.idx(self.dilation[axis]))
        return b.same("arith.subi", b.same("arith.addi", start, offset), b.idx(self.padding[axis]))


@rule("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool_with_indices(
    ctx: Context,
    node: Node,
    x: Operand,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Operand, Operand]:
    """(maximum of each window, its position in the flat spatial dims); NaN wins; the first of equal elements."""
    out, where = ctx.specs(node)
    spatial = 2 if "2d" in str(node.target) else 3
    kernel = spread(kernel_size, spatial)
    windows = Windows(
        ctx,
        x,
        out.shape[-spatial:],
        kernel,
        spread(stride, spatial, kernel),
        spread(padding, spatial),
        spread(dilation, spatial),
    )
    b = ctx.b
    padded = windows.padded(b.constant(lowest(x.dtype), x.dtype))
    init = ctx.full(lowest(x.dtype), x.dtype, out.shape)
    if not _uses_second(node):
        wide = op_math(x.dtype)
        maximum = ROWS["maximum"].body(kind(x.dtype))
        assert maximum is not None

        def larger(element: ir.Value, best: ir.Value) -> list[ir.Value]:
            pair = (cast(b, v, x.dtype, wide) for v in (best, element))
            return [cast(b, emit(b, maximum, *pair), wide, x.dtype)]

        best = windows.generic(padded, [init], larger)[0]
        return Operand(out.dtype, out.shape, best), ctx.full(0, torch.int64, where.shape)
    sizes = [ctx.sizes.value(d) for d in x.shape[-spatial:]]
    none = ctx.full(-1, torch.int64, where.shape)

    def body(element: ir.Value, best: ir.Value, index: ir.Value) -> list[ir.Value]:
        if kind(x.dtype) is Kind.FLOAT:
            nan = b.compare("uno", element, element)
            take = b.same("arith.ori", b.compare("ogt", element, best), nan)
        else:
            take = b.compare("sgt" if kind(x.dtype) is Kind.SIGNED else "ugt", element, best)
        flat = b.idx(0)
        inside = b.int_constant(1, b.i1)
        for axis, size in enumerate(sizes):
            here = windows.position(axis)
            flat = b.same("arith.addi", b.same("arith.muli", flat, size), here)
            inside = b.same("arith.andi", inside, b.compare("ult", here, size))
        first = b.compare("slt", index, b.int_constant(0, b.i64))
        take = b.same("arith.andi", inside, b.same("arith.ori", take, first))
        return [b.select(take, element, best), b.select(take, b.from_index(flat, torch.int64), index)]

    results = windows.generic(padded, [init, none], body)
    return Operand(out.dtype, out.shape, results[0]), Operand(where.dtype, where.shape, results[1])


def _uses_second(node: Node) -> bool:
    return any(len(user.args) > 1 and user.args[1] == 1 and user.users for user in node.users)


@rule("aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    ctx: Context,
    node: Node,
    x: Operand,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Operand:
    """Mean of each window; the divisor counts padding or not, or is given."""
    out = ctx.spec(node)
    if out.kind is not Kind.FLOAT:
        raise refuse("O2M-L002", "average pooling needs a float dtype", case=str(out.dtype))
    windows = averaging(ctx, node, x, kernel_size, stride, padding)
    b = ctx.b
    wide = op_math(out.dtype)
    total = windows.generic(
        windows.padded(b.constant(0, x.dtype)),
        [ctx.full(0, wide, out.shape)],
        lambda element, total: [b.same("arith.addf", total, cast(b, element, x.dtype, wide))],
    )[0]
    return averaged(ctx, windows, Operand(wide, out.shape, total), out, count_include_pad, divisor_override)


def averaging(
    ctx: Context, node: Node, x: Operand, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Windows:
    """The windows of an average pooling."""
    spatial = 2 if "2d" in str(node.target) else 3
    kernel, pads = spread(kernel_size, spatial), spread(padding, spatial)
    sizes = ctx.spec(node).shape[-spatial:]
    return Windows(ctx, x, sizes, kernel, spread(stride, spatial, kernel), pads, [1] * spatial)


def averaged(
    ctx: Context, windows: Windows, summed: Operand, out: Spec, count_include_pad: bool, divisor_override: int | None
) -> Operand:
    """The sums of windows, divided."""
    b, wide, spatial, kernel, pads = ctx.b, summed.dtype, windows.spatial, windows.kernel, windows.padding
    if divisor_override is not None:
        return convert(ctx, pointwise(ctx, summed.spec, "div", summed, divisor_override), out.dtype)
    exact = all(_all_inside(windows, axis, count_include_pad) for axis in range(spatial))
    if exact:
        count = 1
        for k in kernel:
            count *= k
        return convert(ctx, pointwise(ctx, summed.spec, "div", summed, count), out.dtype)
    extents = [ctx.sizes.value(d) for d in windows.x.shape[-spatial:]]

    def body(element: ir.Value) -> ir.Value:
        count = b.idx(1)
        for axis, extent in enumerate(extents):
            place = b.same("arith.muli", b.iteration(windows.lead + axis), b.idx(windows.stride[axis]))
            start = b.same("arith.subi", place, b.idx(pads[axis]))
            limit = b.same("arith.addi", extent, b.idx(pads[axis]))
            end = b.same("arith.minsi", b.same("arith.addi", start, b.idx(kernel[axis])), limit)
            if not count_include_pad:
                start = b.same("arith.maxsi", start, b.idx(0))
                end = b.same("arith.minsi", end, extent)
            count = b.same("arith.muli", count, b.same("arith.subi", end, start))
        divisor = b.make("arith.sitofp", b.element(wide), b.from_index(count, torch.int64))
        return cast(b, b.same("arith.divf", element, divisor), wide, out.dtype)

    return elementwise(ctx, Spec(out.dtype, out.shape), [summed], body)


def _all_inside(windows: Windows, axis: int, count_include_pad: bool) -> bool:
    """Whether no window reaches where elements are not counted."""
    p = windows.padding[axis]
    if p and not count_include_pad:
        return False
    size = windows.x.shape[windows.lead + axis]
    reach = (windows.sizes[axis] - 1) * windows.stride[axis] + windows.kernel[axis]
    return windows.ctx.sizes.nonnegative(to_dim(sympy.expand(size + 2 * p - reach)))
