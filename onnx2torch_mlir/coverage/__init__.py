"""What is supported: the rows held against the ledger, with what was measured of each and nothing else."""

from onnx2torch_mlir.coverage.html import html_page
from onnx2torch_mlir.coverage.limits import in_general
from onnx2torch_mlir.coverage.measured import ALL, MODES, Limit, Measured, Run, Tally, Version, load_measured
from onnx2torch_mlir.coverage.pages import HTML_PAGE, SUMMARY, check_pages, summary, write_pages
from onnx2torch_mlir.coverage.table import CoverageTable, Level, Status, Support, build

__all__ = [
    "ALL",
    "HTML_PAGE",
    "MODES",
    "SUMMARY",
    "CoverageTable",
    "Level",
    "Limit",
    "Measured",
    "Run",
    "Status",
    "Support",
    "Tally",
    "Version",
    "build",
    "check_pages",
    "html_page",
    "in_general",
    "load_measured",
    "summary",
    "write_pages",
]
