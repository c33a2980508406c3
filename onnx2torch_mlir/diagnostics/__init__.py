"""Findings: what is wrong with a model, where, why and what to do; as text and as JSON."""

from onnx2torch_mlir.diagnostics.codes import CODES, EXIT_CODES, Code, Stage
from onnx2torch_mlir.diagnostics.finding import Finding, NodeRef, Refusal, Severity, exit_code, refuse
from onnx2torch_mlir.diagnostics.report import Outcome, Report, StageRecord

__all__ = [
    "CODES",
    "EXIT_CODES",
    "Code",
    "Finding",
    "NodeRef",
    "Outcome",
    "Refusal",
    "Report",
    "Severity",
    "Stage",
    "StageRecord",
    "exit_code",
    "refuse",
]
