"""The operations of linalg that passes make, on tensors.

The bindings' own module of the dialect also makes functions of its named operations, which takes 60 ms of the compiler's start;
they load it when they meet an operation of the dialect, unless they find another one first (`dialect_search_modules`).
"""

from collections.abc import Iterable

from torch_mlir import ir
from torch_mlir._mlir_libs import _mlir
from torch_mlir._mlir_libs._mlirDialectsLinalg import fill_builtin_region
from torch_mlir.dialects._linalg_ops_gen import FillOp, GenericOp, TransposeOp, YieldOp

from onnx2torch_mlir.engine.compiler import dialects

__all__ = ["GenericOp", "YieldOp", "fill", "iterator_types", "map_attributes", "transpose"]

_mlir.globals.dialect_search_modules = [dialects.__name__, *_mlir.globals.dialect_search_modules]


def iterator_types(reductions: Iterable[bool]) -> ir.ArrayAttr:
    """The attribute of a nest that says for each of its loops whether it is a reduction; the others are parallel."""
    kinds = ("reduction" if reduces else "parallel" for reduces in reductions)
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])


def map_attributes(maps: Iterable[ir.AffineMap]) -> ir.ArrayAttr:
    """The attribute of a nest that says by which map each of its operands is read or written."""
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps])


def fill(number: ir.Value, out: ir.Value) -> ir.Value:
    """A tensor like ``out`` that holds the ``number`` everywhere."""
    made = FillOp([out.type], [number], [out])
    fill_builtin_region(made.operation)
    filled: ir.Value = made.results[0]
    return filled


def transpose(value: ir.Value, out: ir.Value, permutation: list[int]) -> ir.Value:
    """The ``value``, its axes in the order of ``permutation``, in a tensor like ``out``."""
    made = TransposeOp([out.type], value, out, permutation)
    fill_builtin_region(made.operation)
    moved: ir.Value = made.results[0]
    return moved
