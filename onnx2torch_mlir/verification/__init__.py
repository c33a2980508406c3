"""Holding a model's numbers against onnxruntime's: inputs, runs, comparison, the first node that differs."""

from onnx2torch_mlir.verification.bisection import bisect
from onnx2torch_mlir.verification.comparison import (
    Comparison,
    Limits,
    Statistics,
    compare,
    compare_values,
    statistics,
    ulp_distance,
)
from onnx2torch_mlir.verification.divergence import Divergence, Turn
from onnx2torch_mlir.verification.files import load_inputs, load_outputs, read_for
from onnx2torch_mlir.verification.inputs import generate_inputs
from onnx2torch_mlir.verification.leaves import leaves
from onnx2torch_mlir.verification.reference import ReferenceRun, run_reference
from onnx2torch_mlir.verification.report import VerifyReport
from onnx2torch_mlir.verification.tolerances import TOLERANCES, Tolerance, tolerance_of
from onnx2torch_mlir.verification.verify import verify

__all__ = [
    "TOLERANCES",
    "Comparison",
    "Divergence",
    "Limits",
    "ReferenceRun",
    "Statistics",
    "Tolerance",
    "Turn",
    "VerifyReport",
    "bisect",
    "compare",
    "compare_values",
    "generate_inputs",
    "leaves",
    "load_inputs",
    "load_outputs",
    "read_for",
    "run_reference",
    "statistics",
    "tolerance_of",
    "ulp_distance",
    "verify",
]
