"""One run of one side of the import benchmark in this process; prints its seconds, without those of module imports."""

from __future__ import annotations

import argparse
import builtins
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ONNX_TO_LINALG = (
    "builtin.module(func.func(convert-torch-onnx-to-torch),torch-lower-to-backend-contract,"
    "torch-backend-to-linalg-on-tensors-backend-pipeline)"
)


class ImportClock:
    """Counts the seconds that module imports take while it is active, wherever they happen."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def __enter__(self) -> ImportClock:
        self._import, self._module = builtins.__import__, importlib.import_module
        builtins.__import__ = self._timed(self._import)
        importlib.import_module = self._timed(self._module)
        return self

    def __exit__(self, *exception: object) -> None:
        builtins.__import__, importlib.import_module = self._import, self._module

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - started

        return timed


def ours(model: Path, output: Path, emit: str) -> None:
    """Read, convert and write with this project."""
    import onnx2torch_mlir

    onnx2torch_mlir.convert(model).to_mlir(emit).save(output)


def upstream(model: Path, output: Path, emit: str) -> None:
    """torch-mlir's own importer, which writes text; for linalg its pipeline on the imported module."""
    from torch_mlir.tools.import_onnx.__main__ import main, parse_arguments

    main(parse_arguments([str(model), "-o", str(output)]))
    if emit == "linalg":
        from torch_mlir import ir
        from torch_mlir.dialects import torch as torch_dialect
        from torch_mlir.passmanager import PassManager

        context = ir.Context()
        torch_dialect.register_dialect(context)
        module = ir.Module.parseFile(str(output), context)
        with context:
            PassManager.parse(ONNX_TO_LINALG).run(module.operation)
        with output.open("wb") as file:
            module.operation.write_bytecode(file)


def iree(model: Path, output: Path, emit: str) -> None:
    """IREE's importer (``iree.compiler.tools.import_onnx``), if it is installed."""
    importer = importlib.import_module("iree.compiler.tools.import_onnx.__main__")
    importer.main(importer.parse_arguments([str(model), "-o", str(output)]))


def nothing(model: Path, output: Path, emit: str) -> None:
    """What importing torch and the MLIR bindings costs."""
    import torch
    from torch_mlir import ir

    torch.zeros(1)
    ir.Context()


SIDES = {"ours": ours, "upstream": upstream, "iree": iree, "nothing": nothing}


def main() -> None:
    """Run one side and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--emit", choices=("torch", "linalg"), default="torch")
    options = parser.parse_args()
    started = time.perf_counter()
    with ImportClock() as clock:
        SIDES[options.side](options.model, options.output, options.emit)
    seconds = time.perf_counter() - started - clock.seconds
    print(json.dumps({"seconds": seconds, "imports": clock.seconds}))


if __name__ == "__main__":
    main()
