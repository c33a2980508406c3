"""Machine code of functions that most programs call, made while the compiler's process waits for its first program.

Texts of functions that go together become an object, one after the other in a thread. Those that are not there when a program
comes are made when it asks for them (written_code.py), by the same groups: what is ready never shows in a program's code.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Collection, Sequence

from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import (
    brain_floats,
    code_parts,
    contexts,
    lower_to_llvm,
    object_code,
    passes,
    truth_values,
)
from onnx2torch_mlir.engine.compiler.once import Once
from onnx2torch_mlir.engine.compiler.walks import declare, symbol

MOST_LEVEL = 2
"""Of LLVM's optimization: text says itself what is unrolled, and of level 3 it only takes longer (by a third) to compile."""

_HEAD = re.compile(r"func\.func private @(\w+)\(([^)]*)\)( -> \S+)?")
"""Of a function that text defines or declares: its name, its arguments and its result."""
_ARGUMENT = re.compile(r"%\w+: ")


class Group(Once[bytes]):
    """The object that functions are together, and their texts, names and declarations."""

    def __init__(self, texts: frozenset[str], names: frozenset[str], declared: str, make: Callable[[], bytes]) -> None:
        """A group of which nothing is made yet."""
        super().__init__(make)
        self.texts, self.names, self.declared = texts, names, declared


class _Ahead(threading.Thread):
    """Makes groups, the first one first, until it is told to stop."""

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__(daemon=True)
        self._groups, self.stops = groups, False

    def run(self) -> None:
        for group in self._groups:
            if self.stops:
                return
            group.make()


_known: dict[tuple[frozenset[str], int, str], Group] = {}
"""By texts, level of optimization and host."""
_ahead: list[_Ahead] = []


def know(declared: str, groups: Sequence[Sequence[str]], level: int) -> list[Group]:
    """Let texts be groups, none of which is made yet; those that are known already are as they were.

    ``declared``: what they call besides each other's functions. A program that has all texts of a group has what they call.
    """
    host, level = objects.host(), min(level, MOST_LEVEL)
    every, found = _declarations("\n".join([declared, *("\n".join(texts) for texts in groups)])), list[Group]()
    for texts in groups:
        text = "\n".join(texts)
        names = frozenset(name for name, arguments, _ in _HEAD.findall(text) if "%" in arguments)
        others = "\n".join(line for name, line in every.items() if name not in names and f"@{name}(" in text)
        make = functools.partial(_compiled, others, text, frozenset(every), level)
        made = Group(frozenset(texts), names, "\n".join(every[name] for name in sorted(names)), make)
        found.append(_known.setdefault((made.texts, level, host), made))
    return found


def begin(groups: Sequence[Group]) -> None:
    """Let groups be made, in their order, until a program comes."""
    _ahead.append(_Ahead(groups))
    _ahead[-1].start()


def _declarations(text: str) -> dict[str, str]:
    """Declarations of the functions that the text defines or declares, by name. To let MLIR read all texts for that takes as
    long as to compile some of them."""
    return {
        name: f"func.func private @{name}({_ARGUMENT.sub('', arguments)}){result}"
        for name, arguments, result in _HEAD.findall(text)
    }


def stop() -> None:
    """Make no more of them but what is asked for: a program is there."""
    while _ahead:
        _ahead.pop().stops = True


def groups_of(texts: Collection[str], level: int) -> list[Group]:
    """The groups of which all is among the ``texts``, but for those that LLVM does not take. What costs least to make is small
    texts together: to begin with an object takes a fiftieth of a second."""
    given, level, host = frozenset(texts), min(level, MOST_LEVEL), objects.host()
    every = [group for (_, of_level, of_host), group in _known.items() if (of_level, of_host) == (level, host)]
    return [group for group in every if group.texts <= given and not group.is_refused]


def read(text: str, known: frozenset[str] = frozenset()) -> tuple[ir.Module, dict[str, str]]:
    """The functions of the text but for those that are ``known``, in a module with a context of its own, which has declarations
    of the others; and the declarations of all, by name."""
    with contexts.new_context(), ir.Location.unknown():
        module, declarations = ir.Module.parse("module {" + text + "}"), ir.Module.create()
        for view in list(module.body.operations):
            declare(view.operation, declarations)
            if symbol(view.operation) in known:
                declare(view.operation, module)
                view.operation.erase()
        names = [symbol(view.operation) for view in declarations.body.operations]
        # All at once: MLIR looks at the whole module for each operation that is written by itself.
        lines = str(declarations).splitlines()[1 : 1 + len(names)]
        declared = dict(zip(names, lines, strict=True))
    return module, declared


def parts_of(fragment: ir.Module, text: str, most: int, elsewhere: frozenset[str]) -> list[code_parts.Part]:
    """The functions of a module that `read` gave for the ``text``, for LLVM, in at most so many parts; they call functions that
    are ``elsewhere``."""
    diagnostics = passes.Diagnostics()
    with fragment.context as context, ir.Location.unknown():
        context.attach_diagnostic_handler(diagnostics)
        lower_to_llvm.mark_internal(fragment)
        passes.run(fragment, "conversion of written functions to LLVM", passes.LLVM, diagnostics)
        lower_to_llvm.give_hints(fragment)
        truth_values.as_bytes(fragment)
        finished = brain_floats.as_bits(fragment) if brain_floats.NAME in text else fragment
        found = code_parts.split(finished, most, elsewhere, exported=True)
    return [part for part in found if part.offered]


def compiled(part: code_parts.Part, level: int) -> bytes:
    """The object of such a part, for LLVM's optimization ``level`` at most."""
    return object_code.compiled(part, min(level, MOST_LEVEL), part.offered[0])


def _compiled(declared: str, text: str, elsewhere: frozenset[str], level: int) -> bytes:
    with contexts.new_context(), ir.Location.unknown():
        fragment = ir.Module.parse(f"module {{{declared}\n{text}}}")
    (part,) = parts_of(fragment, text, 1, elsewhere)
    return compiled(part, level)
