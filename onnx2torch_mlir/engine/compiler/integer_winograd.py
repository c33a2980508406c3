"""Which sums of products of bytes are convolutions with windows of 3 by 3 that go by Winograd's algorithm (winograd_code.py).

That pays where no instruction multiplies bytes in fours (VNNI): pairs of transformed numbers are multiplied as fast as pairs of
bytes, and there are 16 of them for 36. Results are exact as long as four times each of them is an int32.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.integer_match import LARGEST, IntegerContraction, Side
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import constant_of
from onnx2torch_mlir.engine.compiler.winograd import Image, image_of
from onnx2torch_mlir.engine.layout import Packing

_PRODUCTS = 9
"""Of a result, for each channel."""
_TIMES = 4
_LIMIT = 1 << 31


def match(found: IntegerContraction, packing: Packing | None) -> Image | None:
    """The image whose convolution a contraction is, if that pays."""
    unit = of_host()
    if packing is None or found.batches or len(found.columns) != 1 or not unit.multiplies_pairs or unit.has_dot_products:
        return None
    image = image_of(found, found.left.operand, found.sums, found.columns[0])
    if image is None or found.operands[found.left.operand].step(image.depth) != 1:
        return None
    channels = found.fixed_length(image.depth) or 0
    largest = _magnitude(found.left) * _magnitude(found.right)
    return image if _TIMES * _PRODUCTS * channels * largest < _LIMIT else None


def _magnitude(side: Side) -> int:
    """The largest that a number of an operand can be, less its zero point."""
    low, high = (-128, 127) if side.signed else (0, 255)
    if side.zero is None and side.number is None:
        return max(-low, high)
    zero = None if side.zero is None else constant_of(side.zero)
    return max(-low, high) + LARGEST if zero is None else max(abs(low - int(zero)), abs(high - int(zero)))
