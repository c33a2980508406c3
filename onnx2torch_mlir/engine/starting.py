"""The compiler's process, which begins while this one loads what a conversion needs: with this module come neither PyTorch nor
MLIR."""

from __future__ import annotations

from onnx2torch_mlir import isolation
from onnx2torch_mlir.processors import processors

TASK = "onnx2torch_mlir.engine.compiler.task:build"


def start_compiler() -> None:
    """Let the compiler's process load what it needs beside what is done before `compile`, where there is a processor for it."""
    if processors() > 1:
        isolation.start(TASK)
