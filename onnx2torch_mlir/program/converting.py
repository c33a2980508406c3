"""A loaded model to a program: one core program, or one in parts where some nodes run on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onnx2torch_mlir.conversion import check as check_whole
from onnx2torch_mlir.conversion import convert as convert_whole
from onnx2torch_mlir.diagnostics import Finding, Refusal, Report, Severity
from onnx2torch_mlir.hosting import split
from onnx2torch_mlir.program.core_program import CoreProgram
from onnx2torch_mlir.program.split import SplitProgram, assemble
from onnx2torch_mlir.specs import plugin_findings

if TYPE_CHECKING:
    import torch

    from onnx2torch_mlir.model import LoadedModel
    from onnx2torch_mlir.specs import Ledger, SpecTable

Program = CoreProgram | SplitProgram


def convert(
    loaded: LoadedModel,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    table: SpecTable | None = None,
    ledger: Ledger | None = None,
    report: Report | None = None,
) -> Program:
    """The program of a loaded model; its weights are not read.

    ``dims`` pins named dims to numbers; ``constants`` gives inputs their contents; ``report`` takes the stage and the
    findings. A model with strings, maps or image files becomes a `SplitProgram`.

    Raises:
        Refusal: with every finding, if one of them is an error.
    """
    report = Report() if report is None else report
    report.extend(plugin_findings() if table is None else ())
    plan = split(loaded, table, ledger)
    if plan is None:
        with report.stage("convert"):
            converted = convert_whole(loaded, dims=dims, constants=constants, table=table, ledger=ledger)
        report.extend(converted.findings)
        return CoreProgram.of(converted, report)
    with report.stage("convert"):
        program, findings = assemble(plan, dims=dims, constants=constants, table=table, ledger=ledger, report=report)
        if any(finding.severity is Severity.ERROR for finding in findings):
            raise Refusal(findings)
    report.extend(findings)
    return program


def check(
    loaded: LoadedModel,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    table: SpecTable | None = None,
    ledger: Ledger | None = None,
) -> list[Finding]:
    """Every reason why ``loaded`` would not convert, every warning, and a note for every node that runs on the host."""
    left_out = plugin_findings() if table is None else ()
    try:
        plan = split(loaded, table, ledger)
        if plan is None:
            return [*left_out, *check_whole(loaded, dims=dims, constants=constants, table=table, ledger=ledger)]
        found = assemble(plan, dims=dims, constants=constants, table=table, ledger=ledger, report=Report())[1]
        return [*left_out, *found]
    except Refusal as refusal:
        return [*left_out, *refusal.findings]
