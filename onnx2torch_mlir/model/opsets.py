"""Opset imports: one spelling per domain, one version per domain, none newer than known."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.helper

from onnx2torch_mlir.diagnostics import Finding, Severity
from onnx2torch_mlir.model.types import Report

_LAST_RELEASE: tuple[int, ...] = tuple(int(number) for number in onnx.helper.VERSION_TABLE[-1][1:])
NEWEST_IR_VERSION, _NEWEST_ONNX, _NEWEST_ML, _NEWEST_TRAINING = _LAST_RELEASE[:4]
NEWEST: dict[str, int] = {
    "": _NEWEST_ONNX,
    "ai.onnx.ml": _NEWEST_ML,
    "ai.onnx.preview.training": _NEWEST_TRAINING,
}
"""The newest version of each of ONNX's own domains that is known here."""

IMPLIED: dict[str, int] = {
    "ai.onnx.ml": 1,
    "com.microsoft": 1,
    "com.microsoft.nchwc": 1,
    "com.ms.internal.nhwc": 1,
}
"""Domains that onnxruntime lets models use without importing them, and the version it then takes."""


def domain_of(name: str) -> str:
    """The one spelling of a domain: ONNX's default domain is ``""`` and may be written ``ai.onnx``."""
    return "" if name == "ai.onnx" else name


def read_imports(imports: Iterable[onnx.OperatorSetIdProto], where: str, report: Report) -> dict[str, int]:
    """Domain -> version; imports that contradict each other and versions that are unknown are reported.

    Of imports that contradict each other the last one counts, as in onnxruntime.
    """
    opsets: dict[str, int] = {}
    for entry in imports:
        domain, version = domain_of(entry.domain), int(entry.version)
        shown = domain or "ai.onnx"
        if opsets.get(domain, version) != version:
            reason = f"{where} imports the domain {shown} in version {opsets[domain]} and in version {version}, which is taken."
            report(Finding("O2M-R007", reason, case=shown, severity=Severity.WARNING))
        opsets[domain] = version
        newest = NEWEST.get(domain)
        if newest is not None and not 1 <= version <= newest:
            reason = f"{where} imports version {version} of {shown}; known are 1 to {newest}."
            report(Finding("O2M-R008", reason, hint="Convert the model with onnx.version_converter.", case=shown))
    return opsets


def add_implied(opsets: dict[str, int], used: Iterable[str], report: Report) -> None:
    """Import the domains ``used`` that onnxruntime implies, with a warning each."""
    for domain in sorted({domain_of(name) for name in used} - set(opsets)):
        if domain in IMPLIED:
            opsets[domain] = IMPLIED[domain]
            reason = f"The model uses the domain {domain} without importing it; version {IMPLIED[domain]} is taken."
            report(Finding("O2M-R007", reason, case=domain, severity=Severity.WARNING))
