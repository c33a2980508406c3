"""How weights travel with a module."""

from __future__ import annotations

from typing import Literal, get_args

from onnx2torch_mlir.diagnostics import refuse

Weights = Literal["inline", "args", "external", "irpa"]
"""Where weights go: into the module; into arguments that the caller fills; into arguments, with their data in a safetensors
file; into IREE parameters, with their data in an IREE parameter archive."""

WEIGHT_ATTRIBUTE = "onnx2mlir.weight"
INPUT_ATTRIBUTE = "onnx2mlir.input"

FILE_SUFFIXES = {"external": ".safetensors", "irpa": ".irpa"}
"""The files that hold weights outside of the module."""


def check_weights(weights: str) -> None:
    """Refuse (O2M-U001) what is not one of `Weights`."""
    if weights not in get_args(Weights):
        raise refuse("O2M-U001", f"weights must be one of {', '.join(get_args(Weights))}, not {weights!r}", case="weights")
