"""``onnx2mlir explain``: what becomes of each node of a model, or what a code means."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.cli.session import Session, guarded
from onnx2torch_mlir.diagnostics import CODES, EXIT_CODES, Refusal, refuse

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx2torch_mlir.model import LoadedModel
    from onnx2torch_mlir.program import Program
    from onnx2torch_mlir.specs import Resolution


@dataclass(frozen=True)
class Explained:
    """One node: what it is, what speaks for it, and what it became."""

    node: str
    operator: str
    by: str
    row: str
    core: tuple[str, ...]
    results: tuple[str, ...]


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _code if options.model.upper().startswith("O2M-") else _model)


def _code(session: Session) -> int:
    name = session.options.model.upper()
    code = CODES.get(name)
    if code is None:
        raise refuse("O2M-U001", f"there is no code {name}", hint="docs/findings.md lists them all", case=name)
    exit_status = EXIT_CODES[code.stage]
    if not session.json:
        session.out.print(f"{code.id} {code.title}", style="bold", markup=False)
        session.out.print(f"{code.meaning}\nstage: {code.stage}; exit code: {exit_status}", markup=False)
    return session.finish({"code": code.id, "title": code.title, "stage": str(code.stage), "meaning": code.meaning})


def _model(session: Session) -> int:
    from onnx2torch_mlir.conversion import as_tensors
    from onnx2torch_mlir.model import expand_functions, read
    from onnx2torch_mlir.program import check, convert

    options = session.options
    with session.busy(f"explaining {options.model}"):
        with session.report.stage("read"):
            loaded = read(options.model)
        constants = as_tensors(session.constants(loaded))
        program = None
        try:
            program = convert(loaded, dims=session.dims(), constants=constants, report=session.report)
        except Refusal:
            session.report.extend(check(loaded, dims=session.dims(), constants=constants))
        notes = [finding for finding in session.report.findings if finding.code == "O2M-C011"]
        on_host = {note.node.name: note.reason for note in notes if note.node is not None}
        nodes = explain(expand_functions(loaded), program, on_host)
    if not session.json:
        _print(session, nodes)
    return session.finish({"nodes": [asdict(node) for node in nodes]})


def explain(loaded: LoadedModel, program: Program | None, on_host: Mapping[str, str]) -> list[Explained]:
    """What becomes of every node of the main graph of ``loaded``; without a program, only what speaks for it.

    ``on_host`` are the nodes that run on the host, with the reasons.
    """
    from onnx2torch_mlir.program import CoreProgram, SplitProgram

    made: dict[str, list[Any]] = defaultdict(list)
    parts = program.parts if isinstance(program, SplitProgram) else () if program is None else (program,)
    for part in parts:
        for item in part.exported.graph.nodes if isinstance(part, CoreProgram) else ():
            if item.op == "call_function":
                made[item.meta.get("onnx_node", "")].append(item)
    return [_explained(node, loaded, made, on_host) for node in loaded.ir.graph]


def _explained(
    node: ir.Node, loaded: LoadedModel, made: dict[str, list[Any]], on_host: Mapping[str, str]
) -> Explained:
    from onnx2torch_mlir.specs import default_ledger, default_table, resolve

    opset = node.version if node.version is not None else loaded.opsets.get(node.domain)
    version = None if opset is None else default_ledger().version(node.domain, node.op_type, opset)
    name = node.name or node.op_type
    items = made.get(name, [])
    core = tuple(str(item.target) for item in items)
    results = (_described(items[-1]),) if items else ()
    if version is None:
        return Explained(name, f"{node.domain or 'ai.onnx'}::{node.op_type}", "unknown operator", "", core, results)
    found = resolve(default_table(), version)
    row = found.row.place if found.row is not None else ""
    by = f"the host: {on_host[name]}" if name in on_host else _by(found)
    return Explained(name, str(version), by, row, core, results)


def _by(found: Resolution) -> str:
    if found.row is not None and found.row.target:
        return found.row.target
    return {"function": "ONNX's function body", "refused": f"refused: {found.reason}", "host": f"the host: {found.reason}"}.get(
        str(found.outcome), found.reason or str(found.outcome)
    )


def _described(item: Any) -> str:
    values = item.meta.get("val")
    values = values if isinstance(values, tuple | list) else (values,)
    shown = [f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}" for v in values if hasattr(v, "shape")]
    return ", ".join(shown)


def _print(session: Session, nodes: list[Explained]) -> None:
    from rich.text import Text

    for node in nodes:
        session.out.print(Text(node.node, style="bold").append(f"  {node.operator}", style="default not bold"))
        where = f"  ({node.row})" if node.row else ""
        session.out.print(Text(f"  by {node.by}{where}", style="dim"))
        if node.core:
            session.out.print(Text(f"  {' '.join(node.core)}"))
        for result in node.results:
            session.out.print(Text(f"  -> {result}"))
