"""Where the time of compiled programs goes, by ONNX node.

with Profile() as profile:
    engine = o2m.compile("model.onnx")     # compiled with clocks; others are not
engine.run(inputs)
for node in profile.nodes():
    print(node.name, node.seconds)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from onnx2torch_mlir.engine.layout import PROFILE_EVENT, PROFILE_HEADER, PROFILE_SITE

_active: ContextVar[Profile | None] = ContextVar("onnx2torch_mlir_profile", default=None)
_EVENTS = 1 << 17


@dataclass(frozen=True)
class NodeTime:
    """What a node took: all its calls together.

    ``flops`` are two for each turn of its sums of products (matrix products, convolutions); ``bytes`` those of the arrays that
    were read and written, each once a loop nest. ``name`` joins the nodes that were compiled to one loop nest by " + ".
    """

    name: str
    calls: int
    seconds: float
    flops: int
    bytes: int


@dataclass(frozen=True)
class Event:
    """One call: the name of its node, the engine and the thread of control it belongs to, begin and end in nanoseconds."""

    name: str
    engine: int
    context: int
    begin: int
    end: int


class EngineProfile:
    """The tables of one engine: one for each of its contexts (layout.py says what they hold)."""

    def __init__(self, sites: list[str]) -> None:
        self.sites = sites
        self._tables: list[Any] = []

    def table(self) -> int:
        """The address of a new table, for a context."""
        start = PROFILE_HEADER + PROFILE_SITE * len(self.sites)
        made = (ctypes.c_int64 * (start + PROFILE_EVENT * _EVENTS))()
        made[0], made[2] = _EVENTS, start
        self._tables.append(made)
        return ctypes.addressof(made)

    def clear(self) -> None:
        """Forget what was measured; no call may be going on."""
        for table in self._tables:
            table[1] = 0
            start, end = PROFILE_HEADER, table[2]
            ctypes.memset(ctypes.addressof(table) + 8 * start, 0, 8 * (end - start))

    def rows(self) -> list[tuple[str, list[int]]]:
        """For each site its nodes; calls, nanoseconds, operations and bytes."""
        found = []
        for number, name in enumerate(self.sites):
            start = PROFILE_HEADER + PROFILE_SITE * number
            values = [table[start : start + PROFILE_SITE] for table in self._tables]
            found.append((name, [sum(column) for column in zip(*values, strict=True)] or [0] * PROFILE_SITE))
        return found

    def events(self, engine: int) -> list[Event]:
        """The calls in the order in which they ended, as far as there was room."""
        found = []
        for context, table in enumerate(self._tables):
            for number in range(table[1]):
                start = table[2] + PROFILE_EVENT * number
                site, begin, end = table[start : start + PROFILE_EVENT]
                found.append(Event(self.sites[site], engine, context, begin, end))
        return found


class Profile:
    """Programs that are compiled inside of this context are compiled with clocks, and tell it their times."""

    def __init__(self) -> None:
        self._engines: list[EngineProfile] = []
        self._token: Token[Profile | None] | None = None

    def __enter__(self) -> Profile:
        self._token = _active.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._token is not None:
            _active.reset(self._token)

    def add(self, sites: list[str]) -> EngineProfile:
        """The tables of a new engine with these sites."""
        made = EngineProfile(sites)
        self._engines.append(made)
        return made

    def clear(self) -> None:
        """Forget what was measured so far, warm-up runs say; no call may be going on."""
        for engine in self._engines:
            engine.clear()

    def nodes(self) -> list[NodeTime]:
        """The nodes that were called, the longest first."""
        found: dict[str, NodeTime] = {}
        for engine in self._engines:
            for name, (calls, nanoseconds, flops, moved) in engine.rows():
                one = NodeTime(name, calls, nanoseconds / 1e9, flops, moved)
                was = found.get(name)
                found[name] = one if was is None else _sum(was, one)
        called = [node for node in found.values() if node.calls]
        return sorted(called, key=lambda node: -node.seconds)

    def events(self) -> list[Event]:
        """The single calls, in order of their begin."""
        events = [event for number, engine in enumerate(self._engines) for event in engine.events(number)]
        return sorted(events, key=lambda event: event.begin)

    def trace(self, types: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The calls as a document of Chrome's trace format; ``types`` are categories of nodes."""
        kinds = types or {}
        events = [
            {
                "name": event.name,
                "cat": kinds.get(event.name, "node"),
                "ph": "X",
                "ts": event.begin / 1e3,
                "dur": (event.end - event.begin) / 1e3,
                "pid": event.engine,
                "tid": event.context,
            }
            for event in self.events()
        ]
        return {"traceEvents": events, "displayTimeUnit": "ms"}


def active() -> Profile | None:
    """The profile inside of which the caller is."""
    return _active.get()


def _sum(one: NodeTime, other: NodeTime) -> NodeTime:
    return replace(
        one,
        calls=max(one.calls, other.calls),
        seconds=one.seconds + other.seconds,
        flops=one.flops + other.flops,
        bytes=one.bytes + other.bytes,
    )
