"""Linalg on tensors to native code to numpy: ``compile(lowered).run(inputs)``.

The names are imported on first use: the compiler's worker process imports this package without torch, and it is started before
torch is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx2torch_mlir.engine.compiling import compile
    from onnx2torch_mlir.engine.engine import Engine, TensorInfo
    from onnx2torch_mlir.engine.starting import start_compiler

__all__ = ["Engine", "TensorInfo", "compile", "start_compiler"]

_HOMES = {"compile": "compiling", "start_compiler": "starting", "Engine": "engine", "TensorInfo": "engine"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
