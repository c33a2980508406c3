"""``onnx2mlir check MODEL``: every reason why it would not convert."""

from __future__ import annotations

import argparse

from onnx2torch_mlir.cli.session import Session, guarded


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    from onnx2torch_mlir.conversion import as_tensors
    from onnx2torch_mlir.model import read
    from onnx2torch_mlir.program import check

    options = session.options
    with session.busy(f"checking {options.model}"):
        with session.report.stage("read"):
            loaded = read(options.model)
        with session.report.stage("convert"):
            findings = check(loaded, dims=session.dims(), constants=as_tensors(session.constants(loaded)))
    session.report.extend(findings)
    session.reproduce(findings)
    code = session.finish(findings_to_stdout=True)
    if not session.json and not session.report.errors:
        on_host = sum(finding.code == "O2M-C011" for finding in findings)
        told = f", {on_host} of them on the host" if on_host else ""
        session.out.print(f"{options.model} converts: {sum(1 for _ in loaded.ir.graph)} nodes{told}", markup=False)
    return code
