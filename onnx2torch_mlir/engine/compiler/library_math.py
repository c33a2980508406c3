"""Functions for which LLVM has no intrinsic, by the C library.

MLIR's conversion to LLVM would make exp(x) - 1 and log(1 + x) of them, which have few right digits near 0, and lose the sign
of -0 (the pass ``convert-math-to-llvm``).
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler.walks import append, functions, nested

_ROUTINES = {"math.expm1": "expm1", "math.log1p": "log1p"}


def call(module: ir.Module) -> None:
    """Replace these functions of f32 and f64 numbers by calls, where nothing has expanded them before."""
    suffixes = {ir.F32Type.get(): "f", ir.F64Type.get(): ""}
    declarations = set()
    for function in functions(module):
        for operation in nested(function):
            type_ = operation.results[0].type if operation.name in _ROUTINES else None
            if type_ not in suffixes:
                continue
            name = _ROUTINES[operation.name] + suffixes[type_]
            declarations.add(f"func.func private @{name}({type_}) -> {type_}")
            with ir.InsertionPoint(operation), operation.location:
                result = func.CallOp([type_], ir.FlatSymbolRefAttr.get(name), list(operation.operands)).results[0]
            operation.results[0].replace_all_uses_with(result)
            operation.erase()
    append(module, "\n".join(sorted(declarations)))
