"""MLIR contexts with the dialects that are handed off, and what MLIR reports in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager


def new_context(dialect: str = "torch") -> Any:
    """A fresh context that knows the torch dialect beside those that the wheel registers, and ``dialect``."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    if dialect == "stablehlo":
        # The bindings cannot register this dialect; a pass that makes its operations can.
        with context, ir.Location.unknown():
            passes = PassManager.parse("builtin.module(func.func(convert-torch-to-stablehlo))")
            empty = ir.Module.parse("func.func private @empty() { return }")
            passes.run(empty.operation)
    return context


def parse(source: bytes | str | Path, dialect: str = "torch") -> Any:
    """The module in ``source`` (bytecode, text, or the path of a file with either), in a new context."""
    context = new_context(dialect)
    if isinstance(source, Path):
        return ir.Module.parseFile(str(source), context)
    return ir.Module.parse(source, context)


@dataclass(frozen=True)
class Place:
    """Where an operation came from: the ONNX node's name and the name of the node in the core program."""

    onnx: str
    core: str


def location(place: Place, context: Any) -> Any:
    """``place`` as an MLIR location: the ONNX name, wrapped around the core name where they differ."""
    inner = ir.Location.name(place.core, context=context)
    return inner if place.onnx == place.core else ir.Location.name(place.onnx, childLoc=inner, context=context)


_STRING = r'"((?:[^"\\]|\\.)*)"'
_NAMED = re.compile(rf"{_STRING}(?:\({_STRING}\))?(?!:\d)")
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


def place_of(where: Any) -> Place | None:
    """The `Place` in an MLIR location; of several fused or called locations the first that has one."""
    # The bindings tell the kinds of location apart only by their text.
    found = _NAMED.search(str(where))
    if found is None:
        return None
    outer = _unescape(found[1])
    return Place(outer, outer if found[2] is None else _unescape(found[2]))


def _unescape(text: str) -> str:
    parts = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], text)
    return (
        parts.encode("latin-1", "surrogateescape").decode("utf-8", "replace")
        if parts.isascii() is False and all(ord(c) < 256 for c in parts)
        else parts
    )


@dataclass(frozen=True)
class Report:
    """One error of MLIR: its message, with the notes, and its place."""

    message: str
    place: Place | None


@contextmanager
def collecting(context: Any) -> Iterator[list[Report]]:
    """The errors that MLIR reports in ``context`` during the block, instead of on the terminal."""
    reports: list[Report] = []

    def handler(diagnostic: Any) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            reports.append(Report(diagnostic.message, place_of(diagnostic.location)))
        return True

    attached = context.attach_diagnostic_handler(handler)
    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True  # else the bindings keep errors to themselves until they raise
    try:
        yield reports
    finally:
        context.emit_error_diagnostics = before
        attached.detach()
