"""Which contractions are convolutions with windows of 3 by 3 that go by Winograd's algorithm (winograd_code.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler import winograd_code
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known
from onnx2torch_mlir.engine.compiler.loop_order import coefficient
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes
from onnx2torch_mlir.engine.layout import Packing

_WINDOW = 3
_LEAST_CHANNELS = 32
"""Of the image and of the result: with fewer the additions cost more than the products that are saved."""
_LEAST_PIXELS = 40
"""Of all images: with fewer it takes longer to read the weights, of which there are 16 for 9, than to multiply them."""


@dataclass(frozen=True)
class Image:
    """The loops over images (None if there is one), lines and pixels of a line."""

    images: int | None
    y: int
    x: int
    depth: int


def match(found: Contraction, packing: Packing | None) -> Image | None:
    """The image whose convolution a contraction is, if that pays."""
    if packing is None or packing.codes or found.batches or found.column is None or len(found.segments) != _WINDOW:
        return None
    if len(found.rows) not in (2, 3):
        return None
    *images, y, x = found.rows
    ky, kx, depth = found.segments
    if [found.fixed_length(dim) for dim in (ky, kx)] != [_WINDOW] * 2 or not _go_together(found, ((y, ky), (x, kx))):
        return None
    channels, columns = found.fixed_length(depth), found.fixed_length(found.column)
    if channels is None or columns is None or min(channels, columns) < _LEAST_CHANNELS:
        return None
    pixels = 1
    for dim in found.rows:
        pixels *= found.fixed_length(dim) or _LEAST_PIXELS
    return Image(images[0] if images else None, y, x, depth) if pixels >= _LEAST_PIXELS else None


def _go_together(found: Contraction, pairs: tuple[tuple[int, int], ...]) -> bool:
    """Whether each pair of loops moves the left operand by the same step: without stride or dilation."""
    results = found.operands[found.left].map.results
    return all(coefficient(axis, one) == coefficient(axis, other) for axis in results for one, other in pairs) and all(
        sum(bool(coefficient(axis, one)) for axis in results) == 1 for one, _ in pairs
    )


def packing_of(packing: Packing) -> Packing:
    """The weights of a match, transformed."""
    return replace(packing, windows=True)


def products_of(found: Contraction, image: Image) -> tuple[list[int | None], set[int] | None, int | None]:
    """What is multiplied: how many channels, the numbers of tiles that meet all columns together, and how many columns."""
    counts = all_known([1 if dim is None else found.fixed_length(dim) for dim in (image.images, image.y, image.x)])
    tiles = None if counts is None else winograd_code.tiles_of_blocks(*counts)
    assert found.column is not None
    return [found.fixed_length(image.depth)], tiles, found.fixed_length(found.column)


def call(found: Contraction, image: Image, pointers: list[ir.Value], few: int, told: list[ir.Value]) -> None:
    """A call at the insertion point. ``pointers`` come before `winograd_code.SIZES`, of which the number of the ``few`` columns
    that are by themselves is the last, and what a tail is ``told`` behind them."""
    sizes = Sizes(found)
    loops = (image.images, image.y, image.x)
    counts = [sizes.number(1) if dim is None else sizes.count(dim) for dim in loops]
    steps = [sizes.number(0) if dim is None else sizes.step(operand, dim) for operand in (found.left, 2) for dim in loops]
    assert found.column is not None
    words = [*counts, *steps, sizes.count(image.depth), sizes.count(found.column), sizes.number(few)]
    assert len(words) == len(winograd_code.SIZES)
    func.CallOp([], ir.FlatSymbolRefAttr.get(winograd_code.NAME), [*pointers, *words, *told])
