"""Convolutions of single pixels, where channels come first, are matrix products over all pixels: one loop for all axes."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import tensor

from onnx2torch_mlir.engine.compiler import linalg_ops
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps
from onnx2torch_mlir.engine.compiler.reshapes import collapsed, expanded
from onnx2torch_mlir.engine.compiler.tensor_parts import dim_of, empty_of, type_of
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested
from onnx2torch_mlir.engine.compiler.window_sums import has_single_pixels, is_sum_of_products


def merge_pixels(module: ir.Module) -> None:
    """Replace such convolutions of @main: of [N, C, …], or [N, groups, C, …], with a step of 1 in all directions, over a result
    that is filled."""
    (main,) = functions(module)
    for operation in nested(main):
        if operation.name == "linalg.generic" and is_sum_of_products(operation) and has_single_pixels(operation):
            _merge(operation)


def _merge(generic: ir.Operation) -> None:
    image, weight, filled = generic.operands
    read, taps, written = indexing_maps(generic)
    rank = len(written.results)
    spatial = written.n_dims - rank - 1
    before = rank - spatial
    fill = made_by(filled, "linalg.fill")
    if spatial < 2 or fill is None or ir.RankedTensorType(image.type).element_type != ir.F32Type.get():
        return
    dims = [ir.AffineExpr.get_dim(loop) for loop in range(written.n_dims)]
    # Images, groups of channels if there are any, and filters.
    n, *groups, out = dims[:before]
    pixels, channel, windows = dims[before:rank], dims[rank], dims[rank + 1 :]
    if list(written.results) != dims[:rank] or list(taps.results) != [*groups, out, channel, *windows] or len(groups) > 1:
        return
    places = [ir.AffineExpr.get_add(pixel, window) for pixel, window in zip(pixels, windows, strict=True)]
    if list(read.results) != [n, *groups, channel, *places]:
        return
    merged = [*([axis] for axis in range(before)), list(range(before, rank))]
    type_ = ir.RankedTensorType(generic.results[0].type)
    with ir.InsertionPoint(generic), generic.location:
        flat = collapsed(image, merged)
        matrix = collapsed(weight, [*([axis] for axis in range(before - 1)), list(range(before - 1, rank))])
        of_weight = [dim_of(weight, axis) for axis in range(before - 1)]
        sizes: list[int | ir.Value] = [dim_of(image, 0), *of_weight, dim_of(flat, before)]
        target = type_of(sizes, type_.element_type)
        start = linalg_ops.fill(fill.operands[0], empty_of(target, sizes))
        loops = [ir.AffineExpr.get_dim(loop) for loop in range(before + 2)]
        outer, filters, along, summed = loops[: before - 1], loops[before - 1], loops[before], loops[before + 1]
        maps = [[*outer, summed, along], [*outer[1:], filters, summed], [*outer, filters, along]]
        made = linalg_ops.GenericOp(
            [target],
            [flat, matrix],
            [start],
            linalg_ops.map_attributes(ir.AffineMap.get(len(loops), 0, results) for results in maps),
            linalg_ops.iterator_types([*[False] * (before + 1), True]),
        )
        generic.regions[0].blocks[0].append_to(made.regions[0])
        result = expanded(made.results[0], merged, [*sizes[:before], *(dim_of(image, axis) for axis in range(before, rank))])
        if result.type != type_:
            result = tensor.CastOp(type_, result).result
    generic.results[0].replace_all_uses_with(result)
    generic.erase()
