"""Many parts of one tensor, each written by itself rather than into what the one before it left.

Joined tensors are a chain of ``tensor.insert_slice``. Bufferization compares every link with every other one along the chain:
the time grows with the cube of its length (400 parts: five seconds). Where memory is named, each part is a write of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import bufferization, memref

from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested

_LINK = "tensor.insert_slice"
_MANY = 32
"""Links of a chain from which on that takes less time."""


def write_apart(module: ir.Module) -> None:
    """Replace long chains of dense parts that begin with a ``tensor.empty``."""
    for function in functions(module):
        for operation in nested(function):
            if operation.name == _LINK and not _goes_on(operation):
                links = _chain(operation)
                if len(links) >= _MANY:
                    _replace(links)


def _goes_on(link: ir.Operation) -> bool:
    """Whether the only use of what a link leaves is that another one of the block writes into it."""
    uses = list(link.results[0].uses)
    if len(uses) != 1 or uses[0].operand_number != 1:
        return False
    user = uses[0].owner.operation
    return user.name == _LINK and user.block == link.block and _is_dense(user)


def _chain(last: ir.Operation) -> list[ir.Operation]:
    """The links that end with ``last``, the first one first; none, if they do not begin with an empty tensor."""
    links = [last]
    while (before := made_by(links[-1].operands[1], _LINK)) is not None and _goes_on(before):
        links.append(before)
    # Of all but the first, `_goes_on` has seen that they are dense.
    begins = _is_dense(links[-1]) and made_by(links[-1].operands[1], "tensor.empty") is not None
    return links[::-1] if begins else []


def _is_dense(link: ir.Operation) -> bool:
    """Whether a part has all dims of the whole, and no places between."""
    part, whole = (ir.RankedTensorType(operand.type) for operand in list(link.operands)[:2])
    return part.rank == whole.rank and set(ir.DenseI64ArrayAttr(link.attributes["static_strides"])) <= {1}


def _replace(links: Sequence[ir.Operation]) -> None:
    empty = links[0].operands[1].owner.operation
    whole = ir.RankedTensorType(empty.results[0].type)
    with ir.InsertionPoint(links[0]), links[0].location:
        made = memref.AllocOp(ir.MemRefType.get(whole.shape, whole.element_type), list(empty.operands), []).result
    for link in links:
        part = ir.RankedTensorType(link.operands[0].type)
        segments = ir.DenseI32ArrayAttr(link.attributes["operandSegmentSizes"])
        attributes = {name: link.attributes[name] for name in ("static_offsets", "static_sizes", "static_strides")}
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(list(segments)[1:])
        with ir.InsertionPoint(link), link.location:
            type_ = ir.MemRefType.get(part.shape, part.element_type, _layout(whole, link))
            place = ir.Operation.create("memref.subview", [type_], [made, *list(link.operands)[2:]], attributes).results[0]
            bufferization.MaterializeInDestinationOp(None, link.operands[0], place, restrict=True, writable=True)
    with ir.InsertionPoint(links[-1]), links[-1].location:
        result = bufferization.ToTensorOp(whole, made, restrict=True, writable=True).result
    links[-1].results[0].replace_all_uses_with(result)
    for link in reversed(links):
        link.erase()


def _layout(whole: ir.RankedTensorType, link: ir.Operation) -> ir.StridedLayoutAttr:
    """Of a dense part of a dense ``whole``."""
    unknown, dynamic = ir.ShapedType.get_dynamic_stride_or_offset(), ir.ShapedType.get_dynamic_size()
    strides = [1]
    for size in reversed(whole.shape[1:]):
        strides.insert(0, unknown if unknown == strides[0] or size == dynamic else size * strides[0])
    offset = 0
    for place, stride in zip(ir.DenseI64ArrayAttr(link.attributes["static_offsets"]), strides, strict=True):
        if place != 0:
            offset = unknown if unknown in (offset, place, stride) else offset + place * stride
    return ir.StridedLayoutAttr.get(offset, strides)
