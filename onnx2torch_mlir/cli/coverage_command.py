"""``onnx2mlir coverage``: what is supported, as measured."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from onnx2torch_mlir.cli.session import Session, guarded
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.coverage import CoverageTable

_WIDTH = 132
"""Of tables that no terminal breaks."""


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    from onnx2torch_mlir.coverage import build, check_pages
    from onnx2torch_mlir.specs import Ledger, SpecTable, plugin_findings

    options = session.options
    if options.check:  # the pages are about this package alone
        session.report.extend(check_pages(build(SpecTable.load(), Ledger())))
        return session.finish()
    session.report.extend(plugin_findings())
    table = build().only(options.domain, options.op)
    if not table.supports:
        named = f"matches {options.op} in {options.domain or 'any domain'}" if options.op else f"is in {options.domain}"
        raise refuse("O2M-U001", f"no operator {named}", case="--op" if options.op else "--domain")
    if options.output is None and session.json:
        return session.finish(table.as_dict())
    text = _report(session, table)
    if options.output is None:
        print(text, end="")
        return session.finish()
    try:
        Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise refuse("O2M-U004", f"{options.output} cannot be written: {error.strerror}", case="-o") from error
    if not session.json:
        session.err.print(f"wrote {options.output}", markup=False)
    return session.finish({"output": options.output})


def _report(session: Session, table: CoverageTable) -> str:
    if session.json:
        return json.dumps(table.as_dict(), indent=1) + "\n"
    if session.options.format == "html":
        from onnx2torch_mlir.coverage import html_page

        return html_page(table)
    from rich.console import Console

    from onnx2torch_mlir.coverage.text import print_rows, print_summary

    written = io.StringIO()
    seen = session.options.output is None and session.out.is_terminal
    width = session.out.width if seen else _WIDTH
    console = Console(file=written, width=width, force_terminal=seen or None, highlight=False)
    (print_summary if session.options.op is None else print_rows)(console, table)
    return written.getvalue()
