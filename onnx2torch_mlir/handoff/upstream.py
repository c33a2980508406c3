"""Core program -> torch dialect -> tosa or stablehlo, by torch-mlir's own pipelines, in a process that may die."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torch_mlir import ir

from onnx2torch_mlir import isolation
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, refuse
from onnx2torch_mlir.handoff.arguments import WEIGHT_ATTRIBUTE, Weights
from onnx2torch_mlir.handoff.context import Place, parse
from onnx2torch_mlir.handoff.elements import Absent, fill_elements
from onnx2torch_mlir.handoff.function_arguments import names_of_arguments
from onnx2torch_mlir.handoff.importer import Form
from onnx2torch_mlir.handoff.iree_parameters import make_parameters
from onnx2torch_mlir.handoff.module import MlirModule
from onnx2torch_mlir.handoff.pipeline import PIPELINES, Refused
from onnx2torch_mlir.handoff.torch_dialect import import_core, to_torch

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_MOST_ATTEMPTS = 40
"""Attempts at finding everything that upstream refuses, before the findings so far are reported."""


def to_dialect(
    exported: ExportedProgram,
    dialect: str,
    *,
    weights: Weights = "inline",
    func_name: str = "main",
    input_names: Sequence[str] | None = None,
) -> MlirModule:
    """``exported`` as a module of ``dialect``: ``torch``, ``tosa`` or ``stablehlo``.

    For tosa and stablehlo the torch-dialect module goes through torch-mlir's pipelines in a process of its own. Large weights
    do not go with it, unless a pipeline looks into them: they are put into what it makes. Weights and ``input_names`` as in
    `to_torch`. These dialects have no assertions: the program's become warnings, the ``findings`` of the module.

    Raises:
        Refusal: with everything that upstream refuses, O2M-H001 per operation and ONNX node, and O2M-H002 for what
            makes it abort; O2M-U001 for an unknown dialect; what `to_torch` raises.
    """
    if dialect == "torch":
        return to_torch(exported, weights=weights, func_name=func_name, input_names=input_names)
    if dialect not in PIPELINES:
        raise refuse("O2M-U001", f"there is no hand-off to {dialect!r}; choose torch, tosa or stablehlo", case=dialect)
    form = Form(split_views=False, assertions=False)
    through: Weights = "external" if weights == "irpa" else weights
    bring = partial(import_core, exported, through, func_name, form, input_names=input_names)
    absent: Absent = {}
    module = bring(absent=absent if weights == "inline" else None)
    folder = tempfile.TemporaryDirectory(prefix="onnx2torch_mlir-")
    source = Path(folder.name, "torch.mlirbc")
    target = Path(folder.name, f"{dialect}.mlirbc")
    module.save_module(source)
    search = _Search(source, dialect, target)
    if absent and not search.succeeds():
        # The pipeline looks into the weights; or it refuses something else, which is found in the same way.
        absent = {}
        module = bring()
        module.save_module(source)
    findings = search.run()
    if findings:
        folder.cleanup()
        raise Refusal(findings)
    result = partial(MlirModule, dialect=dialect, weights=module.weights, stored=weights, findings=module.findings)
    if weights != "irpa" and not absent:
        return result(target, keep=folder)
    live = parse(target, dialect)
    folder.cleanup()
    if weights == "irpa":
        function = ir.SymbolTable(live.operation)[func_name].operation
        make_parameters(live, function, names_of_arguments(function, WEIGHT_ATTRIBUTE))
    with live.context:
        fill_elements(live.operation, absent)
    return result(live, referenced=[tensor for _, tensor in absent.values()])


_Outcome = list[Refused] | isolation.WorkerCrashed


class _Search:
    """Tries, and after each failure tries again without what failed, until all that upstream refuses is known."""

    def __init__(self, source: Path, dialect: str, target: Path) -> None:
        self._source = source
        self._dialect = dialect
        self._target = target
        self._stubs: set[str] = set()
        self._attempts = 0
        self._findings: list[Finding] = []
        self._done = False

    def succeeds(self) -> bool:
        """Whether ``target`` can be written at once."""
        outcome = self._attempt(self._stubs)
        self._done = not isinstance(outcome, isolation.WorkerCrashed) and not outcome
        return self._done

    def run(self) -> list[Finding]:
        """The findings; none if ``target`` has been written."""
        while not self._done and self._attempts < _MOST_ATTEMPTS:
            outcome = self._attempt(self._stubs)
            if not isinstance(outcome, isolation.WorkerCrashed) and not outcome:
                break
            fresh = self._placed(outcome) or self._unplaced(outcome)
            if not fresh:
                break
            self._stubs |= fresh
        return self._findings

    def _attempt(self, stubs: set[str]) -> _Outcome:
        self._attempts += 1
        task = "onnx2torch_mlir.handoff.pipeline:attempt"
        try:
            refused = isolation.call(task, self._source, self._dialect, self._target, sorted(stubs))
        except isolation.WorkerCrashed as crash:
            return crash
        return cast("list[Refused]", refused)

    def _placed(self, outcome: _Outcome) -> set[str]:
        """Report what upstream says the place of; returns the nodes concerned."""
        fresh: set[str] = set()
        for refused in [] if isinstance(outcome, isolation.WorkerCrashed) else outcome:
            for place in refused.places:
                if place.core not in self._stubs:
                    self._add("O2M-H001", refused.message, NodeRef(place.onnx, refused.operation, "torch"))
                    fresh.add(place.core)
        return fresh

    def _unplaced(self, outcome: _Outcome) -> set[str]:
        """Find the nodes behind an abort or an error without a place: leave out ever more until it no longer occurs."""

        def persists(left_out: set[str]) -> bool:
            now = self._attempt(left_out)
            if isinstance(now, isolation.WorkerCrashed) or isinstance(outcome, isolation.WorkerCrashed):
                return isinstance(now, isolation.WorkerCrashed) and isinstance(outcome, isolation.WorkerCrashed)
            return any(not refused.places and refused.operation == outcome[0].operation for refused in now)

        if isinstance(outcome, isolation.WorkerCrashed):
            code, message = "O2M-H002", f"ended its process by {outcome.manner}: {outcome.last_line}"
        else:
            code, message = "O2M-H001", outcome[0].message
        kinds = cast("list[list[Place]]", isolation.call("onnx2torch_mlir.handoff.pipeline:computations", self._source))
        kinds = [kind for kind in kinds if not {place.core for place in kind} <= self._stubs]
        low, high = 0, len(kinds)  # it persists without kinds[:low], and not without kinds[:high]
        if kinds and not persists(self._stubs.union(place.core for kind in kinds for place in kind)):
            while high - low > 1:
                middle = (low + high) // 2
                if persists(self._stubs.union(place.core for kind in kinds[:middle] for place in kind)):
                    low = middle
                else:
                    high = middle
            for place in kinds[low]:
                self._add(code, message, NodeRef(place.onnx, place.core, "core"))
            return {place.core for place in kinds[low]}
        if not self._findings:  # else what is left over is only that the module is not complete
            self._add(code, message, None)
        return set()

    def _add(self, code: str, message: str, node: NodeRef | None) -> None:
        reason = f"upstream's conversion to {self._dialect}: {message.strip().splitlines()[0]}"
        finding = Finding(code, reason, case=self._dialect, node=node)
        if finding not in self._findings:
            self._findings.append(finding)
