"""A converted model, and everything that can be made of it: MLIR, native code, a run in eager PyTorch."""

from onnx2torch_mlir.program.core_program import DIALECTS, CoreProgram, Weights, convert
from onnx2torch_mlir.program.eager import EagerProgram
from onnx2torch_mlir.program.runnable import Runnable, prepare

__all__ = ["DIALECTS", "CoreProgram", "EagerProgram", "Runnable", "Weights", "convert", "prepare"]
