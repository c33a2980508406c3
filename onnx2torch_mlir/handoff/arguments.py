"""How weights travel with a module, and the names that its arguments carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse

Weights = Literal["inline", "args", "external"]
"""Where weights go: into the module; into arguments that the caller fills; into arguments, their data into a file."""

WEIGHT_ATTRIBUTE = "onnx2mlir.weight"
INPUT_ATTRIBUTE = "onnx2mlir.input"


def check_weights(weights: str) -> None:
    """Refuse (O2M-U001) what is not one of `Weights`."""
    if weights not in get_args(Weights):
        raise refuse(
            "O2M-U001", f"weights must be one of {', '.join(get_args(Weights))}, not {weights!r}", case="weights"
        )


def name_arguments(function: Any, names: Sequence[tuple[str, str]]) -> None:
    """Give each argument of ``function`` one attribute: (attribute, name)."""
    with function.context:
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({attribute: ir.StringAttr.get(name)}) for attribute, name in names]
        )
