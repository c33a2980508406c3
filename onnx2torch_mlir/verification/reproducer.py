"""A folder that shows a finding again: the one-node model, its inputs, and the exact command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, refuse
from onnx2torch_mlir.model import (
    Kind,
    LoadedModel,
    ValueType,
    expand_functions,
    one_node_model,
    sub_graphs,
    value_type_of,
)
from onnx2torch_mlir.verification.leaves import leaves

Array = np.ndarray[Any, Any]


def write(
    folder: Path, model: onnx.ModelProto, inputs: Mapping[str, Any], *, command: str, findings: Sequence[Finding]
) -> Path:
    """Write into ``folder``: model.onnx, ``inputs`` as inputs.npz, command.sh which runs ``command``, findings.json.

    Inputs that the file cannot hold (maps) leave it out: the command then generates them.

    Raises:
        Refusal: O2M-U004 where the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / "model.onnx")
        line = f"${{PYTHON:-python}} -m onnx2torch_mlir {command} model.onnx"
        storable = _storable(inputs)
        if storable:
            np.savez(folder / "inputs.npz", **storable)  # type: ignore[arg-type]
            line += " --inputs inputs.npz" if command.split()[0] in ("verify", "run") else ""
        (folder / "command.sh").write_text(f'#!/bin/sh\ncd "$(dirname "$0")" && {line}\n')
        told = json.dumps([finding.as_dict() for finding in findings], indent=1)
        (folder / "findings.json").write_text(told + "\n")
    except OSError as error:
        reason = f"{folder} cannot be written: {error.strerror or error}"
        raise refuse("O2M-U004", reason, case=str(folder)) from error
    return folder


def _storable(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """``inputs`` as `load_inputs` reads them from an .npz; empty where one of them has no such form."""
    arrays: dict[str, Array] = {}
    for name, value in inputs.items():
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, dict) for item in items):
            return {}
        # The elements of a sequence that is empty lie along the first axis of an array.
        arrays |= leaves(name, value) if items else {name: np.zeros(0, np.float32)}
    # What NumPy's files do not know (bfloat16, float8) is exact in float32.
    return {
        name: array.astype(np.float32) if array.dtype.isbuiltin == 2 else array.astype(str) if array.dtype == object else array
        for name, array in arrays.items()
    }


def write_findings(folder: Path, loaded: LoadedModel, findings: Sequence[Finding], *, command: str) -> list[Path]:
    """One folder under ``folder`` for each node that ``findings`` name and that is found in the model.

    Findings of the same code, operator and reason show the same thing: the first of them is written.
    """
    written, seen = [], set()
    for finding in findings:
        key = (finding.code, finding.node.op_type if finding.node else "", finding.case, finding.reason)
        if finding.node is None or key in seen:
            continue
        seen.add(key)
        node = find_node(loaded, finding.node)
        if node is None:
            continue
        try:
            model = one_node_model(loaded, node, types=_types(loaded, node))
        except Refusal:
            continue
        name = "".join(char if char.isalnum() or char in "-_" else "_" for char in finding.node.name or node.op_type)
        written.append(write(folder / f"{finding.code}_{name}", model, {}, command=command, findings=[finding]))
    return written


def find_node(loaded: LoadedModel, reference: NodeRef) -> ir.Node | None:
    """The node that a finding means: in the main graph or a sub-graph, or the call of the function it came from."""
    nodes = list(_all_nodes(loaded.ir.graph))
    expanded = list(_all_nodes(expand_functions(loaded).ir.graph))
    for candidates in (nodes, expanded):
        for node in candidates:
            if node.name == reference.name and node.op_type == reference.op_type:
                return node
    place = reference.place.removeprefix("main/")
    callers = [node for node in loaded.ir.graph if node.name and (place + "/").startswith(f"{node.name}/")]
    return max(callers, key=lambda node: len(node.name or ""), default=None)


def _all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            for inner in sub_graphs(attribute):
                yield from _all_nodes(inner)


def _types(loaded: LoadedModel, node: ir.Node) -> dict[str, ValueType]:
    """The types of what ``node`` reads where the model does not declare them: inferred, or else float of any shape."""
    reads = [value.name or "" for value in node.inputs if value is not None and _is_unknown(value)]
    inferred = _inferred(loaded) if reads else {}
    return {name: inferred.get(name) or ValueType(name, Kind.TENSOR, ir.DataType.FLOAT) for name in reads}


def _is_unknown(value: ir.Value) -> bool:
    return bool(value.name) and value_type_of(value).kind is Kind.UNKNOWN and value.const_value is None


def _inferred(loaded: LoadedModel) -> dict[str, ValueType]:
    from onnx2torch_mlir.model import extract, value_type

    try:
        outputs = [value.name or "" for value in loaded.ir.graph.outputs]
        proto = onnx.shape_inference.infer_shapes(extract(loaded, outputs, weights="external"), data_prop=True)
    except Exception:
        return {}
    types = [value_type(value.name, value.type) for value in proto.graph.value_info]
    return {type_.name: type_ for type_ in types if type_.dtype is not None}
