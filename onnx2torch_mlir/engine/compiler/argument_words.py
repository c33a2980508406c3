"""Values handed on as words in memory, to functions that are called through a pointer."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import builtin, func, llvm

from onnx2torch_mlir.engine.compiler.flatten import value_of
from onnx2torch_mlir.engine.compiler.walks import bytes_on, index_of, pointer, word, word_of

_WORD_BYTES = 8


def stored(values: Sequence[ir.Value]) -> ir.Value:
    """A pointer to words on the stack that hold the values: pointers and scalars of at most 8 bytes."""
    byte = ir.TypeAttr.get(ir.IntegerType.get_signless(8))
    size = value_of(_WORD_BYTES * max(len(values), 1))
    words: ir.Value = llvm.AllocaOp(pointer(), size, byte, alignment=_WORD_BYTES).result
    for number, value in enumerate(values):
        if isinstance(value.type, ir.IndexType):
            value = word_of(value)
        llvm.StoreOp(value, bytes_on(words, _WORD_BYTES * number))
    return words


def loaded(words: ir.Value, types: Sequence[ir.Type]) -> list[ir.Value]:
    """The values of these types that `stored` wrote."""
    values = []
    for number, type_ in enumerate(types):
        is_index = isinstance(type_, ir.IndexType)
        value = llvm.LoadOp(word() if is_index else type_, bytes_on(words, _WORD_BYTES * number)).result
        values.append(index_of(value) if is_index else value)
    return values


def pointer_to(function: str, types: Sequence[ir.Type]) -> ir.Value:
    """The address of a function that takes values of these types and gives none."""
    address = func.ConstantOp(ir.FunctionType.get(list(types), []), ir.FlatSymbolRefAttr.get(function)).result
    cast: ir.Value = builtin.UnrealizedConversionCastOp([pointer()], [address]).results[0]
    return cast
