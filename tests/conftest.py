"""What holds for all tests: one thread each, and quick compiles where LLVM's optimizer is not what is tested."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Tests run side by side: more threads than one each only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_OPTIMIZED = {"engine", "models", "suite", "packaging", "cli"}
"""Folders whose programs are compiled as a user's are; the others test what is before LLVM, and compile at level 0."""


@pytest.fixture(autouse=True)
def opt_level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set ``ONNX2MLIR_OPT_LEVEL`` by the folder of the test."""
    folder = Path(request.node.path).relative_to(Path(__file__).parent).parts[0]
    if folder not in _OPTIMIZED:
        monkeypatch.setenv("ONNX2MLIR_OPT_LEVEL", "0")
