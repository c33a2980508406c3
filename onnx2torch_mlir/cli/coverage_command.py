"""``onnx2mlir coverage``: what is supported, as measured."""

from __future__ import annotations

import argparse

from onnx2torch_mlir.cli.session import Session, guarded


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    from onnx2torch_mlir.coverage import build, check_page, page

    table = build()
    if session.options.check:
        session.report.extend(check_page(table))
    elif not session.json:
        print(page(table), end="")
    return session.finish(table.as_dict())
