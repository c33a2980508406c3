"""Padding writes each element once: what is padded into the middle, the value into the border around it.

Bufferization would fill all of the result first. The border is cut into slabs, two for each padded dim, that fill in place.
Where a nest makes what is padded, and its sizes are known before it, it writes it into the middle itself.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from onnx2torch_mlir.engine.compiler.linalg_ops import fill
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested

_OWN = "o2m.padded"
"""The attribute of memory that is not to be shared."""


def fill_borders(module: ir.Module) -> None:
    """Replace every ``tensor.pad`` of @main with one value by the filled slabs around what is padded."""
    (main,) = functions(module)
    for number, operation in enumerate(nested(main)):
        if operation.name == "tensor.pad" and value_around(operation) is not None:
            _replace(operation, number)


def value_around(pad: ir.Operation) -> ir.Value | None:
    """What is around, if it does not depend on the place."""
    (terminator,) = list(pad.regions[0].blocks[0].operations)[-1:]
    value: ir.Value = terminator.operation.operands[0]
    inside = len(list(pad.regions[0].blocks[0].operations)) > 1 or value in list(pad.regions[0].blocks[0].arguments)
    return None if inside else value


class _Size:
    """A size that is known or a value of type index."""

    def __init__(self, known: int | None, value: ir.Value | None = None) -> None:
        self.known, self.value = known, value

    def plus(self, other: _Size) -> _Size:
        if self.known is not None and other.known is not None:
            return _Size(self.known + other.known)
        return _Size(None, arith.AddIOp(self.index(), other.index()).result)

    def index(self) -> ir.Value:
        if self.value is None:
            self.value = arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), self.known)).result
        return self.value


def _replace(pad: ir.Operation, number: int) -> None:
    source, result = pad.operands[0], pad.results[0]
    from_, to = ir.RankedTensorType(source.type), ir.RankedTensorType(result.type)
    around = value_around(pad)
    maker = _maker(pad)
    with ir.InsertionPoint(pad if maker is None else _beginning(maker)), pad.location:
        low, high = (_widths(pad, name, first) for name, first in (("static_low", 1), ("static_high", 1 + _dynamic(pad))))
        varying = [d for d in range(from_.rank) if from_.is_dynamic_dim(d)]
        given = [_dim(source, d) for d in varying] if maker is None else _made_sizes(maker)
        values = dict(zip(varying, given, strict=True))
        inner = [_Size(None, values[d]) if d in values else _Size(from_.shape[d]) for d in range(from_.rank)]
        ends = [a.plus(b) for a, b in zip(low, inner, strict=True)]
        outer = [
            end.plus(width) if to.is_dynamic_dim(d) else _Size(to.shape[d])
            for d, (end, width) in enumerate(zip(ends, high, strict=True))
        ]
        zero = _Size(0)
        whole = ir.Operation.create(
            "tensor.empty", [to], [size.index() for d, size in enumerate(outer) if to.is_dynamic_dim(d)]
        ).results[0]
        if maker is not None:
            # Equal ones would become one, which a contraction reads while it makes what is padded next.
            whole.owner.attributes[_OWN] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
        for dim in range(to.rank):
            for start, width in ((zero, low[dim]), (ends[dim], high[dim])):
                if width.known == 0:
                    continue
                offsets = [*low[:dim], start, *[zero] * (to.rank - dim - 1)]
                sizes = [*inner[:dim], width, *outer[dim + 1 :]]
                slab = _slice("tensor.extract_slice", None, whole, offsets, sizes)
                filled = fill(around, slab)
                whole = _slice("tensor.insert_slice", filled, whole, offsets, sizes)
        if maker is not None:
            maker.operands[len(maker.operands) - 1] = _slice("tensor.extract_slice", None, whole, low, inner)
    with ir.InsertionPoint(pad), pad.location:
        whole = _slice("tensor.insert_slice", source, whole, low, inner)
    result.replace_all_uses_with(whole)
    pad.erase()


def _maker(pad: ir.Operation) -> ir.Operation | None:
    """The nest that makes what is padded, if it can write it into the middle of the result."""
    maker = made_by(pad.operands[0], "linalg.generic")
    around = value_around(pad)
    if maker is None or around is None or maker.block != pad.block or len(maker.results) != 1 or len(pad.operands) != 1:
        return None
    if made_by(around, "arith.constant") is None or made_by(maker.operands[len(maker.operands) - 1], "tensor.empty") is None:
        return None
    beginning = _beginning(maker)
    if not all(_is_known_at(beginning, size) for size in _made_sizes(maker)):
        return None
    # What reads it besides has to take it as it lies there.
    others = [use.owner.operation for use in pad.operands[0].uses if use.owner.operation != pad]
    return maker if all(other.name == "linalg.generic" for other in others) else None


def _made_sizes(maker: ir.Operation) -> list[ir.Value]:
    """The sizes that a nest's result has along its open dims."""
    return list(maker.operands[len(maker.operands) - 1].owner.operation.operands)


def _is_known_at(place: ir.Operation, value: ir.Value) -> bool:
    made = made_by(value)
    return made is None or made.block != place.block or made.is_before_in_block(place)


def _beginning(maker: ir.Operation) -> ir.Operation:
    """The first of the operations that make what ``maker`` alone reads: nothing may come between sums and their tail."""
    first = maker
    for value in maker.operands:
        made = made_by(value, "linalg.generic")
        if made is not None and made.block == maker.block and len(list(value.uses)) == 1:
            fill = made_by(made.operands[len(made.operands) - 1], "linalg.fill")
            for operation in (made, *([fill] if fill is not None and fill.block == maker.block else [])):
                first = operation if operation.is_before_in_block(first) else first
    return first


def _dynamic(pad: ir.Operation) -> int:
    return list(ir.DenseI64ArrayAttr(pad.attributes["static_low"])).count(ir.ShapedType.get_dynamic_size())


def _widths(pad: ir.Operation, name: str, first: int) -> list[_Size]:
    given = iter(list(pad.operands)[first:])
    dynamic = ir.ShapedType.get_dynamic_size()
    return [
        _Size(None, next(given)) if width == dynamic else _Size(width) for width in ir.DenseI64ArrayAttr(pad.attributes[name])
    ]


def _dim(value: ir.Value, dim: int) -> ir.Value:
    index = arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), dim)).result
    return tensor.DimOp(value, index).result


def _slice(name: str, part: ir.Value | None, whole: ir.Value, offsets: list[_Size], sizes: list[_Size]) -> ir.Value:
    dynamic = ir.ShapedType.get_dynamic_size()
    lists = [[dynamic if size.known is None else size.known for size in group] for group in (offsets, sizes)]
    values = [[size.index() for size in group if size.known is None] for group in (offsets, sizes)]
    operands = [*([] if part is None else [part]), whole]
    element = ir.RankedTensorType(whole.type).element_type
    type_ = ir.RankedTensorType.get(lists[1], element) if part is None else whole.type
    counts = [*[1] * len(operands), *map(len, values), 0]
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(lists[0]),
        "static_sizes": ir.DenseI64ArrayAttr.get(lists[1]),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(sizes)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts),
    }
    return ir.Operation.create(name, [type_], [*operands, *values[0], *values[1]], attributes).results[0]
