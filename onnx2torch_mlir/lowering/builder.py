"""Emission: operations, attributes and types, cached so that one linalg.generic costs some ten microseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.dtypes import Kind, element_type, kind, part_of, width

MapEntry: TypeAlias = "int | ir.AffineExpr | None"
"""One result of an indexing map: the number of an iterator, None for the constant 0, or an affine expression."""

MapResults = tuple[MapEntry, ...]

Body = Callable[..., ir.Value | Sequence[ir.Value]]


class Builder:
    """Emits into the current insertion point of a context that the driver has entered.

    Constants and sizes are cached per block: a scope is pushed whenever a region is entered, so that a cached value
    always dominates its use.
    """

    def __init__(self) -> None:
        self.dynamic = ir.ShapedType.get_dynamic_size()
        self.index = ir.IndexType.get()
        self.i1 = ir.IntegerType.get_signless(1)
        self.i64 = ir.IntegerType.get_signless(64)
        self.f64 = ir.F64Type.get()
        self.scopes: list[dict[Any, ir.Value]] = [{}]
        self._elements: dict[torch.dtype, ir.Type] = {}
        self._tensors: dict[Any, ir.Type] = {}
        self._maps: dict[Any, ir.AffineMap] = {}
        self._attributes: dict[Any, ir.Attribute] = {}

    # --- types and attributes

    def element(self, dtype: torch.dtype) -> ir.Type:
        """The MLIR type of an element."""
        found = self._elements.get(dtype)
        if found is None:
            found = self._elements[dtype] = element_type(dtype)
        return found

    def tensor_type(self, dtype: torch.dtype, shape: Sequence[Dim]) -> ir.Type:
        """The ranked tensor type: a static size per int, ``?`` per expression."""
        static = tuple([d if isinstance(d, int) else self.dynamic for d in shape])
        key = (dtype, static)
        found = self._tensors.get(key)
        if found is None:
            found = self._tensors[key] = ir.RankedTensorType.get(static, self.element(dtype))
        return found

    def attribute(self, text: str) -> ir.Attribute:
        """An attribute parsed from MLIR text, once."""
        found = self._attributes.get(text)
        if found is None:
            found = self._attributes[text] = ir.Attribute.parse(text)
        return found

    def affine_map(self, dims: int, results: MapResults) -> ir.AffineMap:
        """The map from ``dims`` iterators to ``results``."""
        key = (dims, results)
        found = self._maps.get(key)
        if found is None:
            zero = ir.AffineConstantExpr.get(0)
            exprs = [zero if r is None else ir.AffineDimExpr.get(r) if isinstance(r, int) else r for r in results]
            found = self._maps[key] = ir.AffineMap.get(dims, 0, exprs)
        return found

    def _maps_attribute(self, dims: int, maps: tuple[MapResults, ...]) -> ir.Attribute:
        key = ("maps", dims, maps)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = ir.ArrayAttr.get([ir.AffineMapAttr.get(self.affine_map(dims, m)) for m in maps])
        return found

    def _iterators(self, letters: str) -> ir.Attribute:
        names = {"p": "parallel", "r": "reduction"}
        return self.attribute("[" + ",".join(f"#linalg.iterator_type<{names[c]}>" for c in letters) + "]")

    def i64_array(self, values: Sequence[int]) -> ir.Attribute:
        """An ``array<i64: …>`` attribute."""
        key = ("i64s", tuple(values))
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = ir.DenseI64ArrayAttr.get(list(values))
        return found

    def segments(self, *sizes: int) -> ir.Attribute:
        """The operandSegmentSizes attribute."""
        key = ("segments", sizes)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = ir.DenseI32ArrayAttr.get(list(sizes))
        return found

    # --- operations

    def op(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """Create any operation."""
        return ir.Operation.create(name, results=results, operands=operands, attributes=attributes, regions=regions)

    def make(self, name: str, result: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
        """Create an operation with one result of the given type."""
        return ir.Operation.create(name, results=[result], operands=operands, attributes=attributes).results[0]

    def same(self, name: str, *operands: ir.Value) -> ir.Value:
        """Create an operation whose one result has the type of its first operand."""
        return ir.Operation.create(name, results=[operands[0].type], operands=operands).results[0]

    @contextmanager
    def inside(self, block: ir.Block) -> Iterator[None]:
        """Emit at the end of ``block``, with constants and sizes cached for it."""
        self.scopes.append({})
        try:
            with ir.InsertionPoint(block):
                yield
        finally:
            self.scopes.pop()

    def remembered(self, key: Any) -> ir.Value | None:
        """A value cached in this block or one around it."""
        for scope in reversed(self.scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

    # --- constants and scalars

    def int_constant(self, value: int, type: ir.Type) -> ir.Value:
        """An integer or index constant, cached; ``value`` is wrapped to the type's width."""
        key = (value, type)
        found = self.remembered(key)
        if found is None:
            if type == self.i1:
                attribute = ir.BoolAttr.get(bool(value & 1))
            elif type == self.index:
                attribute = ir.IntegerAttr.get(type, value)
            else:
                bits = ir.IntegerType(type).width
                wrapped = value & ((1 << bits) - 1)
                attribute = ir.IntegerAttr.get(type, wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
            found = self.scopes[-1][key] = self.make("arith.constant", type, value=attribute)
        return found

    def float_constant(self, value: float, type: ir.Type) -> ir.Value:
        """A floating-point constant, rounded to the type, cached."""
        key = (float(value).hex(), type)
        found = self.remembered(key)
        if found is None:
            found = self.make("arith.constant", type, value=ir.FloatAttr.get(type, float(value)))
            self.scopes[-1][key] = found
        return found

    def complex_constant(self, value: complex, dtype: torch.dtype) -> ir.Value:
        """A ``complex.constant`` of a complex dtype, its parts rounded, cached."""
        key = (value.real.hex(), value.imag.hex(), dtype)
        found = self.remembered(key)
        if found is None:
            part = self.element(part_of(dtype))
            parts = ir.ArrayAttr.get([ir.FloatAttr.get(part, value.real), ir.FloatAttr.get(part, value.imag)])
            found = self.scopes[-1][key] = self.make("complex.constant", self.element(dtype), value=parts)
        return found

    def constant(self, value: bool | int | float | complex, dtype: torch.dtype) -> ir.Value:
        """A constant of a torch dtype; ints wrap, floats round."""
        if kind(dtype) is Kind.COMPLEX:
            return self.complex_constant(complex(value), dtype)
        if isinstance(value, complex):
            raise refuse("O2M-L002", f"the number {value} does not fit {dtype}", case=str(dtype))
        if kind(dtype) is Kind.FLOAT:
            return self.float_constant(float(value), self.element(dtype))
        whole = int(bool(value)) if dtype is torch.bool else int(value)
        return self.int_constant(whole, self.element(dtype))

    def idx(self, value: int) -> ir.Value:
        """An index constant."""
        return self.int_constant(value, self.index)

    def compare(self, predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
        """``arith.cmpi`` or ``arith.cmpf`` by predicate name: eq ne slt … or oeq une olt …."""
        name, number = _PREDICATES[predicate]
        return self.make(name, self.i1, x, y, predicate=self.attribute(f"{number} : i64"))

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        """``arith.select``."""
        return self.make("arith.select", x.type, condition, x, y)

    def logical_not(self, x: ir.Value) -> ir.Value:
        """The complement of an i1."""
        return self.same("arith.xori", x, self.int_constant(1, self.i1))

    def to_index(self, x: ir.Value, dtype: torch.dtype) -> ir.Value:
        """An integer of a torch dtype as an index."""
        name = "arith.index_cast" if kind(dtype) is Kind.SIGNED else "arith.index_castui"
        return self.make(name, self.index, x)

    def from_index(self, x: ir.Value, dtype: torch.dtype) -> ir.Value:
        """An index as an integer of a torch dtype, truncated to its width."""
        return self.make("arith.index_cast", self.element(dtype), x)

    def bits(self, dtype: torch.dtype) -> ir.Type:
        """The signless integer as wide as ``dtype``."""
        return ir.IntegerType.get_signless(width(dtype))

    # --- structured operations

    def generic(
        self,
        inputs: Sequence[tuple[ir.Value, MapResults]],
        outputs: Sequence[tuple[ir.Value, MapResults]],
        iterators: str,
        body: Body,
    ) -> list[ir.Value]:
        """A linalg.generic; ``iterators`` has one letter per loop, p or r.

        ``body`` is called inside the region with one element per input, then per output, and returns the yielded
        value or values.
        """
        values = [v for v, _ in inputs] + [v for v, _ in outputs]
        maps = tuple([m for _, m in inputs] + [m for _, m in outputs])
        results = [v.type for v, _ in outputs]
        operation = ir.Operation.create(
            "linalg.generic",
            results=results,
            operands=values,
            attributes={
                "indexing_maps": self._maps_attribute(len(iterators), maps),
                "iterator_types": self._iterators(iterators),
                "operandSegmentSizes": self.segments(len(inputs), len(outputs)),
            },
            regions=1,
        )
        block = operation.regions[0].blocks.append(*[v.type.element_type for v in values])
        outer = self.scopes
        self.scopes = [{}]
        try:
            with ir.InsertionPoint(block):
                yielded = body(*block.arguments)
                self.op("linalg.yield", [], [yielded] if isinstance(yielded, ir.Value) else list(yielded))
        finally:
            self.scopes = outer
        return list(operation.results)

    def iteration(self, dim: int) -> ir.Value:
        """``linalg.index``: the current position of iterator ``dim``, inside a generic's body."""
        return self.make("linalg.index", self.index, dim=self.attribute(f"{dim} : i64"))


_INT_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_PREDICATES = {"oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6, "ord": 7, "une": 13, "uno": 14}
_PREDICATES = {
    **{name: ("arith.cmpi", i) for i, name in enumerate(_INT_PREDICATES)},
    **{name: ("arith.cmpf", i) for name, i in _FLOAT_PREDICATES.items()},
}
