"""Truth values are bytes in memory, in the finished LLVM module too.

LLVM takes vectors of i1 for bits side by side, so that it reads and writes arrays of them element by element.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler.walks import nested

_NO_FLAGS = 0


def as_bytes(module: ir.Module) -> None:
    """Let every load and store of an i1 be that of a byte, which is 0 or 1."""
    bit, byte = (ir.IntegerType.get_signless(width) for width in (1, 8))
    for operation in nested(module.operation):
        if operation.name == "llvm.load" and operation.results[0].type == bit:
            with ir.InsertionPoint(operation), operation.location:
                loaded = llvm.LoadOp(byte, operation.operands[0]).result
                operation.results[0].replace_all_uses_with(llvm.TruncOp(bit, loaded, _NO_FLAGS).result)
            operation.erase()
        elif operation.name == "llvm.store" and operation.operands[0].type == bit:
            with ir.InsertionPoint(operation), operation.location:
                operation.operands[0] = llvm.ZExtOp(byte, operation.operands[0]).result
