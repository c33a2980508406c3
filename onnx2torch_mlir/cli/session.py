"""What the commands share: options to arguments, progress, findings printed, refusals to exit codes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx2torch_mlir.diagnostics import Finding, Refusal, Report, exit_code, refuse
from onnx2torch_mlir.diagnostics.render import as_json, print_findings

if TYPE_CHECKING:
    from rich.console import Console

    from onnx2torch_mlir.model import LoadedModel

Array = np.ndarray[Any, Any]

_LONG = 256 << 20
"""Bytes whose writing is worth a progress bar."""


class Session:
    """One run of a command."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.report = Report()

    @property
    def json(self) -> bool:
        """Whether the result is one JSON document on standard output."""
        return bool(self.options.format == "json")

    @cached_property
    def err(self) -> Console:
        """The console on standard error: progress, findings, what was written."""
        return _console(stderr=True)

    @cached_property
    def out(self) -> Console:
        """The console on standard output: reports."""
        return _console(stderr=False)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show ``what`` on standard error, if that is a terminal."""
        if self.err.is_terminal:
            with self.err.status(what):
                yield
        else:
            yield

    @contextmanager
    def writing(self, what: str, total: int) -> Iterator[Callable[[int], None] | None]:
        """What is to be told each number of bytes written: a bar on standard error, if that is a terminal and it takes long."""
        if not self.err.is_terminal or total < _LONG:
            yield None
            return
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=self.err, transient=True) as bar:
            task = bar.add_task(f"writing {Path(what).name}", total=total)
            yield lambda count: bar.advance(task, count)

    def dims(self) -> dict[str, int]:
        """``--dim``; O2M-U001 where one is not NAME=N with N at least 0."""
        result = {}
        for item in self.options.dim:
            name, _, number = item.rpartition("=")
            if not name or not number.isdigit():
                raise refuse("O2M-U001", f"--dim {item} is not NAME=N", case="--dim")
            result[name] = int(number)
        return result

    def constants(self, loaded: LoadedModel) -> dict[str, Array]:
        """``--constant`` as arrays of the dtypes that the model's inputs have; O2M-U001 where one cannot be used."""
        types = {value.name: value.dtype for value in loaded.inputs}
        result: dict[str, Array] = {}
        for item in self.options.constant:
            name, _, text = item.partition("=")
            dtype = types.get(name)
            if not name or not text or dtype is None:
                hint = f"the model's inputs are {', '.join(types)}"
                raise refuse(
                    "O2M-U001", f"--constant {item} is not NAME=VALUE with an input's name", hint=hint, case=name
                )
            try:
                value = np.load(text) if text.endswith(".npy") else np.asarray(json.loads(text))
                result[name] = value.astype(dtype.numpy())
            except (OSError, ValueError, TypeError) as error:
                raise refuse("O2M-U001", f"--constant {item} cannot be used: {error}", case=name) from error
        return result

    def finish(self, extra: Mapping[str, Any] | None = None, *, findings_to_stdout: bool = False) -> int:
        """Print the findings (as text, or with ``extra`` as the JSON document); gives the exit code."""
        code = self.report.exit_code
        if self.json:
            shown = self.report.as_dict()
            shown["findings"] = as_json(self.report.findings)
            document = {"command": self.options.command, "model": getattr(self.options, "model", None)}
            print(json.dumps({**document, **shown, **(extra or {}), "exit_code": code}, indent=2, allow_nan=False))
        else:
            print_findings(self.out if findings_to_stdout else self.err, self.report.findings)
        return code

    def failed(self, refusal: Refusal) -> int:
        """What is left to do after a refusal: its findings, and their reproducers where asked for."""
        self.report.extend(refusal.findings)
        self.reproduce(refusal.findings)
        return self.finish() or exit_code(refusal.findings) or 1

    def reproduce(self, findings: Any) -> None:
        """Write the one-node models of ``findings``, if ``--reproducer`` says where."""
        folder: Path | None = getattr(self.options, "reproducer", None)
        if folder is None or not any(finding.node is not None for finding in findings):
            return
        from onnx2torch_mlir.model import read
        from onnx2torch_mlir.verification.reproducer import write_findings

        try:
            written = write_findings(folder, read(self.options.model), findings, command=_command(self.options))
        except Refusal as refusal:
            self.report.extend(refusal.findings)
            return
        for path in written if not self.json else ():
            self.err.print(f"wrote the reproducer {path}", style="dim", markup=False)

    def error(self, finding: Finding) -> None:
        """Add a finding of the command itself."""
        self.report.extend([finding])


def _command(options: argparse.Namespace) -> str:
    if options.command == "convert" and options.emit:
        return f"convert --emit {options.emit}"
    return str(options.command)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Lines are never broken where nobody looks at them.
    return Console(stderr=stderr, highlight=False, soft_wrap=not stream.isatty())


def guarded(options: argparse.Namespace, body: Any) -> int:
    """``body(session)``, whose refusals become printed findings and an exit code."""
    current = Session(options)
    try:
        return int(body(current))
    except Refusal as refusal:
        return current.failed(refusal)
