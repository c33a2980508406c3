"""Rules that cut and join: slice, select, cat, constant_pad_nd, flip."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from torch.fx import Node
from torch.utils._sympy.functions import Where
from torch_mlir import ir

from onnx2torch_mlir.core.dims import maximum, minimum, slice_length, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.context import Context, Number
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, elementwise, scalar_constant
from onnx2torch_mlir.lowering.registry import rule


def dim_index(dim: int, rank: int) -> int:
    """A dim counted from the front; rank 0 is taken as rank 1."""
    return dim + max(rank, 1) if dim < 0 else dim


def from_front(ctx: Context, index: Dim, size: Dim) -> Dim:
    """A position counted from the front."""
    if isinstance(index, int):
        return index if index >= 0 else to_dim(size + index)
    return index if ctx.sizes.nonnegative(index) else Where(index < 0, index + size, index)


def position(ctx: Context, index: Dim, size: Dim) -> Dim:
    """A slice bound counted from the front and clamped to [0, size]."""
    start = from_front(ctx, index, size)
    if isinstance(start, int) or not start.free_symbols & ctx.sizes.numbers:
        return minimum(maximum(0, start), size)
    return to_dim(sympy.Max(0, sympy.Min(start, size)))


def extract_slice(
    ctx: Context,
    x: Operand,
    offsets: Sequence[Dim],
    sizes: Sequence[Dim],
    strides: Sequence[Dim],
    shape: Sequence[Dim] | None = None,
) -> Operand:
    """``tensor.extract_slice``; ``shape`` may drop dims of size 1. The caller has checked bounds."""
    result = tuple(sizes if shape is None else shape)
    if 0 in result or _beyond(offsets, x.shape):  # MLIR's verifier finds every offset out of bounds in a dim of size 0
        return Operand(x.dtype, result, ctx.empty(x.dtype, result))
    groups = [ctx.slots(part) for part in (offsets, sizes, strides)]
    operation = ctx.b.op(
        "tensor.extract_slice",
        [ctx.b.tensor_type(x.dtype, result)],
        [x.value, *(v for values, _ in groups for v in values)],
        {
            "static_offsets": groups[0][1],
            "static_sizes": groups[1][1],
            "static_strides": groups[2][1],
            "operandSegmentSizes": ctx.b.segments(1, *(len(values) for values, _ in groups)),
        },
    )
    return Operand(x.dtype, result, operation.results[0])


def _beyond(offsets: Sequence[Dim], shape: Sequence[Dim]) -> bool:
    """Whether an offset is at the end of a known size: what is there has no elements, and MLIR refuses the offset."""
    pairs = zip(offsets, shape, strict=True)
    return any(isinstance(o, int) and isinstance(d, int) and o >= d for o, d in pairs)


def insert_slice(
    ctx: Context,
    x: Operand,
    into: Operand,
    offsets: Sequence[Dim],
    strides: Sequence[Dim] | None = None,
    sizes: Sequence[Dim] | None = None,
) -> Operand:
    """``tensor.insert_slice`` of all of ``x``; ``sizes`` may add dims of size 1. The caller has checked bounds."""
    if 0 in x.shape or _beyond(offsets, into.shape):
        return into
    extents = x.shape if sizes is None else tuple(sizes)
    if 0 in extents:
        return into
    steps = [1] * into.rank if strides is None else strides
    groups = [ctx.slots(part) for part in (offsets, extents, steps)]
    operation = ctx.b.op(
        "tensor.insert_slice",
        [into.value.type],
        [x.value, into.value, *(v for values, _ in groups for v in values)],
        {
            "static_offsets": groups[0][1],
            "static_sizes": groups[1][1],
            "static_strides": groups[2][1],
            "operandSegmentSizes": ctx.b.segments(1, 1, *(len(values) for values, _ in groups)),
        },
    )
    return Operand(x.dtype, into.shape, operation.results[0])


@rule("aten.slice.Tensor")
def slice_(
    ctx: Context,
    node: Node,
    x: Operand,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: Dim = 1,
) -> Operand:
    """Every ``step``-th position (step > 0) from start up to end, both clamped."""
    out = ctx.spec(node)
    axis = dim_index(dim, x.rank)
    size = x.shape[axis]
    if isinstance(step, int) and step < 1:
        raise refuse("O2M-L002", f"the step of a slice must be positive, not {step}", case="step")
    if not isinstance(step, int):
        ctx.require(sympy.Ge(step, 1), "the step of a slice must be positive")
    first = 0 if start is None else position(ctx, start, size)
    last = size if end is None or (isinstance(end, int) and end >= 2**63 - 1) else position(ctx, end, size)
    length = slice_length(first, last, step)
    ctx.declare(out.shape[axis], length, "the length of a slice")
    offsets = [first if a == axis else 0 for a in range(x.rank)]
    strides = [step if a == axis else 1 for a in range(x.rank)]
    if out.shape == x.shape and step == 1:
        return x
    return extract_slice(ctx, x, offsets, out.shape, strides)


@rule("aten.select.int")
def select(ctx: Context, node: Node, x: Operand, dim: int, index: Dim) -> Operand:
    """One position along ``dim``, which disappears; a position outside fails at run time."""
    out = ctx.spec(node)
    axis = dim_index(dim, x.rank)
    size = x.shape[axis]
    first = from_front(ctx, index, size)
    inside = sympy.And(sympy.Ge(first, 0), sympy.Lt(first, size))
    ctx.require(inside, f"position {index} of a dim of {size} elements must exist")
    offsets = [first if a == axis else 0 for a in range(x.rank)]
    sizes = [1 if a == axis else d for a, d in enumerate(x.shape)]
    return extract_slice(ctx, x, offsets, sizes, [1] * x.rank, out.shape)


@rule("aten.cat.default")
def cat(ctx: Context, node: Node, tensors: Sequence[Operand], dim: int = 0) -> Operand:
    """Joined along ``dim``; a 1-D tensor without elements may stand among tensors of any rank."""
    out = ctx.spec(node)
    axis = dim_index(dim, out.rank)
    parts = [x for x in tensors if x.rank == out.rank and x.shape[axis] != 0]
    if len(parts) == 1 and parts[0].shape == out.shape:
        return convert(ctx, parts[0], out.dtype)
    result = Operand(out.dtype, out.shape, ctx.empty(out.dtype, out.shape))
    start: Dim = 0
    for x in parts:
        for a, (have, want) in enumerate(zip(x.shape, out.shape, strict=True)):
            if a != axis:
                ctx.require_equal(have, want, "sizes of joined tensors must be equal")
        offsets = [start if a == axis else 0 for a in range(out.rank)]
        result = insert_slice(ctx, convert(ctx, x, out.dtype), result, offsets)
        start = to_dim(start + x.shape[axis])
    ctx.require_equal(start, out.shape[axis], "the size of joined tensors")
    return result


def pad(ctx: Context, x: Operand, low: Sequence[Dim], high: Sequence[Dim], value: ir.Value) -> Operand:
    """``tensor.pad`` with an element; no width may be negative."""
    if all(w == 0 for w in (*low, *high)):
        return x
    shape = [to_dim(d + lo + hi) for d, lo, hi in zip(x.shape, low, high, strict=True)]
    if 0 in x.shape:
        # tensor.pad would insert the empty tensor behind the end of the result, which bufferization refuses.
        return ctx.fill(value, x.dtype, shape)
    groups = [ctx.slots(part) for part in (low, high)]
    operation = ctx.b.op(
        "tensor.pad",
        [ctx.b.tensor_type(x.dtype, shape)],
        [x.value, *(v for values, _ in groups for v in values)],
        {
            "static_low": groups[0][1],
            "static_high": groups[1][1],
            "operandSegmentSizes": ctx.b.segments(1, *(len(values) for values, _ in groups)),
        },
        regions=1,
    )
    block = operation.regions[0].blocks.append(*[ctx.b.index] * x.rank)
    with ir.InsertionPoint(block):
        ctx.b.op("tensor.yield", [], [value])
    return Operand(x.dtype, tuple(shape), operation.results[0])


def crop_and_pad(
    ctx: Context, x: Operand, low: Sequence[Dim], high: Sequence[Dim], value: ir.Value, shape: Sequence[Dim]
) -> Operand:
    """Padding whose negative widths cut off elements instead; the result has the sizes ``shape``."""
    drop_low = [maximum(0, to_dim(-w)) for w in low]
    drop_high = [maximum(0, to_dim(-w)) for w in high]
    if any(w != 0 for w in (*drop_low, *drop_high)):
        sizes = [to_dim(d - lo - hi) for d, lo, hi in zip(x.shape, drop_low, drop_high, strict=True)]
        for size, d in zip(sizes, x.shape, strict=True):
            if size != d:
                ctx.require(sympy.Ge(size, 0), "negative padding cannot cut off more than there is")
        x = extract_slice(ctx, x, drop_low, sizes, [1] * x.rank)
    widths = [[maximum(0, w) for w in side] for side in (low, high)]
    result = pad(ctx, x, widths[0], widths[1], value)
    for have, want in zip(result.shape, shape, strict=True):
        ctx.declare(want, have, "the size of a padded tensor")
    wanted = ctx.b.tensor_type(x.dtype, shape)
    made = result.value if result.value.type == wanted else ctx.b.make("tensor.cast", wanted, result.value)
    return Operand(x.dtype, tuple(shape), made)


@rule("aten.constant_pad_nd.default")
def constant_pad_nd(ctx: Context, node: Node, x: Operand, pad: Sequence[Dim], value: Number = 0) -> Operand:
    """Padding given as (low, high) from the last dim backwards."""
    out = ctx.spec(node)
    low, high = [[0] * x.rank for _ in range(2)]
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return crop_and_pad(ctx, x, low, high, scalar_constant(ctx, value, x.dtype), out.shape)


@rule("aten.flip.default")
def flip(ctx: Context, node: Node, x: Operand, dims: Sequence[int]) -> Operand:
    """Elements along ``dims`` in reverse order."""
    b = ctx.b
    axes = {dim_index(d, x.rank) for d in dims}
    if not axes or not x.rank:
        return x
    last = {a: b.same("arith.subi", ctx.sizes.value(x.shape[a]), b.idx(1)) for a in axes}

    def body() -> ir.Value:
        here = [b.iteration(a) for a in range(x.rank)]
        return ctx.at(x, [b.same("arith.subi", last[a], i) if a in axes else i for a, i in enumerate(here)])

    return elementwise(ctx, Spec(x.dtype, x.shape), [], body)
