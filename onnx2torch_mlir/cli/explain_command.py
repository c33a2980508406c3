"""``onnx2mlir explain``: what becomes of each node of a model, or what a code means."""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.cli.session import Session, guarded
from onnx2torch_mlir.diagnostics import CODES, EXIT_CODES, Refusal, refuse

if TYPE_CHECKING:
    import onnx_ir as ir
    from torch.export import ExportedProgram

    from onnx2torch_mlir.model import LoadedModel
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
    from onnx2torch_mlir.conversion import check, convert
    from onnx2torch_mlir.model import expand_functions, read
    from onnx2torch_mlir.verification.verify import as_tensors

    options = session.options
    with session.busy(f"explaining {options.model}"):
        with session.report.stage("read"):
            loaded = read(options.model)
        constants = as_tensors(session.constants(loaded))
        exported = None
        try:
            with session.report.stage("convert"):
                converted = convert(loaded, dims=session.dims(), constants=constants)
            session.report.extend(converted.findings)
            exported = converted.exported
        except Refusal:
            session.report.extend(check(loaded, dims=session.dims(), constants=constants))
        nodes = explain(expand_functions(loaded), exported)
    if not session.json:
        _print(session, nodes)
    return session.finish({"nodes": [asdict(node) for node in nodes]})


def explain(loaded: LoadedModel, exported: ExportedProgram | None) -> list[Explained]:
    """What becomes of every node of the main graph of ``loaded``; without a program, only what speaks for it."""
    made: dict[str, list[Any]] = defaultdict(list)
    for item in exported.graph.nodes if exported is not None else ():
        if item.op == "call_function":
            made[item.meta.get("onnx_node", "")].append(item)
    return [_explained(node, loaded, made) for node in loaded.ir.graph]


def _explained(node: ir.Node, loaded: LoadedModel, made: dict[str, list[Any]]) -> Explained:
    from onnx2torch_mlir.specs import default_ledger, default_table, resolve

    operator = default_ledger().operator(node.domain, node.op_type)
    opset = node.version if node.version is not None else loaded.opsets.get(node.domain)
    version = None if operator is None or opset is None else operator.version_for(opset)
    name = node.name or node.op_type
    items = made.get(name, [])
    core = tuple(str(item.target) for item in items)
    results = (_described(items[-1]),) if items else ()
    if version is None:
        return Explained(name, f"{node.domain or 'ai.onnx'}::{node.op_type}", "unknown operator", "", core, results)
    found = resolve(default_table(), version)
    row = found.row.place if found.row is not None else ""
    return Explained(name, str(version), _by(found), row, core, results)


def _by(found: Resolution) -> str:
    if found.row is not None and found.row.target:
        return found.row.target
    return {"function": "ONNX's function body", "refused": f"refused: {found.reason}"}.get(
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
