"""`verify`: a model run by us and by the reference on the same inputs, output by output."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx2torch_mlir.conversion import as_tensors
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, Report, Severity, refuse
from onnx2torch_mlir.hosting import settled
from onnx2torch_mlir.model import LoadedModel
from onnx2torch_mlir.model.sources import Source
from onnx2torch_mlir.program import prepare
from onnx2torch_mlir.specs import SpecTable
from onnx2torch_mlir.verification import reproducer as reproducers
from onnx2torch_mlir.verification.bisection import bisect
from onnx2torch_mlir.verification.comparison import Comparison, Limits, compare_values, not_computed, statistics
from onnx2torch_mlir.verification.divergence import Divergence
from onnx2torch_mlir.verification.files import load_inputs, load_outputs, read_for
from onnx2torch_mlir.verification.inputs import generate_inputs
from onnx2torch_mlir.verification.leaves import leaves
from onnx2torch_mlir.verification.reference import run_reference
from onnx2torch_mlir.verification.report import VerifyReport
from onnx2torch_mlir.verification.spread import as_close

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Any] | Sequence[Any] | str | os.PathLike[str] | None


def verify(
    model: Source,
    inputs: Inputs = None,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    eager: bool = False,
    static: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: int | None = None,
    bisect: bool = False,
    seed: int = 0,
    threads: int | None = None,
    reproducer: str | os.PathLike[str] | None = None,
    table: SpecTable | None = None,
    report: Report | None = None,
) -> VerifyReport:
    """Compare ``model`` with onnxruntime.

    Where onnxruntime has no kernel, ONNX's reference evaluator takes its place; the report says so.

    ``inputs`` are arrays by name or in order, or a path (`load_inputs`); by default they are generated
    (`generate_inputs`) with the sizes ``dims``. If they come from a folder that holds expected outputs, these are
    compared too. Numbers that differ by no more than onnxruntime's from each other (`spread`) agree, and a warning says so;
    but not where limits are given. The program is compiled with its dims dynamic; with ``static``, for the sizes ``dims``.
    ``eager`` runs the core program in eager PyTorch instead of native code. ``rtol`` and ``atol`` replace the tolerance of the
    dtype (`tolerances.TOLERANCES`), ``ulp`` all of it (`comparison.Limits`). With ``bisect``, the first node that differs is
    searched, in eager PyTorch and, where the core program is not at fault, natively; ``reproducer`` is a folder to write
    it to. ``report`` takes the stages, also those before a refusal.

    Raises:
        Refusal: where the model cannot be read, converted, compiled or run, or where there is no reference. Numbers
            that differ raise nothing: they are in the report; so is, with ``bisect``, a run that fails.
    """
    report = Report() if report is None else report
    with report.stage("read"):
        loaded = read_for(model, inputs)
    given, limits = constants or {}, Limits(rtol, atol, ulp)
    with report.stage("inputs"):
        feeds, expected = _inputs(loaded, inputs, dims or {}, given, seed)
    with report.stage("reference"):
        theirs = run_reference(*_reference_source(model, loaded), {**feeds, **given}, base_dir=loaded.base_dir)
    tensors = as_tensors(given)
    pinned = dims if static else None
    program = prepare(loaded, eager=eager, dims=pinned, constants=tensors, threads=threads, table=table, report=report)
    failure: Refusal | None = None
    try:
        with report.stage("run"):
            ours = program.run({name: array for name, array in feeds.items() if name not in given})
    except Refusal as refusal:
        if not bisect:
            raise
        failure = refusal
    names = [value.name for value in loaded.outputs]
    with report.stage("compare"):
        if failure is not None:
            pairs = zip(names, theirs.outputs, strict=True)
            outputs = tuple(not_computed(name, value, failure.findings[0].reason) for name, value in pairs)
        else:
            outputs = _compared(names, ours, theirs.outputs, limits)
        stored = _compared(names, ours, expected, limits) if expected and failure is None else ()
    if limits == Limits() and not theirs.note:
        with report.stage("spread"):
            outputs = as_close(*_reference_source(model, loaded), loaded, {**feeds, **given}, theirs.outputs, outputs)
        report.extend(_unsettled(outputs))
    found: Divergence | None = None
    if bisect and not all(item.agrees for item in outputs):
        with report.stage("bisect"):
            found, why = _bisect(loaded, feeds, given, eager, limits, table)
        report.extend(why)
    node = found.node if found is not None else None
    if failure is not None and node is not None:
        located = [item.at(node) for item in failure.findings]
        report.findings = [item for item in report.findings if item not in failure.findings] + located
    report.extend(_findings((*outputs, *stored), node) if failure is None else [])
    if reproducer is not None and found is not None and found.model is not None:
        told = {"--rtol": rtol, "--atol": atol, "--ulp": ulp}
        flags = ["--eager"] * eager + [f"{flag} {value}" for flag, value in told.items() if value is not None]
        command = " ".join(["verify", *flags])
        reproducers.write(Path(reproducer), found.model, found.inputs or {}, command=command, findings=report.errors)
    described = {key: statistics(array) for name, value in feeds.items() for key, array in leaves(name, value).items()}
    engine = "eager" if eager else "native"
    return VerifyReport(engine, theirs.name, theirs.note, described, outputs, stored, found, report)


def _compared(names: Sequence[str], ours: Sequence[Any], theirs: Sequence[Any], limits: Limits) -> tuple[Comparison, ...]:
    pairs = zip(names, ours, theirs, strict=True)
    return tuple(found for name, a, b in pairs for found in compare_values(name, a, b, *limits))


def _bisect(
    loaded: LoadedModel,
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    eager: bool,
    limits: Limits,
    table: SpecTable | None,
) -> tuple[Divergence | None, list[Finding]]:
    """In eager PyTorch first, where one run has all values; natively only if the core program is not at fault.

    Where nothing is found, a finding says why.
    """
    reasons = []
    for in_eager in (True, False)[: 1 if eager else 2]:
        word = "in eager PyTorch" if in_eager else "natively"
        try:
            # PyTorch lacks kernels that native code needs not: its failures are not those of the program.
            options = {"eager": in_eager, "failing": eager or not in_eager, **limits._asdict()}
            found = bisect(loaded, feeds, constants=constants, table=table, **options)
        except Refusal as refusal:
            reasons.append(f"{word}: {refusal.findings[0].reason}")
            continue
        if found is not None:
            return found, []
        reasons.append(f"{word} every value agrees when it is made an output of the model")
    return None, [Finding("O2M-V004", "; ".join(reasons), severity=Severity.WARNING)]


def _inputs(
    loaded: LoadedModel, inputs: Inputs, dims: Mapping[str, int], constants: Mapping[str, Array], seed: int
) -> tuple[dict[str, Array], list[Array]]:
    if isinstance(inputs, str | os.PathLike):
        return load_inputs(loaded, inputs), load_outputs(loaded, inputs)
    names = [value.name for value in loaded.inputs]
    if inputs is None:
        return {**generate_inputs(loaded, dims, seed=seed), **constants}, []
    if isinstance(inputs, Mapping):
        given = dict(inputs)
    elif len(inputs) == len(names):
        given = dict(zip(names, inputs, strict=True))
    else:
        raise refuse("O2M-U003", f"{len(inputs)} arrays are given for {len(names)} inputs")
    missing = [name for name in names if name not in given and name not in constants]
    unknown = [name for name in given if name not in names]
    if missing or unknown:
        what = f"missing: {', '.join(missing)}" if missing else f"unknown: {', '.join(unknown)}"
        hint = f"the model's inputs are {', '.join(names)}"
        raise refuse("O2M-U003", f"the arrays are not the model's inputs ({what})", hint=hint)
    return {name: _value(given[name]) for name in names if name in given}, []


def _value(value: Any) -> Any:
    return value if isinstance(value, list | dict) or value is None else settled(np.asarray(value))


def _reference_source(model: Source, loaded: LoadedModel) -> tuple[Any]:
    if loaded.path is not None:
        return (loaded.path,)
    if isinstance(model, ir.Model):
        return (ir.serde.serialize_model(model),)
    if isinstance(model, onnx.ModelProto):
        return (model,)
    return (onnx.ModelProto.FromString(bytes(model)),)  # type: ignore[arg-type]


def _unsettled(comparisons: Sequence[Comparison]) -> list[Finding]:
    hint = "explicit limits (--rtol, --atol, --ulp) compare strictly; with --bisect they name the first node that differs"
    return [
        Finding("O2M-V005", item.reason(), hint=hint, case=item.name, severity=Severity.WARNING)
        for item in comparisons
        if item.spread is not None
    ]


def _findings(comparisons: Sequence[Comparison], node: NodeRef | None) -> list[Finding]:
    return [
        Finding(
            "O2M-V001" if item.problem == "numbers" else "O2M-V003",
            item.reason(),
            hint="" if node is not None else "verify --bisect names the first node that differs",
            case=item.name,
            node=node,
        )
        for item in comparisons
        if not item.agrees
    ]
