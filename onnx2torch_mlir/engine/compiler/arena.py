"""One block of memory for all intermediate results of known size: where each lies in it is settled here.

Two may share bytes if one is dead before the other is made. The largest are placed first, each as low as those allow that live
at the same time (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020); where
that leaves holes, others are tried, by size and time, and by time. Buffers of sizes that only the run tells, those inside
of loops and results of the program stay blocks of their own (call_memory.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import memref

from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES
from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.flatten import element_bytes
from onnx2torch_mlir.engine.compiler.walks import functions, symbol

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_ENOUGH = 1.02
"""Times what lives at once: an arena of this size is left as it is."""


def settle(module: ir.Module) -> None:
    """Replace each ``memref.alloc`` of @main's block that is freed there by a part of one."""
    (main,) = (function for function in functions(module) if symbol(function) == "main")
    block = main.regions[0].blocks[0]
    operations = [operation.operation for operation in block.operations]
    places = {operation: place for place, operation in enumerate(operations)}
    made, freed, sizes = list[ir.Operation](), list[ir.Operation](), list[int]()
    for operation in operations:
        end = _freed(operation, block) if operation.name == "memref.alloc" else None
        if end is not None:
            type_ = ir.MemRefType(operation.result.type)
            size = math.prod(type_.shape) * element_bytes(type_.element_type)
            made.append(operation)
            freed.append(end)
            sizes.append(-(-max(size, 1) // LINE_BYTES) * LINE_BYTES)
    if len(made) < 2:
        return
    offsets = placed(sizes, [places[one] for one in made], [places[one] for one in freed])
    total = max(offset + size for offset, size in zip(offsets, sizes, strict=True))
    byte = ir.IntegerType.get_signless(8)
    with ir.InsertionPoint.at_block_begin(block), main.location:
        whole = memref.AllocOp(ir.MemRefType.get([total], byte), [], []).result
    with ir.InsertionPoint(operations[-1]), main.location:
        memref.DeallocOp(whole)
    for operation, end, offset in zip(made, freed, offsets, strict=True):
        with ir.InsertionPoint(operation), operation.location:
            part = memref.ViewOp(operation.result.type, whole, index(offset), []).result
        end.erase()
        operation.result.replace_all_uses_with(part)
        operation.erase()


def _freed(alloc: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """What frees a buffer of known size, if it is in the same block."""
    type_ = ir.MemRefType(alloc.result.type)
    if not type_.has_static_shape or type_.affine_map != ir.AffineMap.get_identity(type_.rank):
        return None
    ends = [use.owner.operation for use in alloc.result.uses if use.owner.operation.name == "memref.dealloc"]
    return ends[0] if len(ends) == 1 and ends[0].block == block else None


def placed(sizes: Sequence[int], begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Offsets of buffers that live from ``begins`` to ``ends``, both included: no two overlap in time and place."""
    size, begin, end = (np.array(numbers, np.int64) for numbers in (sizes, begins, ends))
    # No arena is smaller than all that live at once: what one begins is among these.
    least = max((int(size[(begin <= one) & (end >= one)].sum()) for one in begin), default=0)
    best: tuple[int, Numbers] | None = None
    for order in (-size, -size * (end - begin + 1), begin - end):
        offsets = _placed(np.argsort(order, kind="stable"), size, begin, end)
        total = int((offsets + size).max(initial=0))
        if best is None or total < best[0]:
            best = total, offsets
        if best[0] <= _ENOUGH * least:
            break
    assert best is not None
    return [int(offset) for offset in best[1]]


def _placed(order: Numbers, size: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Offsets of buffers that are placed in this order, each as low as those before it allow."""
    offsets = np.full(len(size), -1, np.int64)
    for one in order:
        others = np.flatnonzero((offsets >= 0) & (begin <= end[one]) & (end >= begin[one]))
        others = others[np.argsort(offsets[others], kind="stable")]
        starts = offsets[others]
        # What is free before each begins where all of those that lie lower end.
        free = np.maximum.accumulate(np.concatenate([[0], starts + size[others]]))
        gaps = np.flatnonzero(starts - free[:-1] >= size[one])
        offsets[one] = free[gaps[0]] if gaps.size else free[-1]
    return offsets
