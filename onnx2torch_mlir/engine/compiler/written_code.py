"""Functions that are written as text, of which LLVM makes machine code while the rest of the program is still being prepared.

They know nothing of the program but what kinds of work it has: the module gets their declarations, and calls them by name.
Where there is no second processor, they become a part of the module.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import code_parts, standard_code
from onnx2torch_mlir.engine.compiler.once import Once
from onnx2torch_mlir.engine.compiler.walks import append, functions, symbol, symbols

_MOST_KEPT = 64
"""Texts whose machine code a process keeps for its next programs."""

_PARTS_FOR_EACH = 2
"""Of a text, for each processor: a large one ends last, and then both are free for it."""

_T = TypeVar("_T")
_Key: TypeAlias = tuple[str, int, str, frozenset[str]]


@dataclass(frozen=True)
class _Fragment:
    """The functions that come with a text, and their machine code: objects that are there already, or are being made.

    ``declared``: their declarations and those of what they call. ``names``: those that are made of the text.
    """

    key: _Key
    declared: str
    names: frozenset[str]
    objects: list[bytes] | Once[list[Once[bytes]]]


_kept: dict[_Key, _Fragment] = {}
"""Of which the objects are there."""


class WrittenCode:
    """The functions of one program, for LLVM's optimization ``level``; as a context, whose end waits for what is under way."""

    def __init__(self, level: int) -> None:
        self.level = level
        threads = code_parts.number_of_parts()
        # One processor is left to what prepares the rest.
        self._pool = ThreadPoolExecutor(max(threads - 1, 1))
        self._waiting: deque[Once[Any]] = deque()
        self._fragments: list[_Fragment] = []
        self._standard: list[standard_code.Group] = []
        self._expected: deque[standard_code.Group] = deque()
        self._is_alone = threads == 1
        standard_code.stop()

    def __enter__(self) -> WrittenCode:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._waiting.clear()
        self._pool.shutdown(cancel_futures=True)

    @property
    def names(self) -> set[str]:
        """The functions of which there is machine code beside the module's."""
        of_standard = {name for group in self._standard for name in group.names}
        return {name for fragment in self._fragments for name in fragment.names} | of_standard

    def later(self, job: Callable[[], _T], *, first: bool = False) -> Once[_T]:
        """A job that a thread takes when it has no other, before all that wait if it is to be ``first``."""
        return self._queued(Once(job), first=first)

    def _queued(self, job: Once[_T], *, first: bool = False) -> Once[_T]:
        if first:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)
        self._pool.submit(self._take)
        return job

    def _take(self) -> bool:
        """Do what waits longest; whether there was anything."""
        try:
            job = self._waiting.popleft()
        except IndexError:
            return False
        job.make()
        return True

    def _take_all(self) -> None:
        while self._take():
            pass

    def objects(self) -> list[bytes]:
        """The machine code, as objects; this thread, too, makes what no other has begun with."""
        self._expected.clear()
        self._take_all()
        fragments = [each.objects.result() if isinstance(each.objects, Once) else each.objects for each in self._fragments]
        # What fragments have come to is there now.
        self._take_all()
        found = [group.result() for group in self._standard]
        for fragment, made in zip(self._fragments, fragments, strict=True):
            codes = [code.result() if isinstance(code, Once) else code for code in made]
            if isinstance(fragment.objects, Once):
                _kept[fragment.key] = replace(fragment, objects=codes)
                while len(_kept) > _MOST_KEPT:
                    _kept.pop(next(iter(_kept)), None)
            found += codes
        return found

    def expect(self, groups: Iterable[standard_code.Group]) -> None:
        """Make groups that the program is likely to ask for, in their order, until it asks for any, while there is nothing else
        to make."""
        if not self._is_alone:
            self._expected.extend(groups)
            self.later(self._make_expected)

    def _make_expected(self) -> None:
        with contextlib.suppress(IndexError):
            self._expected.popleft().make()
        if self._expected:
            # Behind whatever has been asked for by now.
            self.later(self._make_expected)

    def add(self, module: ir.Module, *texts: str) -> None:
        """Let the module have the functions of the ``texts``, but for those that it has: they may declare what they call.

        Texts that most programs have are made with those of their group, if they are not made yet (standard_code.py).
        """
        if self._is_alone:
            append(module, "\n".join(texts))
            return
        there, declared, taken = symbols(module), list[str](), set[str]()
        for group in standard_code.groups_of(texts, self.level):
            if group not in self._standard:
                if not group.names.isdisjoint(there):
                    continue
                self._expected.clear()
                declared.append(group.declared)
                self._standard.append(group)
                if not group.is_made:
                    self._queued(group)
            taken |= group.texts
        own = [text for text in texts if text not in taken]
        append(module, "\n".join(declared))
        text = "\n".join([*own, *declared])
        known = frozenset(name for name in symbols(module) if name.startswith("o2m_") and name in text)
        key = (text, self.level, objects.host(), known)
        made = _kept.get(key)
        if made is None:
            fragment, every = standard_code.read(text, known)
            names = frozenset(map(symbol, functions(fragment)))
            made = _Fragment(key, "\n".join(every.values()), names, [])
            if names:
                parts = functools.partial(self._parts, fragment, text, frozenset(self.names))
                # What it comes to are several jobs, of which others may take some.
                made = replace(made, objects=self.later(parts, first=True))
        append(module, made.declared)
        self._fragments.append(made)

    def _parts(self, fragment: ir.Module, text: str, elsewhere: frozenset[str]) -> list[Once[bytes]]:
        """The objects of a fragment that was made of the text; it calls functions that are ``elsewhere``.

        What Python does here keeps it from preparing the rest.
        """
        parts = standard_code.parts_of(fragment, text, _PARTS_FOR_EACH * code_parts.number_of_parts(), elsewhere)
        return [self.later(functools.partial(standard_code.compiled, part, self.level)) for part in parts]
