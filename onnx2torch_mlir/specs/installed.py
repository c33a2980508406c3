"""Everything that is there: this package's rows and ledger, and those of the plug-ins that can be used.

A plug-in that is broken is left out as a whole, with findings that name it, and stops nobody who does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from onnx2torch_mlir.diagnostics import Finding, Refusal, Severity, refuse
from onnx2torch_mlir.specs import plugins
from onnx2torch_mlir.specs.ledger import DOMAIN_FILE, Ledger
from onnx2torch_mlir.specs.linter import lint
from onnx2torch_mlir.specs.loader import read_root
from onnx2torch_mlir.specs.plugins import Plugin
from onnx2torch_mlir.specs.roots import BUILTIN, MANIFEST
from onnx2torch_mlir.specs.row import Row
from onnx2torch_mlir.specs.table import SpecTable


@dataclass(frozen=True)
class Installed:
    """The rows and the ledger of everything that can be used; ``refused`` has what is wrong with each other plug-in."""

    table: SpecTable
    ledger: Ledger
    plugins: tuple[Plugin, ...]
    refused: Mapping[str, tuple[Finding, ...]]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """A warning for everything that is wrong with plug-ins."""
        return tuple(replace(item, severity=Severity.WARNING) for items in self.refused.values() for item in items)


@cache
def installed() -> Installed:
    """What is there now; computed once, and again after `register`."""
    found, missing = plugins.discovered()
    refused: dict[str, tuple[Finding, ...]] = {finding.case: (finding,) for finding in missing}
    given = {plugin.name: plugin for plugin in (*found, *plugins.registered())}
    accepted: list[Plugin] = []
    table, rows = _own(), list(_own())
    for plugin in given.values():
        try:
            ledger = Ledger(BUILTIN.opsets, *(each.root.opsets for each in accepted))
            brought = _rows_of(plugin, rows, ledger)
        except Refusal as refusal:
            refused[plugin.name] = refusal.findings
            continue
        table, rows = table.with_rows(rows, brought), [*rows, *brought]
        accepted.append(plugin)
    ledger = Ledger(BUILTIN.opsets, *(plugin.root.opsets for plugin in accepted))
    return Installed(table, ledger, tuple(accepted), refused)


@cache
def _own() -> SpecTable:
    return SpecTable.load(BUILTIN)


def default_table() -> SpecTable:
    """The rows of this package and of the plug-ins; loaded once."""
    return installed().table


def default_ledger() -> Ledger:
    """The ledger of this package and of the plug-ins; files are read when asked for."""
    return installed().ledger


def plugin_findings() -> tuple[Finding, ...]:
    """A warning for everything that is wrong with plug-ins; those are left out."""
    return installed().findings


def register(
    source: str | Path | ModuleType | None = None,
    *,
    domain: str = "",
    rows: str = "",
    operators: Mapping[str, str] | None = None,
    converters: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] = (),
    name: str = "",
) -> Plugin:
    """Add operators to this running program, as a package does that is installed with an entry point.

    ``source`` is such a package (its name, or the module), or a folder that is laid out like one. Without it the operators
    of ``domain`` are given here: ``rows`` is the text of an op_specs file, ``operators`` the ledger texts by operator
    (op_specs/README.md and opsets show both forms), ``converters`` the functions that rows name with ``convert:``.
    What was registered under the same ``name`` before is replaced, so that a notebook's cell can be run again.

    Raises:
        Refusal: with everything that is wrong with it; then nothing is changed.
    """
    if (source is None) == (not rows and not operators):
        raise refuse("O2M-U001", "register takes a package or folder, or else the domain, rows and operators themselves")
    if source is not None:
        plugin = plugins.of_source(source)
    else:
        plugin = plugins.of_texts(name or f"registered_{domain or 'ai.onnx'}", domain, rows, operators or {}, converters)
    before = plugins.registered()
    plugins.set_registered([*(item for item in before if item.name != plugin.name), plugin])
    installed.cache_clear()
    problems = installed().refused.get(plugin.name)
    if problems:
        plugins.set_registered(before)
        installed.cache_clear()
        raise Refusal(problems)
    return plugin


def unregister(plugin: Plugin | str) -> None:
    """Take back a `register`; O2M-U001 where there is none of that name."""
    name = plugin if isinstance(plugin, str) else plugin.name
    left = [item for item in plugins.registered() if item.name != name]
    if len(left) == len(plugins.registered()):
        raise refuse("O2M-U001", f"no plug-in {name} was registered", case=name)
    plugins.set_registered(left)
    installed.cache_clear()


# --- what a plug-in brings, and whether it fits -----------------------------------------------------------------------


def _rows_of(plugin: Plugin, rows: Iterable[Row], ledger: Ledger) -> list[Row]:
    """The rows of ``plugin``, which fit among ``rows`` and are true of the ledger.

    Raises:
        Refusal: with everything that is wrong with it, O2M-S007 first.
    """
    findings: list[Finding] = []
    brought: list[Row] = []
    try:
        findings += _of_another_interface(plugin)
        if not findings:
            brought = list(read_root(plugin.root, findings))
            findings += _in_the_ledger(plugin, ledger)
            both = Ledger(*ledger.roots, plugin.root.opsets)
            touched = {(row.domain, row.op) for row in brought}
            among = [row for row in rows if (row.domain, row.op) in touched]
            linted = lint(SpecTable.build([*among, *brought], findings), both)
            # What an override leaves of another's row may speak for no version.
            findings += [finding for finding in linted if finding.case.startswith(f"{plugin.root.package}/")]
    except Refusal as refusal:
        findings = list(refusal.findings)
    except Exception as error:  # files that cannot be read, or are no text
        findings.append(plugins.left_out(plugin, f"{type(error).__name__}: {error}"))
    if not findings:
        return brought
    if findings[0].code != "O2M-S007":
        count = f"{len(findings)} things are" if len(findings) > 1 else "one thing is"
        findings.insert(0, plugins.left_out(plugin, f"{count} wrong with it"))
    raise Refusal(findings)


def _of_another_interface(plugin: Plugin) -> Iterable[Finding]:
    file = plugin.root.op_specs.parent / MANIFEST
    if not plugin.root.op_specs.is_dir() and not plugin.root.opsets.is_dir():
        yield plugins.left_out(plugin, f"{plugin.root.op_specs.parent} holds neither op_specs nor opsets")
    if not file.is_file():
        return
    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        told = f"{error}"
    api = told.get("api") if isinstance(told, dict) and told.keys() == {"api"} else None
    if not isinstance(api, int) or isinstance(api, bool) or api < 1:
        yield plugins.left_out(plugin, f"its {MANIFEST} must say 'api: <number>' and nothing else")
    elif api > plugins.API:
        why = f"it was written for the interface {api} for plug-ins, and this release has {plugins.API}"
        yield plugins.left_out(plugin, why, hint="update onnx2torch_mlir, or install an older release of the plug-in")


def _in_the_ledger(plugin: Plugin, known: Ledger) -> Iterable[Finding]:
    """What is wrong with the operators that ``plugin`` declares: all of its files are read."""
    opsets = plugin.root.opsets
    for folder in sorted(path for path in opsets.iterdir() if path.is_dir()) if opsets.is_dir() else ():
        if not (folder / DOMAIN_FILE).is_file() and known.domain(folder.name) is None:
            why = f"the folder opsets/{folder.name} has no {DOMAIN_FILE} that says 'newest_opset: <number>'"
            yield Finding("O2M-S005", why, case=f"{plugin.name}/opsets/{folder.name}")
    own = Ledger(opsets)
    for domain in own.domains():
        for op in getattr(own.domain(domain), "operators", tuple)():
            try:
                operator = own.operator(domain, op)
            except Refusal as refusal:
                yield from refusal.findings
                continue
            other = known.operator(domain, op)
            if other is not None and other != operator:
                reason = f"{domain}::{op} is declared already, and otherwise; an operator's versions can only be declared once"
                yield Finding("O2M-S003", reason, case=f"{plugin.name}/opsets/{domain}/{op}.yaml")
