"""Functions that are written as text, of which LLVM makes machine code while the rest of the program is still being prepared.

They know nothing of the program but what kinds of work it has: the module gets their declarations, and calls them by name.
Where there is no second processor, they become a part of the module.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeAlias

from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import brain_floats, code_parts, lower_to_llvm, object_code, passes, truth_values
from onnx2torch_mlir.engine.compiler.walks import append, declare, functions, symbol, symbols

_MOST_LEVEL = 2
"""Of LLVM's optimization: text says itself what is unrolled, and of level 3 it only takes longer (by a third) to compile."""
_MOST_PARTS = 4
"""Into which functions that come together fall, so that the last of them does not keep others waiting."""
_MOST_KEPT = 64
"""Texts whose machine code a process keeps for its next programs."""

_Key: TypeAlias = tuple[str, int, str, frozenset[str]]


@dataclass(frozen=True)
class _Functions:
    """The functions that come with a text: their declarations and those of what they call, and which of them are made of it."""

    declared: str
    names: frozenset[str]


@dataclass(frozen=True)
class _Fragment:
    """The machine code of a text, an object for each part: there already, or being made."""

    key: _Key
    functions: _Functions
    objects: list[bytes] | Future[list[Future[bytes]]]


_kept: dict[_Key, _Fragment] = {}
"""Of which the objects are there."""


class WrittenCode:
    """The functions of one program, for LLVM's optimization ``level``; as a context, whose end waits for what is under way."""

    def __init__(self, level: int) -> None:
        self.level = level
        threads = code_parts.number_of_parts()
        # One processor is left to what prepares the rest.
        self._pool = ThreadPoolExecutor(max(threads - 1, 1))
        self._fragments: list[_Fragment] = []
        self._is_alone = threads == 1

    def __enter__(self) -> WrittenCode:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def names(self) -> set[str]:
        """The functions of which there is machine code beside the module's."""
        return {name for fragment in self._fragments for name in fragment.functions.names}

    def objects(self) -> list[bytes]:
        """The machine code, as objects."""
        found = []
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

    def add(self, module: ir.Module, text: str) -> None:
        """Let the module have the functions of ``text``, but for those that it has: text may declare what it calls."""
        if self._is_alone:
            append(module, text)
            return
        known = frozenset(name for name in symbols(module) if name.startswith("o2m_") and name in text)
        key = (text, self.level, objects.host(), known)
        made = _kept.get(key)
        if made is not None:
            append(module, made.functions.declared)
            self._fragments.append(made)
            return
        fragment, found = _read(text, known)
        append(module, found.declared)
        if found.names:
            self._fragments.append(_Fragment(key, found, self._pool.submit(self._parts, fragment, self.names)))

    def _parts(self, fragment: ir.Module, elsewhere: set[str]) -> list[Future[bytes]]:
        """The objects of a fragment, which calls functions that are ``elsewhere``."""
        diagnostics = passes.Diagnostics()
        with fragment.context as context, ir.Location.unknown():
            context.attach_diagnostic_handler(diagnostics)
            lower_to_llvm.mark_internal(fragment)
            passes.run(fragment, "conversion of written functions to LLVM", passes.LLVM, diagnostics)
            lower_to_llvm.give_hints(fragment)
            truth_values.as_bytes(fragment)
            parts = code_parts.split(brain_floats.as_bits(fragment), _MOST_PARTS, elsewhere, exported=True)
        level = min(self.level, _MOST_LEVEL)
        return [self._pool.submit(object_code.compiled, part, level, part.offered[0]) for part in parts if part.offered]


def _read(text: str, known: Collection[str]) -> tuple[ir.Module, _Functions]:
    """The functions of the text but for those that are ``known``, in a module with a context of its own."""
    with ir.Context(), ir.Location.unknown():
        module, declarations = ir.Module.parse("module {" + text + "}"), ir.Module.create()
        for view in list(module.body.operations):
            declare(view.operation, declarations)
            if symbol(view.operation) in known:
                declare(view.operation, module)
                view.operation.erase()
        names = frozenset(map(symbol, functions(module)))
        declared = "\n".join(str(view.operation) for view in declarations.body.operations)
    return module, _Functions(declared, names)
