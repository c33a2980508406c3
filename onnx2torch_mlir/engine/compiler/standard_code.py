"""Machine code of functions that most programs call, made while the compiler's process waits for its first program.

Texts of functions that go together become an object, one after the other in a thread. What is not there when a program comes is
not waited for: its text goes with the program's own (written_code.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import (
    brain_floats,
    code_parts,
    lower_to_llvm,
    object_code,
    passes,
    truth_values,
)
from onnx2torch_mlir.engine.compiler.walks import declare, symbol

MOST_LEVEL = 2
"""Of LLVM's optimization: text says itself what is unrolled, and of level 3 it only takes longer (by a third) to compile."""

_DEFINED = re.compile(r"func\.func private @(\w+)\(%")


@dataclass(frozen=True)
class Ready:
    """The functions of a group of texts, their declarations, and the object that they are in, which may still be under way."""

    names: frozenset[str]
    declared: str
    code: Future[bytes]


_ready: dict[tuple[str, int, str], Ready] = {}
"""By text, level of optimization and host."""


def begin(declared: str, groups: Sequence[Sequence[str]], level: int) -> None:
    """Let texts become machine code, an object for each of the ``groups``, in their order.

    ``declared``: what they call besides each other's functions. Texts are in a group only if a program that has one of them
    has all that the others call, and the same of the others' names.
    """
    host, level = objects.host(), min(level, MOST_LEVEL)
    _, every = read("\n".join([declared, *("\n".join(texts) for texts in groups)]))
    pool = ThreadPoolExecutor(1)
    for texts in groups:
        group = "\n".join(texts)
        names = frozenset(_DEFINED.findall(group))
        others = "\n".join(line for name, line in every.items() if name not in names)
        code = pool.submit(_compiled, others, group, frozenset(every), level)
        made = Ready(names, "\n".join(every[name] for name in sorted(names)), code)
        _ready.update(((text, level, host), made) for text in texts)
    pool.shutdown(wait=False)


def stop() -> None:
    """Make no more of them: a program is there, and whatever it needs is made for it."""
    for key, ready in list(_ready.items()):
        # One that is cancelled already says so again.
        if ready.code.cancel():
            del _ready[key]


def ready(text: str, level: int) -> Ready | None:
    """What there is of a text, if LLVM took it."""
    found = _ready.get((text, min(level, MOST_LEVEL), objects.host()))
    return None if found is None or (found.code.done() and found.code.exception() is not None) else found


def read(text: str, known: frozenset[str] = frozenset()) -> tuple[ir.Module, dict[str, str]]:
    """The functions of the text but for those that are ``known``, in a module with a context of its own, which has declarations
    of the others; and the declarations of all, by name."""
    with ir.Context(), ir.Location.unknown():
        module, declarations = ir.Module.parse("module {" + text + "}"), ir.Module.create()
        for view in list(module.body.operations):
            declare(view.operation, declarations)
            if symbol(view.operation) in known:
                declare(view.operation, module)
                view.operation.erase()
        declared = {symbol(view.operation): str(view.operation) for view in declarations.body.operations}
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
    fragment, _ = read(f"{declared}\n{text}")
    (part,) = parts_of(fragment, text, 1, elsewhere)
    return compiled(part, level)
