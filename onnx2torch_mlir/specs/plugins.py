"""Plug-ins: packages that bring operators, by entry point, or by `register` in a running program.

A package declares the entry point ``onnx2torch_mlir.domains``, whose value is the package's name::

    [project.entry-points."onnx2torch_mlir.domains"]
    com_example = "onnx2torch_com_example"
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from onnx2torch_mlir.diagnostics import Finding, refuse
from onnx2torch_mlir.specs.ledger import DOMAIN_FILE
from onnx2torch_mlir.specs.ledger_text import parse_operator
from onnx2torch_mlir.specs.operator import canonical_domain
from onnx2torch_mlir.specs.roots import Root

ENTRY_POINTS = "onnx2torch_mlir.domains"

API = 1
"""The interface for plug-ins: the keys of rows and ledgers, the parameters of converters, the builder, the registries of
shape rules and lowering rules. It grows by one where a plug-in that worked would work no more."""


@dataclass(frozen=True)
class Plugin:
    """A package that brings operators; ``via`` says how it made itself known."""

    name: str
    via: str
    root: Root

    def __str__(self) -> str:
        return f"{self.name} ({self.via})"


def discovered() -> tuple[list[Plugin], list[Finding]]:
    """The plug-ins that installed packages declare, by name, and a finding for each that is not there."""
    from importlib import metadata  # 40 ms, which reading the rows of one package need not cost

    plugins: dict[str, Plugin] = {}
    findings = []
    for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        distribution = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
        via = f"entry point {point.name}{distribution}"
        package = point.value.partition(":")[0].strip()
        try:
            plugins.setdefault(package, Plugin(package, via, Root.of_package(package)))
        except Exception as error:  # the packages around it are imported, and may do anything
            findings.append(left_out(f"{package} ({via})", f"it cannot be found: {type(error).__name__}: {error}"))
    return list(plugins.values()), findings


def left_out(plugin: Plugin | str, why: str, hint: str = "") -> Finding:
    """O2M-S007 about ``plugin``."""
    name = plugin.name if isinstance(plugin, Plugin) else plugin.partition(" ")[0]
    return Finding("O2M-S007", f"the plug-in {plugin} is left out: {why}", hint=hint, case=name)


_REGISTERED: list[Plugin] = []
_numbers = itertools.count(1)


def registered() -> list[Plugin]:
    """The plug-ins that the running program registered, in order."""
    return list(_REGISTERED)


def set_registered(plugins: Iterable[Plugin]) -> None:
    """Let ``plugins`` be the registered ones."""
    _REGISTERED[:] = plugins


def of_source(source: str | Path | ModuleType) -> Plugin:
    """The plug-in that a package (by name, or imported) or a folder brings.

    Raises:
        Refusal: O2M-S007 where there is none.
    """
    if isinstance(source, ModuleType):
        source = source.__name__
    folder = Path(source)
    if folder.is_dir() and any((folder / name).is_dir() for name in ("op_specs", "opsets", "domains")):
        # A namespace package of a name of its own: what is imported under it belongs to this registration alone.
        folder = folder.resolve()
        package = _module(folder.name, [str(folder)])
        return Plugin(folder.name, "register", replace(Root.of_folder(folder, package), package=folder.name))
    try:
        return Plugin(str(source), "register", Root.of_package(str(source)))
    except Exception as error:  # the packages around it are imported, and may do anything
        reason = f"{source} is no package that can be found, and no folder with op_specs, opsets or domains: {error}"
        raise refuse("O2M-S007", reason, case=str(source)) from error


def of_texts(
    name: str,
    domain: str,
    rows: str,
    operators: Mapping[str, str],
    converters: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
) -> Plugin:
    """The plug-in ``name`` that consists of rows, ledger texts by operator, and functions by name.

    Raises:
        Refusal: O2M-S005 where a ledger text does not follow the form.
    """
    domain = canonical_domain(domain)
    named = dict(converters) if isinstance(converters, Mapping) else {item.__name__: item for item in converters}
    declared = [parse_operator(domain, op, text, f"{name}: {op}") for op, text in operators.items()]
    newest = max((version.since_version for operator in declared for version in operator.versions), default=1)
    folder = Path(tempfile.mkdtemp(prefix="onnx2torch_mlir_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = {f"op_specs/{domain}/rows.yaml": rows}
    if operators:
        files[f"opsets/{domain}/{DOMAIN_FILE}"] = f"newest_opset: {newest}\n"
        files |= {f"opsets/{domain}/{op}.yaml": text for op, text in operators.items()}
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    package = _module(name, [])
    for path in (f"{package}.domains", f"{package}.domains.{domain.replace('.', '_')}"):
        sys.modules[path] = ModuleType(path)
    vars(sys.modules[path]).update(named)
    root = Root(folder / "op_specs", folder / "opsets", f"{package}.domains", name)
    return Plugin(name, "register", root)


def _module(name: str, path: list[str]) -> str:
    """The name of a new package whose modules are looked up in ``path``."""
    stem = "".join(char if char.isalnum() else "_" for char in name)
    module = ModuleType(f"onnx2torch_mlir_plugin_{next(_numbers)}_{stem}")
    module.__path__ = path
    sys.modules[module.__name__] = module
    return module.__name__
