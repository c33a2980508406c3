"""Functions that are written as text, of which LLVM makes machine code while the rest of the program is still being prepared.

They know nothing of the program but what kinds of work it has: the module gets their declarations, and calls them by name.
Where there is no second processor, they become a part of the module.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeAlias

from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import code_parts, standard_code
from onnx2torch_mlir.engine.compiler.walks import append, functions, symbol, symbols

_MOST_KEPT = 64
"""Texts whose machine code a process keeps for its next programs."""

_Key: TypeAlias = tuple[str, int, str, frozenset[str]]


@dataclass(frozen=True)
class _Fragment:
    """The functions that come with a text, and their machine code: objects that are there already, or are being made.

    ``declared``: their declarations and those of what they call. ``names``: those that are made of the text.
    """

    key: _Key
    declared: str
    names: frozenset[str]
    objects: list[bytes] | Future[list[Future[bytes]]]


_kept: dict[_Key, _Fragment] = {}
"""Of which the objects are there."""


class WrittenCode:
    """The functions of one program, for LLVM's optimization ``level``; as a context, whose end waits for what is under way."""

    def __init__(self, level: int) -> None:
        self.level = level
        threads = code_parts.number_of_parts()
        # One processor is left to what prepares the rest.
        self._workers = max(threads - 1, 1)
        self._pool = ThreadPoolExecutor(self._workers)
        self._fragments: list[_Fragment] = []
        self._standard: list[standard_code.Group] = []
        self._is_alone = threads == 1
        standard_code.stop()

    def __enter__(self) -> WrittenCode:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def names(self) -> set[str]:
        """The functions of which there is machine code beside the module's."""
        of_standard = {name for group in self._standard for name in group.names}
        return {name for fragment in self._fragments for name in fragment.names} | of_standard

    def objects(self) -> list[bytes]:
        """The machine code, as objects."""
        found = [group.code() for group in self._standard]
        for fragment in self._fragments:
            if isinstance(fragment.objects, Future):
                codes = [code.result() for code in fragment.objects.result()]
                _kept[fragment.key] = replace(fragment, objects=codes)
                while len(_kept) > _MOST_KEPT:
                    _kept.pop(next(iter(_kept)), None)
            else:
                codes = fragment.objects
            found += codes
        return found

    def add(self, module: ir.Module, *texts: str) -> None:
        """Let the module have the functions of the ``texts``, but for those that it has: they may declare what they call.

        A text that most programs have is made with those of its group, if they are not made yet (standard_code.py).
        """
        if self._is_alone:
            append(module, "\n".join(texts))
            return
        own, declared = list[str](), list[str]()
        for text in texts:
            group = standard_code.group_of(text, self.level)
            if group is None:
                own.append(text)
            elif group not in self._standard:
                declared.append(group.declared)
                self._standard.append(group)
                if not group.is_made:
                    self._pool.submit(group.make)
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
                made = replace(made, objects=self._pool.submit(self._parts, fragment, text, frozenset(self.names)))
        append(module, made.declared)
        self._fragments.append(made)

    def _parts(self, fragment: ir.Module, text: str, elsewhere: frozenset[str]) -> list[Future[bytes]]:
        """The objects of a fragment that was made of the text, one for each worker; it calls functions that are ``elsewhere``.

        What Python does here keeps it from preparing the rest.
        """
        parts = standard_code.parts_of(fragment, text, self._workers, elsewhere)
        return [self._pool.submit(standard_code.compiled, part, self.level) for part in parts]
