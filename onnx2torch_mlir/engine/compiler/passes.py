"""The pass pipelines, and how a pass that fails becomes a finding."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from onnx2torch_mlir.diagnostics import Finding, Refusal
from onnx2torch_mlir.engine.compiler import mlir_c

SIMPLIFY = "canonicalize,cse"

# Function results keep the identity layout: what leaves @main is always dense. Loops may carry a buffer of another size
# from turn to turn (``allow-return-allocs-from-loops``); who frees it is decided in memory.py.
BUFFERIZE = (
    "one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map"
    " unknown-type-conversion=identity-layout-map allow-return-allocs-from-loops=1 buffer-alignment=0}"
)

GENERALIZE = "func.func(linalg-generalize-named-ops)"

# bf16 is computed in f32 (as torch and onnxruntime do on the CPU) and converted by integer operations, f16 functions in
# f32: no conversion routine of a compiler's run-time library is ever called.
LEGALIZE = (
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},"
    "func.func(math-extend-to-supported-types{target-type=f32}),"
    "arith-expand{include-bf16=1},"
    "convert-complex-to-standard,"
    "func.func(math-expand-ops{ops=clampf}),"
    "convert-math-to-funcs{min-width-of-fpowi-exponent=1 convert-ctlz=0},"
    "canonicalize,cse"
)

LOOPS = "func.func(convert-linalg-to-parallel-loops),canonicalize,cse"

LLVM = (
    "lower-affine,convert-scf-to-cf,expand-strided-metadata,lower-affine,"
    "convert-vector-to-llvm,func.func(convert-math-to-llvm),convert-math-to-libm,convert-complex-to-llvm,"
    "convert-arith-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,"
    "convert-arith-to-llvm,convert-ub-to-llvm,reconcile-unrealized-casts,canonicalize,cse"
)

_NAME = re.compile(r'"((?:[^"\\]|\\.)+)"(?!:\d)')


class Diagnostics:
    """What MLIR said since the last `clear`: pairs of the location's text and the message."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []

    def clear(self) -> None:
        """Forget what was said."""
        self.errors.clear()

    def __call__(self, diagnostic: ir.Diagnostic) -> bool:
        """Take one diagnostic of the context."""
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            self.errors.append((str(diagnostic.location), diagnostic.message))
        return True


@contextmanager
def findings_of(stage: str, diagnostics: Diagnostics) -> Iterator[None]:
    """Turn an `ir.MLIRError` of the block into a `Refusal` O2M-M001 that names the stage and the ONNX nodes."""
    diagnostics.clear()
    # The owner reads from this which stage a crash was in.
    print(f"o2m-stage {stage}", file=sys.stderr, flush=True)
    try:
        yield
    except (ir.MLIRError, ValueError, RuntimeError) as error:
        told = list(diagnostics.errors)
        if isinstance(error, ir.MLIRError):
            told += [(str(entry.location), entry.message) for entry in error.error_diagnostics]
        told = list(dict.fromkeys(told)) or [("", str(error))]
        raise Refusal(
            Finding("O2M-M001", f"{stage}: {_one_line(message)}", case=_node_name(location)) for location, message in told
        ) from None


def run(module: ir.Module, stage: str, pipeline: str, diagnostics: Diagnostics, *, verify: bool = True) -> None:
    """Run the passes of ``pipeline`` over the module; raises `Refusal` O2M-M001 if one fails.

    The module is verified once after all of them: after each, it takes 40 % of the time of a small program. Without ``verify``
    the caller does so later, before anything is done that takes a valid module for granted.
    """
    with findings_of(stage, diagnostics):
        manager = PassManager.parse(f"builtin.module({pipeline})")
        manager.enable_verifier(False)
        if not mlir_c.run(manager, module.operation):
            raise ValueError("a pass failed")
        if verify and not module.operation.verify():
            raise ValueError("the module is not valid")


def _node_name(location: str) -> str:
    # A NameLoc prints as loc("Conv_3"(…)), a place in a file as loc("file":1:2).
    match = _NAME.search(location)
    return "" if match is None else f"node {match.group(1)}"


def _one_line(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 600 else line[:600] + " …"
