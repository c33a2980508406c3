"""One row of op_specs: what an operator is over a range of versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onnx2torch_mlir.specs.changes import Change


class Action(StrEnum):
    """The five things a row can say about its operator; the values are the YAML keys."""

    FAMILY = "family"
    CONVERT = "convert"
    REFUSE = "refuse"
    FUNCTION = "function"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the operator, the inclusive range of since_versions it speaks for (``until`` None: open), and what to do.

    ``target`` is the dotted path of the Python function for ``FAMILY`` and ``CONVERT``; ``reason`` the sentence for
    ``REFUSE`` and ``HOST``. ``options`` are keyword arguments from the row (``core`` among them), ``attributes`` the
    defaults of the node's attributes, ``constants`` the ONNX names of inputs whose contents must be known, ``ignore``
    attributes that carry no meaning, ``hosted`` values of attributes with which a node runs on the host. ``package`` is
    the plug-in that brings the row, "" this package; ``file`` and ``line`` say where the row is written.
    """

    domain: str
    op: str
    since: int
    until: int | None
    action: Action
    target: str = ""
    reason: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    hosted: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    change: Change | None = None
    note: str = ""
    override: bool = False
    package: str = ""
    file: str = ""
    line: int = 0

    def covers(self, since_version: int) -> bool:
        """Whether the row speaks for that version."""
        return self.since <= since_version and (self.until is None or since_version <= self.until)

    def overlaps(self, other: Row) -> bool:
        """Whether some version lies in both ranges."""
        return self.covers(max(self.since, other.since)) and other.covers(max(self.since, other.since))

    def host_reason(self, attributes: Mapping[str, Any]) -> str:
        """Why a node with ``attributes`` runs on the host; "" where it does not."""
        if self.action is Action.HOST:
            return self.reason
        for name, values in self.hosted.items():
            value = attributes.get(name, self.attributes.get(name))
            if value in values:
                return f"{self.op} with {name}={value} is left to onnxruntime"
        return ""

    @property
    def place(self) -> str:
        """Where the row is written, as ``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def span(self) -> str:
        """The range in words, e.g. ``Softmax 1..12`` or ``Softmax 13..``."""
        return f"{self.op} {self.since}..{'' if self.until is None else self.until}"
