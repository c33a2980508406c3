"""The sum of products that a convolution is, over an input that is padded already: one linalg.generic.

Depthwise convolutions have no channel loops besides the group's; those with a few results for each channel read it as often.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from onnx2torch_mlir.core.dims import floor_div, to_dim
from onnx2torch_mlir.lowering.builder import MapEntry
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.contraction import multiply_add
from onnx2torch_mlir.lowering.dtypes import op_math
from onnx2torch_mlir.lowering.movement import broadcast
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.windows import window_entry

_FEW_RESULTS = 8
"""Of one channel: as many as are hardly worth a product of matrices."""


def correlate(
    ctx: Context,
    x: Operand,
    weight: Operand,
    out: Spec,
    steps: Sequence[int],
    apart: Sequence[int],
    groups: int,
    offsets: Sequence[ir.Value | None],
) -> Operand:
    """The ``out`` of [N, C, *S] and [F, C/groups, *K] with windows that are ``steps`` apart, their taps ``apart``.

    The result is in the accumulator's dtype. ``offsets`` (of that dtype) are subtracted from the elements of either.
    """
    n, f, *sizes = out.shape
    kernel = weight.shape[2:]
    per_f, per_c = floor_div(f, groups), weight.shape[1]
    if groups > 1 and per_c == 1 and isinstance(per_f, int) and 1 < per_f <= _FEW_RESULTS:
        x, groups, per_f = _repeated(ctx, x, per_f), groups * per_f, 1
    depthwise = groups > 1 and per_f == 1 and per_c == 1
    if depthwise:
        shapes = x.shape, (groups, *kernel), out.shape
        channels_x, channels_w, channels_out, letters = "g", "g", "g", "g"
    elif groups > 1:
        shapes = (n, groups, per_c, *x.shape[2:]), (groups, per_f, per_c, *kernel), (n, groups, per_f, *sizes)
        channels_x, channels_w, channels_out, letters = "gc", "gfc", "gf", "gf"
    else:
        shapes = x.shape, weight.shape, out.shape
        channels_x, channels_w, channels_out, letters = "c", "fc", "f", "f"
    order = ["n", *letters, *(f"o{i}" for i in range(len(sizes)))]
    summed = [*("c" if "c" in channels_x else ""), *(f"k{i}" for i in range(len(sizes)))]
    number = {name: i for i, name in enumerate([*order, *summed])}
    windows: list[MapEntry] = [
        window_entry(number[f"o{i}"], number[f"k{i}"], s, d) for i, (s, d) in enumerate(zip(steps, apart, strict=True))
    ]
    taps = [number[f"k{i}"] for i in range(len(kernel))]
    places = [number[f"o{i}"] for i in range(len(kernel))]
    operands = [reshape(ctx, v, shape) for v, shape in ((x, shapes[0]), (weight, shapes[1]))]
    dtype = op_math(out.dtype)
    init = ctx.full(0, dtype, shapes[2])
    result: ir.Value = ctx.b.generic(
        [
            (operands[0].value, (0, *(number[c] for c in channels_x), *windows)),
            (operands[1].value, (*(number[c] for c in channels_w), *taps)),
        ],
        [(init.value, (0, *(number[c] for c in channels_out), *places))],
        "p" * len(order) + "r" * len(summed),
        multiply_add(ctx.b, operands[0], operands[1], dtype, offsets),
    )[0]
    return reshape(ctx, Operand(dtype, shapes[2], result), out.shape)


def _repeated(ctx: Context, x: Operand, count: int) -> Operand:
    """[N, C, *S] with each channel ``count`` times, one after the other."""
    n, c, *sizes = x.shape
    wide = broadcast(ctx, reshape(ctx, x, [n, c, 1, *sizes]), [n, c, count, *sizes])
    return reshape(ctx, wide, [n, to_dim(c * count), *sizes])
