"""YAML as Python values that remember their lines, with every violation collected instead of raised.

PyYAML knows YAML 1.1; its two traps are mended as YAML 1.2 does: ``1e-5`` is a number, and ``no``, ``yes``, ``on`` and
``off`` are words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from onnx2torch_mlir.diagnostics import Finding

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_SCALARS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}int": int,
    f"{_TAG}float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    f"{_TAG}bool": lambda text: {"true": True, "false": False}.get(text.lower(), text),
    f"{_TAG}null": lambda text: None,
}


@dataclass
class Document:
    """One YAML text: its composed root node, and the findings made while reading it."""

    file: str
    findings: list[Finding] = field(default_factory=list)

    def compose(self, text: str) -> yaml.Node | None:
        """The root node of ``text``; None, with a finding, where it is not YAML."""
        try:
            return yaml.compose(text, _LOADER)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark is not None else 1
            self.report("O2M-S001", line, f"this is not YAML: {getattr(error, 'problem', None) or error}")
            return None

    def report(self, code: str, line: int, reason: str, hint: str = "") -> None:
        """Add a finding at ``line``."""
        self.findings.append(Finding(code, reason, hint=hint, case=f"{self.file}:{line}"))

    def value(self, node: yaml.Node) -> Any:
        """The Python value of ``node``: scalars, tuples and dicts with string keys."""
        if isinstance(node, yaml.ScalarNode):
            if node.tag == f"{_TAG}str":
                is_number = not node.style and _EXPONENT.fullmatch(node.value)
                return float(node.value) if is_number else node.value
            convert = _SCALARS.get(node.tag)
            try:
                if convert is not None:
                    return convert(node.value)
            except ValueError:
                pass
            self.report("O2M-S001", line_of(node), f"{node.value!r} is not a plain string, number, boolean or null")
            return None
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item) for item in node.value)
        return {key: self.value(item) for key, item in self.fields(node).items()}

    def fields(self, node: yaml.Node) -> dict[str, yaml.Node]:
        """The entries of a mapping node by key; a repeated key is a finding, and the first one counts."""
        entries: dict[str, yaml.Node] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.report("O2M-S001", line_of(key), "a key must be a plain word")
            elif key.value in entries:
                self.report("O2M-S001", line_of(key), f"the key {key.value!r} is given twice")
            else:
                entries[key.value] = item
        return entries

    @staticmethod
    def key_lines(node: yaml.Node) -> dict[str, int]:
        """The line of every key of a mapping node."""
        return {key.value: line_of(key) for key, _ in node.value}


def line_of(node: yaml.Node) -> int:
    """The line, counted from 1, at which ``node`` begins."""
    return int(node.start_mark.line) + 1
