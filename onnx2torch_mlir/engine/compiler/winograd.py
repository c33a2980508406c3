"""Which contractions are convolutions with windows of 3 by 3 that go by Winograd's algorithm (winograd_code.py), of float32; of
bytes by the same rules (integer_winograd.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler import winograd_code
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known
from onnx2torch_mlir.engine.compiler.loop_order import Access, coefficient
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes
from onnx2torch_mlir.engine.compiler.winograd_forms import Form
from onnx2torch_mlir.engine.layout import Packing

_WINDOW = 3
_LEAST_CHANNELS = 32
"""Of the image and of the result: with fewer the additions cost more than the products that are saved."""
_LEAST_PIXELS = 40
"""Of all images: with fewer it takes longer to read the weights, of which there are 16 for 9, than to multiply them."""


@dataclass(frozen=True)
class Image:
    """The loops over images (None if there is one), lines and pixels of a line, over its channels and the result's; and which
    operands it and the result are."""

    images: int | None
    y: int
    x: int
    depth: int
    column: int
    operand: int
    out: int


def match(found: Contraction, packing: Packing | None) -> Image | None:
    """The image whose convolution a contraction is, if that pays."""
    if packing is None or packing.codes or found.batches or found.column is None:
        return None
    return image_of(found, found.left, found.segments, found.column)


class Loops(Protocol):
    """What there is of a contraction: of its operands the result is the last."""

    @property
    def operands(self) -> Sequence[Access]:
        """How the operands are read."""

    @property
    def rows(self) -> Sequence[int]:
        """The loops over rows of the result, outer ones first."""

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of a loop, where the types tell."""


def image_of(found: Loops, operand: int, sums: Sequence[int], column: int) -> Image | None:
    """The image, an ``operand``, whose convolution with packed weights adds up along ``sums`` for each ``column``."""
    if len(sums) != _WINDOW or len(found.rows) not in (2, 3):
        return None
    *images, y, x = found.rows
    ky, kx, depth = sums
    left = found.operands[operand]
    if [found.fixed_length(dim) for dim in (ky, kx)] != [_WINDOW] * 2 or not _go_together(left, ((y, ky), (x, kx))):
        return None
    channels, columns = found.fixed_length(depth), found.fixed_length(column)
    if channels is None or columns is None or min(channels, columns) < _LEAST_CHANNELS:
        return None
    pixels = 1
    for dim in found.rows:
        pixels *= found.fixed_length(dim) or _LEAST_PIXELS
    image = Image(images[0] if images else None, y, x, depth, column, operand, len(found.operands) - 1)
    return image if pixels >= _LEAST_PIXELS else None


def _go_together(left: Access, pairs: tuple[tuple[int, int], ...]) -> bool:
    """Whether each pair of loops moves the left operand by the same step: without stride or dilation."""
    results = left.map.results
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
    return [found.fixed_length(image.depth)], tiles, found.fixed_length(image.column)


def call(form: Form, sizes: Sizes, image: Image, pointers: list[ir.Value], more: list[ir.Value]) -> None:
    """A call at the insertion point. ``pointers`` come before `winograd_code.SIZES`; ``more`` of a form, and what a tail is
    told, behind them."""
    loops = (image.images, image.y, image.x)
    counts = [sizes.number(1) if dim is None else sizes.count(dim) for dim in loops]
    steps = [
        sizes.number(0) if dim is None else sizes.step(operand, dim) for operand in (image.operand, image.out) for dim in loops
    ]
    words = [*counts, *steps, sizes.count(image.depth), sizes.count(image.column)]
    assert len(words) == len(winograd_code.SIZES)
    func.CallOp([], ir.FlatSymbolRefAttr.get(winograd_code.name(form)), [*pointers, *words, *more])
