"""A converted model, and everything that can be made of it: MLIR, native code, a run in eager PyTorch."""

from onnx2torch_mlir import collection

# With it comes PyTorch, whose loading is a tenth shorter if nobody looks for garbage meanwhile.
with collection.paused():
    from onnx2torch_mlir.handoff.arguments import Weights
    from onnx2torch_mlir.program.converting import Program, check, convert
    from onnx2torch_mlir.program.core_program import DIALECTS, CoreProgram
    from onnx2torch_mlir.program.eager import EagerProgram
    from onnx2torch_mlir.program.runnable import Runnable, prepare
    from onnx2torch_mlir.program.split import SplitProgram
    from onnx2torch_mlir.program.split_engine import SplitEngine

__all__ = [
    "DIALECTS", "CoreProgram", "EagerProgram", "Program", "Runnable", "SplitEngine", "SplitProgram", "Weights", "check",
    "convert", "prepare",
]  # fmt: skip
