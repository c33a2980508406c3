"""What every operator is: the ledger of what ONNX declares (opsets), and the rows that say what we do (op_specs)."""

from onnx2torch_mlir.specs.changes import Change, changes
from onnx2torch_mlir.specs.installed import default_ledger, default_table, plugin_findings, register, unregister
from onnx2torch_mlir.specs.ledger import Ledger
from onnx2torch_mlir.specs.linter import Outcome, Resolution, lint, replay, resolve
from onnx2torch_mlir.specs.operator import (
    DEFAULT_DOMAIN,
    AttributeSpec,
    Formal,
    Operator,
    OperatorVersion,
    canonical_domain,
)
from onnx2torch_mlir.specs.plugins import Plugin
from onnx2torch_mlir.specs.roots import BUILTIN, Root
from onnx2torch_mlir.specs.row import Action, Row
from onnx2torch_mlir.specs.table import SpecTable

__all__ = [
    "BUILTIN",
    "DEFAULT_DOMAIN",
    "Action",
    "AttributeSpec",
    "Change",
    "Formal",
    "Ledger",
    "Operator",
    "OperatorVersion",
    "Outcome",
    "Plugin",
    "Resolution",
    "Root",
    "Row",
    "SpecTable",
    "canonical_domain",
    "changes",
    "default_ledger",
    "default_table",
    "lint",
    "plugin_findings",
    "register",
    "replay",
    "resolve",
    "unregister",
]
