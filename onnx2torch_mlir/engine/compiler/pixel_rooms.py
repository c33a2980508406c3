"""Room behind the channels of each pixel, where pixels would lie in few sets of the first-level cache.

A set holds lines whose addresses are a multiple of 4 KiB apart. Of 256 or 512 channels of float32 neighbouring pixels are in
four or two of the 64 sets: what a tile writes of some pixels, or a window reads, drives out what is needed next. With a line
more behind the channels every set serves. Convolutions of single pixels that make 256 channels or more are a quarter faster on
Zen 4, depthwise ones of 512 channels twice as fast.

Padded images that windows read have it wherever they are made (borders.py); `make` gives it to the results of convolutions
whose sizes are known.
"""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES
from onnx2torch_mlir.engine.compiler.flatten import element_bytes
from onnx2torch_mlir.engine.compiler.linalg_ops import fill
from onnx2torch_mlir.engine.compiler.loop_order import coefficient, indexing_maps, iterators
from onnx2torch_mlir.engine.compiler.tensor_parts import Part
from onnx2torch_mlir.engine.compiler.walks import functions, i64, made_by, named

_OWN = "o2m.room"
"""The attribute of memory that is not to be shared: equal ``tensor.empty`` become one else."""
_LEAST_RANK = 4
"""Of images: a batch of them, lines, pixels, channels."""
_SAME_SETS = 16
"""Pixels that are a multiple of so many lines apart share four sets or fewer."""


def with_room(image: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of an ``image`` whose last axis is that of channels, with a line more behind them if they need it."""
    last = image.rank - 1
    if image.rank < _LEAST_RANK or image.is_dynamic_dim(last):
        return image
    width, channels = element_bytes(image.element_type), int(image.get_dim_size(last))
    if channels == 0 or channels * width % (_SAME_SETS * LINE_BYTES):
        return image
    shape = [int(image.get_dim_size(axis)) for axis in range(last)]
    return ir.RankedTensorType.get([*shape, channels + LINE_BYTES // width], image.element_type)


def without_room(whole: ir.Value, image: ir.RankedTensorType) -> ir.Value:
    """The ``image`` of known channels in the ``whole`` with room, whose other sizes it shares."""
    return Part({image.rank - 1: (0, int(image.get_dim_size(image.rank - 1)))}).of(whole)


def make(module: ir.Module) -> None:
    """Give room to what convolutions of @main make, and pointwise nests of that."""
    (main,) = functions(module)
    waiting = [nest for nest in named(main, "linalg.generic") if _makes_channels(nest)]
    # All are found before any is changed, for an operation's hash changes with its operands.
    seen = set[ir.Operation]()
    found = list[ir.Operation]()
    while waiting:
        nest = waiting.pop()
        if nest in seen:
            continue
        seen.add(nest)
        users, type_ = _users(nest), nest.results[0].type
        # What alone reads sums is their tail, and makes what is kept of them (contraction_tails.py).
        has_tail = any(iterators(nest)) and len(users) == 1 and _is_pointwise(users[0])
        found += [nest] if not has_tail and _may_have_room(nest) else []
        waiting += [user for user in users if _is_pointwise(user) and user.results[0].type == type_]
    for number, nest in enumerate(found):
        _give(nest, number)


def _makes_channels(nest: ir.Operation) -> bool:
    """Whether it sums up what a weight alone has for each of its channels, which lie side by side: no windows of each channel,
    whose tails write all of an image as one (windows.py)."""
    if not any(iterators(nest)) or len(nest.results) != 1 or len(nest.operands) != 3:
        return False
    maps = indexing_maps(nest)
    last = next(reversed(list(maps[2].results)), None)
    if not isinstance(last, ir.AffineDimExpr):
        return False
    of_image, of_weight = (any(coefficient(e, last.position) for e in map_.results) for map_ in maps[:2])
    return of_weight and not of_image


def _may_have_room(nest: ir.Operation) -> bool:
    """Whether all sizes are known, it writes where nothing is yet, and those that read it take it as it lies."""
    type_ = ir.RankedTensorType(nest.results[0].type)
    if not type_.has_static_shape or with_room(type_) == type_ or not isinstance(type_.element_type, ir.F32Type):
        return False
    out = nest.operands[len(nest.operands) - 1]
    filled = made_by(out, "linalg.fill")
    if made_by(out if filled is None else filled.operands[1], "tensor.empty") is None:
        return False
    return all(user.name.startswith("linalg.") or user.name == "tensor.insert_slice" for user in _users(nest))


def _users(nest: ir.Operation) -> list[ir.Operation]:
    """Those that read its result, each once."""
    return list(dict.fromkeys(use.owner.operation for use in nest.results[0].uses))


def _is_pointwise(nest: ir.Operation) -> bool:
    return nest.name == "linalg.generic" and len(nest.results) == 1 and not any(iterators(nest))


def _give(nest: ir.Operation, number: int) -> None:
    position = len(nest.operands) - 1
    out, type_ = nest.operands[position], ir.RankedTensorType(nest.results[0].type)
    filled = made_by(out, "linalg.fill")
    with ir.InsertionPoint(nest), nest.location:
        whole = ir.Operation.create("tensor.empty", [with_room(type_)], attributes={_OWN: i64(number)}).results[0]
        image = without_room(whole, type_)
        nest.operands[position] = image if filled is None else fill(filled.operands[0], image)
