"""`SplitProgram`: a model some nodes of which run on the host, between parts that are core programs of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import onnx_ir as ir

from onnx2torch_mlir.conversion import Converted, check_names
from onnx2torch_mlir.conversion import convert as convert_part
from onnx2torch_mlir.core.signature import Dim, TensorSpec
from onnx2torch_mlir.diagnostics import Finding, Refusal, Report, refuse
from onnx2torch_mlir.engine.binding import dim_text
from onnx2torch_mlir.families.dtypes import element_type
from onnx2torch_mlir.handoff.arguments import Weights
from onnx2torch_mlir.hosting import HostStep, Plan, settled
from onnx2torch_mlir.hosting.partition import Segment
from onnx2torch_mlir.model import Kind, ValueType, array
from onnx2torch_mlir.program.core_program import DIALECTS, CoreProgram
from onnx2torch_mlir.program.split_engine import SplitEngine, Step, described

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from onnx2torch_mlir.handoff import MlirModule
    from onnx2torch_mlir.lowering import Lowered
    from onnx2torch_mlir.specs import Ledger, SpecTable

Part = CoreProgram | HostStep


class SplitProgram:
    """A model as native parts and steps on the host, in the order in which they run.

    ``parts`` are `CoreProgram`s and `HostStep`s; values pass from one to the next by their ONNX names. ``inputs`` and
    ``outputs`` describe the model's own (`ValueInfo`: strings are object arrays of str, maps dicts, sequences lists).
    ``report`` holds a note for every node on the host, with the reason; ``defaults`` is as in `CoreProgram`.
    """

    def __init__(
        self,
        plan: Plan,
        parts: Sequence[Part],
        constants: Mapping[str, torch.Tensor],
        pinned: Mapping[str, int],
        report: Report,
    ) -> None:
        self.parts = tuple(parts)
        self.report = report
        self.inputs = tuple(described(value, pinned) for value in plan.loaded.inputs if value.name not in constants)
        self.outputs = tuple(described(plan.types.get(value.name, value), pinned) for value in plan.loaded.outputs)
        self._plan = plan
        self._constants = constants
        self.defaults: Mapping[str, Any] = {}

    @property
    def on_host(self) -> tuple[Finding, ...]:
        """The notes on nodes that run on the host."""
        return tuple(finding for finding in self.report.findings if finding.code == "O2M-C011")

    def compile(self, *, threads: int | None = None) -> SplitEngine:
        """The native parts as native code for this machine's CPU, the steps between them on the host.

        Raises:
            Refusal: what a native part has no lowering for; O2M-C012 for a node that nothing on the host can run.
        """
        return self._engine([part if isinstance(part, HostStep) else part.compile(threads=threads) for part in self.parts])

    def eager(self) -> SplitEngine:
        """The native parts in eager PyTorch, without any MLIR, the steps between them on the host.

        Raises:
            Refusal: O2M-C012 for a node that nothing on the host can run.
        """
        return self._engine([part if isinstance(part, HostStep) else part.eager() for part in self.parts])

    @property
    def exported(self) -> ExportedProgram:
        """Refused: there is no single program."""
        self._refuse("a torch.export program")

    @property
    def lowered(self) -> Lowered:
        """Refused: there is no single program."""
        self._refuse("a linalg module")

    def to_mlir(self, dialect: str = "torch", *, weights: Weights = "inline") -> MlirModule:
        """Refused: there is no single program.

        Raises:
            Refusal: O2M-U001 for another dialect, else O2M-H005 with every node that runs on the host.
        """
        if dialect not in DIALECTS:
            raise refuse("O2M-U001", f"there is no dialect {dialect!r}; choose one of {', '.join(DIALECTS)}", case=dialect)
        self._refuse(f"a module of the {dialect} dialect")

    def save(self, path: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None) -> None:
        """Refused: there is no single program."""
        self._refuse(f"the file {os.fspath(path)}")

    def save_native(self, folder: str | os.PathLike[str], **_: Any) -> dict[str, Any]:
        """Refused: what runs on the host needs Python."""
        self._refuse("native code without Python")

    def __str__(self) -> str:
        texts = []
        for number, part in enumerate(self.parts, 1):
            head = f"# part {number} of {len(self.parts)}: "
            if isinstance(part, CoreProgram):
                texts.append(f"{head}native\n{part}")
            else:
                nodes = "\n".join(f"#   {node.name} ({node.op_type})" for node in part.nodes)
                texts.append(f"{head}on the host: {', '.join(part.inputs)} -> {', '.join(part.outputs)}\n{nodes}")
        return "\n".join(texts)

    def _engine(self, runners: Sequence[Any]) -> SplitEngine:
        steps = []
        for part, runner in zip(self.parts, runners, strict=True):
            if isinstance(part, HostStep):
                with self.report.stage("host"):
                    _ = part.names
                steps.append(Step(part.inputs, part.outputs, part.run))
            else:
                outputs = tuple(spec.name for spec in part.outputs)
                steps.append(Step(tuple(spec.name for spec in part.inputs), outputs, _by_name(runner, outputs)))
        return SplitEngine(self.inputs, self.outputs, steps, self._held(), self.defaults)

    def _held(self) -> dict[str, Any]:
        """Values that no input and no part gives: constants, and initializers that are outputs."""
        graph = self._plan.loaded.ir.graph
        held = {name: tensor.numpy() for name, tensor in self._constants.items()}
        for value in graph.outputs:
            if value.const_value is not None and value.is_initializer():
                held[value.name or ""] = settled(array(value.const_value))
        return held

    def _refuse(self, what: str) -> NoReturn:
        findings = [
            Finding(
                "O2M-H005",
                f"the model cannot be written as {what}: {note.reason}",
                "cut the model before and after these nodes; its compiled parts are in `parts` of the program",
                note.case,
                note.node,
            )
            for note in self.on_host
        ]
        raise Refusal(findings or [Finding("O2M-H005", f"the model cannot be written as {what}: strings pass through it")])


def _by_name(runner: Any, outputs: Sequence[str]) -> Any:
    return lambda values: dict(zip(outputs, runner.run(values), strict=True))


def assemble(
    plan: Plan,
    *,
    dims: Mapping[str, int] | None,
    constants: Mapping[str, torch.Tensor] | None,
    table: SpecTable | None,
    ledger: Ledger | None,
    report: Report,
) -> tuple[SplitProgram, list[Finding]]:
    """The program of ``plan`` as far as its parts convert, and every finding.

    What one native part knows of its outputs when it is converted, those after it know too.
    """
    dims, constants = dims or {}, constants or {}
    check_names(plan.loaded, dims, constants)
    findings = list(plan.loaded.findings)
    types, known = dict(plan.types), dict(constants)
    parts: list[Part] = []
    for number, segment in enumerate(plan.segments, 1):
        if segment.on_host:
            parts.append(plan.step(segment, types))
            findings += plan.notes(segment, number)
            continue
        try:
            converted = _native(plan, segment, types, dims, known, table, ledger)
        except Refusal as refusal:
            findings += [plan.placed(finding) for finding in refusal.findings]
            continue
        findings += [plan.placed(finding) for finding in converted.findings]
        types |= _types(converted)
        known |= converted.known
        parts.append(CoreProgram.of(converted, report))
    return SplitProgram(plan, parts, constants, dims, report), list(dict.fromkeys(findings))


def _native(
    plan: Plan,
    segment: Segment,
    types: Mapping[str, ValueType],
    dims: Mapping[str, int],
    constants: Mapping[str, torch.Tensor],
    table: SpecTable | None,
    ledger: Ledger | None,
) -> Converted:
    loaded = plan.native(segment, types)
    names = {value.name for value in loaded.inputs}
    sizes = {dim for value in loaded.inputs for dim in value.shape or ()}
    return convert_part(
        loaded,
        dims={name: size for name, size in dims.items() if name in sizes},
        constants={name: tensor for name, tensor in constants.items() if name in names},
        table=table,
        ledger=ledger,
    )


def _types(converted: Converted) -> dict[str, ValueType]:
    """The types of a native part's outputs, for the parts after it."""
    given = {symbol for spec in converted.inputs for tensor in spec.flat for symbol in _symbols(tensor.shape)}

    def size(dim: Dim) -> int | str | None:
        if isinstance(dim, int):
            return dim
        # The name of a size that only a part knows says nothing in another.
        return dim_text(dim, converted.dim_names) if _symbols([dim]) <= given else None

    return {
        spec.name: ValueType(
            spec.name, Kind.TENSOR, ir.DataType(element_type(spec.dtype, spec.element)), tuple(map(size, spec.shape))
        )
        for spec in converted.outputs
        if isinstance(spec, TensorSpec)
    }


def _symbols(shape: Sequence[Dim]) -> set[Any]:
    return {symbol for dim in shape if not isinstance(dim, int) for symbol in dim.free_symbols}
