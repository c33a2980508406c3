"""A model split into native segments and steps on the host, before anything is converted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, Severity
from onnx2torch_mlir.hosting.classify import Classifier
from onnx2torch_mlir.hosting.inference import holds_host_type, inferred_types
from onnx2torch_mlir.hosting.partition import Segment, partition
from onnx2torch_mlir.hosting.steps import HostStep
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, expand_functions, extract, node_ref, read
from onnx2torch_mlir.specs import Ledger, SpecTable, default_ledger, default_table


@dataclass(frozen=True)
class Plan:
    """``loaded`` (its functions expanded) in ``segments``; ``reasons`` say why nodes are on the host."""

    loaded: LoadedModel
    segments: tuple[Segment, ...]
    reasons: Mapping[ir.Node, str]
    types: Mapping[str, ValueType]

    def step(self, segment: Segment, types: Mapping[str, ValueType]) -> HostStep:
        """A segment on the host; ``types`` are those of values, by name."""
        return HostStep(self.loaded, segment, types)

    def native(self, segment: Segment, types: Mapping[str, ValueType]) -> LoadedModel:
        """A native segment as a model of its own, its inputs of ``types``; weights stay where they are.

        Raises:
            Refusal: O2M-C004 for inputs from the host whose dtype or rank is not known.
        """
        findings = [item for name in segment.inputs if (item := self._open(name, types.get(name))) is not None]
        if findings:
            raise Refusal(findings)
        folder = self.loaded.base_dir
        cuts = {name: types[name] for name in segment.inputs}
        proto = extract(self.loaded, segment.outputs, inputs=cuts, weights="embed" if folder is None else "external")
        return read(proto, base_dir=folder)

    def notes(self, segment: Segment, number: int) -> list[Finding]:
        """One note for every node of a segment on the host; ``number`` counts the parts of the model from 1."""
        case = f"part {number} of {len(self.segments)}"
        return [
            Finding("O2M-C011", self.reasons[node], case=case, node=node_ref(node), severity=Severity.NOTE)
            for node in segment.nodes
        ]

    def placed(self, finding: Finding) -> Finding:
        """A finding of a segment's model at its node in this model."""
        known = {node.name: node for node in self.loaded.ir.graph}
        at = finding.node
        if at is None or at.place != "main" or at.name not in known:
            return finding
        original = node_ref(known[at.name])
        return dataclasses.replace(finding, node=original)

    def _open(self, name: str, described: ValueType | None) -> Finding | None:
        producer = next((node for node in self.loaded.ir.graph for value in node.outputs if value.name == name), None)
        known = described is not None and described.kind not in (Kind.UNKNOWN, Kind.TENSOR)
        if described is not None and described.kind is Kind.TENSOR:
            known = described.dtype is not None and described.shape is not None
        if known:
            return None
        missing = "rank" if described is not None and described.dtype is not None else "element type"
        reason = f"the {missing} of {name} is not known before it runs, and a compiled part of the model reads it"
        hint = f"declare the type of {name} in the graph's value_info"
        at = NodeRef(name, "graph input") if producer is None else node_ref(producer)
        return Finding("O2M-C004", reason, hint, name, at)


def split(loaded: LoadedModel, table: SpecTable | None = None, ledger: Ledger | None = None) -> Plan | None:
    """The plan of a model some nodes of which run on the host; None, after a quick scan, where all of it is native."""
    table, ledger = table or default_table(), ledger or default_ledger()
    if not Classifier(loaded, table, ledger).may_need_host():
        return None
    loaded = expand_functions(loaded)
    types = inferred_types(loaded, ledger)
    reasons = Classifier(loaded, table, ledger).reasons(types)
    segments = partition(loaded.ir.graph, reasons.keys())
    if not any(segment.on_host for segment in segments) and not _has_strings(loaded):
        return None
    return Plan(loaded, tuple(segments), reasons, types)


def _has_strings(loaded: LoadedModel) -> bool:
    return any(holds_host_type(value) for value in (*loaded.inputs, *loaded.outputs))
