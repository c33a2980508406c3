"""Any ONNX model as a core PyTorch program and as MLIR, run on the CPU and checked against onnxruntime.

    import onnx2torch_mlir as o2m

    program = o2m.convert("model.onnx", dims={"batch": 1})   # a CoreProgram
    program.exported                                         # torch.export.ExportedProgram
    program.to_mlir("linalg").save("model.mlir")
    engine = o2m.compile(program)
    outputs = engine.run({"x": array})
    report = o2m.verify("model.onnx")
    findings = o2m.check("model.onnx")
    o2m.register("my_package")                               # operators of your own; see docs/plugins.md

Importing this package loads neither torch nor MLIR; they are loaded when something is converted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.diagnostics import Finding, Refusal

if TYPE_CHECKING:
    from onnx2torch_mlir import backend
    from onnx2torch_mlir.api import check, compile, convert, verify
    from onnx2torch_mlir.program import CoreProgram
    from onnx2torch_mlir.specs import Plugin, register, unregister

__all__ = [
    "CoreProgram", "Finding", "Plugin", "Refusal", "backend", "check", "compile", "convert", "register", "unregister", "verify",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("check", "compile", "convert", "verify"), "api"),
    **dict.fromkeys(("Plugin", "register", "unregister"), "specs"),
    "CoreProgram": "program",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "backend":
        return import_module(f"{__name__}.backend")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
