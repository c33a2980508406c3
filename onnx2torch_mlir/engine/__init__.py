"""Linalg on tensors to native code to numpy: ``compile(lowered).run(inputs)``.

The names are imported on first use: the compiler's worker process imports this package without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx2torch_mlir.engine.compiling import compile, start_compiler
    from onnx2torch_mlir.engine.engine import Engine, TensorInfo

__all__ = ["Engine", "TensorInfo", "compile", "start_compiler"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onnx2torch_mlir.engine.compiling import compile, start_compiler
    from onnx2torch_mlir.engine.engine import Engine, TensorInfo

    globals().update(compile=compile, start_compiler=start_compiler, Engine=Engine, TensorInfo=TensorInfo)
    return globals()[name]
