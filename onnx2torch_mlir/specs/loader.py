"""Read op_specs: YAML rows and tables of rows into `Row`s, every violation of the schema reported with file and line.

The schema is described in ``op_specs/README.md``. Only what a file says by itself is checked here; what needs other
rows is checked in `specs.table`, what needs the ledger in `specs.linter`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from onnx2torch_mlir.diagnostics import Finding
from onnx2torch_mlir.specs.changes import Change
from onnx2torch_mlir.specs.ledger_text import attribute_value
from onnx2torch_mlir.specs.operator import canonical_domain
from onnx2torch_mlir.specs.roots import PACKAGE, Root
from onnx2torch_mlir.specs.row import Action, Row
from onnx2torch_mlir.specs.yaml_nodes import Document, line_of

_KINDS: dict[str, str] = {
    "since": "a version number",
    "until": "a version number",
    "family": "module.function",
    "convert": "module.function, or a function of the domain's package",
    "refuse": "a sentence",
    "function": "true",
    "host": "a sentence",
    "core": "the name of a primitive",
    "options": "a mapping of names to values",
    "attributes": "a mapping of names to values",
    "constants": "a list of names",
    "ignore": "a list of names",
    "hosted": "a mapping of names to lists of values",
    "change": "one of " + ", ".join(Change),
    "note": "a sentence",
    "override": "true",
}
_TABLE_KEYS = frozenset({"op", "ops", "each"})
_ACTIONS = tuple(str(action) for action in Action)
_BOUND_KEYS = ("core", "options", "attributes", "constants", "ignore", "hosted")
_FUNCTION_PATH = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*", re.IGNORECASE)
_CHANGES = frozenset(Change)


def read_root(root: Root, findings: list[Finding]) -> Iterator[Row]:
    """The rows of all ``<domain>/*.yaml`` under the root's op_specs; violations are added to ``findings``."""
    if root.op_specs.is_dir():
        for folder in sorted(path for path in root.op_specs.iterdir() if path.is_dir()):
            for path in sorted(folder.glob("*.yaml")):
                yield from read_rows(path.read_text(encoding="utf-8"), folder.name, root.shown(path), root, findings)


def read_rows(text: str, domain: str, file: str, root: Root, findings: list[Finding]) -> Iterator[Row]:
    """The rows that ``text`` holds for ``domain``; ``file`` is the name shown in findings."""
    document = Document(file, findings)
    top = document.compose(text)
    if top is None:
        return
    if not isinstance(top, yaml.SequenceNode):
        document.report("O2M-S001", line_of(top), "a file of op_specs is a list of rows")
        return
    reader = _Reader(document, canonical_domain(domain), root)
    for item in top.value:
        yield from reader.item(item)


class _Reader:
    """Reads the items of one file."""

    def __init__(self, document: Document, domain: str, root: Root) -> None:
        self.document = document
        self.domain = domain
        self.package = root.package
        self.prefixes = {"family": f"{PACKAGE}.families", "convert": root.converter_module(domain)}

    def bad(self, node: yaml.Node | int, reason: str, hint: str = "") -> None:
        line = node if isinstance(node, int) else line_of(node)
        self.document.report("O2M-S001", line, reason, hint)

    def item(self, node: yaml.Node) -> Iterator[Row]:
        """The rows of one item: a row (``op:``), or a table (``ops:``)."""
        if not isinstance(node, yaml.MappingNode):
            self.bad(node, "a row is a mapping that begins with 'op:' or 'ops:'")
            return
        nodes = self.document.fields(node)
        shared = self.checked({key: value for key, value in nodes.items() if key not in _TABLE_KEYS})
        if ("op" in nodes) == ("ops" in nodes):
            self.bad(node, "a row needs either 'op' or 'ops'")
        elif "op" in nodes:
            if "each" in nodes:
                self.bad(nodes["each"], "'each' belongs to a table with 'ops'")
            names = nodes["op"].value if isinstance(nodes["op"], yaml.SequenceNode) else [nodes["op"]]
            for name in names:
                op = self.document.value(name)
                if not isinstance(op, str):
                    self.bad(name, "'op' is the name of an operator or a list of names")
                elif (row := self.row(op, shared, line_of(name))) is not None:
                    yield row
        else:
            yield from self.table(nodes, shared)

    def table(self, nodes: Mapping[str, yaml.Node], shared: dict[str, Any]) -> Iterator[Row]:
        each = self.document.value(nodes["each"]) if "each" in nodes else "core"
        if not isinstance(each, str):
            self.bad(nodes["each"], "'each' is the name of the option that a table's plain values set")
            return
        if not isinstance(nodes["ops"], yaml.MappingNode):
            self.bad(nodes["ops"], "'ops' maps operators to values or to the keys of a row")
            return
        lines = self.document.key_lines(nodes["ops"])
        for op, entry in self.document.fields(nodes["ops"]).items():
            if isinstance(entry, yaml.MappingNode):
                own = self.checked(self.document.fields(entry))
            else:
                plain = self.document.value(entry)
                own = {} if plain is None else {"core": plain} if each == "core" else {"options": {each: plain}}
            row = self.row(op, _merged(shared, own), lines[op])
            if row is not None:
                yield row

    def checked(self, nodes: Mapping[str, yaml.Node]) -> dict[str, Any]:
        """The values of a row's keys, those left out that the schema does not allow."""
        values: dict[str, Any] = {}
        for key, node in nodes.items():
            if key not in _KINDS:
                self.bad(node, f"unknown key {key!r}", hint="the keys are: " + ", ".join([*_TABLE_KEYS, *_KINDS]))
                continue
            value = self.document.value(node)
            if _fits(key, value):
                values[key] = value
            else:
                self.bad(node, f"{key!r} must be {_KINDS[key]}, not {value!r}")
                values[key] = None
        return values

    def row(self, op: str, fields: dict[str, Any], line: int) -> Row | None:
        """The row for ``op``; None where a violation was found (the table must not guess what was meant)."""
        findings = len(self.document.findings)
        actions = [key for key in _ACTIONS if key in fields]
        since, until = fields.get("since", 1), fields.get("until")
        if len(actions) != 1:
            found = ", ".join(actions) or "none"
            self.bad(line, f"{op}: exactly one of {', '.join(_ACTIONS)} is needed, found {found}")
        if until is not None and since is not None and until < since:
            self.document.report("O2M-S004", line, f"{op}: the range {since}..{until} is empty")
        if actions and actions[0] in (Action.REFUSE, Action.FUNCTION, Action.HOST):
            for key in _BOUND_KEYS:
                if key in fields:
                    self.bad(line, f"{op}: {key!r} has no meaning beside {actions[0]!r}")
        options = dict(fields.get("options") or {})
        if "core" in options:
            self.bad(line, f"{op}: write 'core' as a key of the row, not under 'options'")
        if "core" in fields:
            options["core"] = fields["core"]
            if not isinstance(fields["core"], str):
                self.bad(line, f"{op}: 'core' must be {_KINDS['core']}, not {fields['core']!r}")
        attributes = fields.get("attributes") or {}
        ignore = fields.get("ignore") or ()
        for name in sorted({*options, *ignore} & attributes.keys()):
            self.bad(line, f"{op}: {name!r} is an attribute and an option or ignored attribute at once")
        if None in fields.values() or len(self.document.findings) > findings:
            return None
        action = Action(actions[0])
        value = fields[action]
        return Row(
            domain=self.domain,
            op=op,
            since=since,
            until=until,
            action=action,
            target=f"{self.prefixes[action]}.{value}" if action in self.prefixes else "",
            reason=value if action in (Action.REFUSE, Action.HOST) else "",
            options=options,
            attributes={name: _as_attribute(default) for name, default in attributes.items()},
            constants=fields.get("constants", ()),
            ignore=ignore,
            hosted=fields.get("hosted") or {},
            change=Change(fields["change"]) if "change" in fields else None,
            note=fields.get("note", ""),
            override=fields.get("override", False),
            package=self.package,
            file=self.document.file,
            line=line,
        )


def _as_attribute(default: Any) -> Any:
    """A default as a model's node would carry it: ONNX has no float attributes but float32."""
    if isinstance(default, tuple):
        return tuple(_as_attribute(item) for item in default)
    return attribute_value(default, "float") if isinstance(default, float) else default


def _merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A table's keys with an entry's: mappings and lists add up, anything else is replaced."""
    merged = dict(shared)
    for key, value in own.items():
        before = merged.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = {**before, **value}
        elif isinstance(value, tuple) and isinstance(before, tuple):
            merged[key] = before + value
        else:
            merged[key] = value
    return merged


def _fits(key: str, value: Any) -> bool:
    if key in ("since", "until"):
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if key in ("function", "override"):
        return value is True
    if key in ("family", "convert"):
        named = isinstance(value, str) and _FUNCTION_PATH.fullmatch(value) is not None
        return named and (key == "convert" or "." in value)
    if key in ("constants", "ignore"):
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if key in ("options", "attributes"):
        return isinstance(value, dict)
    if key == "hosted":
        return isinstance(value, dict) and all(isinstance(item, tuple) for item in value.values())
    if key == "change":
        return value in _CHANGES
    return isinstance(value, str) and bool(value.strip())
