"""What is supported: the rows held against the ledger, and what ONNX's backend suite measured."""

from onnx2torch_mlir.coverage.measured import Measured, Tally, load_measured
from onnx2torch_mlir.coverage.page import PAGE, check_page, page
from onnx2torch_mlir.coverage.table import CoverageTable, Support, build

__all__ = [
    "PAGE",
    "CoverageTable",
    "Measured",
    "Support",
    "Tally",
    "build",
    "check_page",
    "load_measured",
    "page",
]
