"""A finished LLVM module in parts, so that LLVM works on them side by side.

Its functions call each other by name and nothing is inlined between those that move, so that machine code is the same in any
part; the objects that are made of them become one (elf_objects.py).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.walks import declare, nested, symbol

_MOVES = "o2m_"
"""How the functions begin that LLVM inlines nowhere (lower_to_llvm.py)."""

_MOST = 4
_WORTH = 3000
"""What a part is worth at least: about a twentieth of a second."""

_BLOCK = 20
"""Operations that LLVM works as long on as on a block: loops are unrolled, interleaved and rotated."""


@dataclass(frozen=True)
class Part:
    """A module, what it calls of other parts, and what these call of it."""

    module: ir.Module
    missing: list[str]
    offered: list[str]


def number_of_parts() -> int:
    """How many parts this process can work on at a time; one where objects are not ELF's."""
    return min(_MOST, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1


def split(module: ir.Module, most: int, elsewhere: Collection[str] = (), *, exported: bool = False) -> list[Part]:
    """At most so many parts, of about the same work each. The first is ``module`` without what has gone to the others, which
    have a context of their own each; what nobody calls is in none.

    ``elsewhere``: functions without a body here that come with other objects. If ``exported``, such objects may call all.
    """
    own = {symbol(view.operation): view.operation for view in module.body.operations if view.operation.name == "llvm.func"}
    bodies = {name: function for name, function in own.items() if len(function.regions[0].blocks)}
    inside = {name: nested(function) for name, function in bodies.items()}
    works = {name: len(inside[name]) + _BLOCK * len(function.regions[0].blocks) for name, function in bodies.items()}
    called = {name: _symbols_in(operations) for name, operations in inside.items()}
    foreign = set(elsewhere) - bodies.keys()
    count = max(min(most, sum(works.values()) // _WORTH), 1)
    moving = [name for name in bodies if name.startswith(_MOVES) and _is_internal(bodies[name]) and called[name] <= set(own)]
    loads = [sum(work for name, work in works.items() if name not in moving)] + [0] * (count - 1)
    place = dict.fromkeys(bodies, 0)
    for name in sorted(moving, key=lambda name: (-works[name], name)):
        place[name] = loads.index(min(loads))
        loads[place[name]] += works[name]
    across = [{callee for name in bodies if place[name] == part for callee in called[name]} for part in range(count)]
    # What no part has comes from outside; module 0 has its declarations.
    needed = [sorted(name for name in names if place.get(name, 0) != part) for part, names in enumerate(across)]
    shared = sorted(bodies if exported else {name for names in needed for name in names if name in bodies})
    for name in shared:
        bodies[name].attributes["linkage"] = _external()
    modules = [module, *(ir.Module.create() for _ in range(count - 1))]
    for made, names in zip(modules, needed, strict=True):
        for name in names:
            declare(own[name], made)
    for name, function in bodies.items():
        if place[name]:
            function.detach_from_parent()
            modules[place[name]].body.append(function)
    offered = [[name for name in shared if place[name] == part] for part in range(count)]
    missing = [sorted({name for name in needed[part] if name in bodies} | across[part] & foreign) for part in range(count)]
    return [
        Part(_in_own_context(made) if part else made, missing[part], offered[part])
        for part, made in enumerate(modules)
        if offered[part] or not part
    ]


def _symbols_in(operations: list[ir.Operation]) -> set[str]:
    """What the operations name."""
    attributes = (one.attributes[name] for one in operations for name in ("callee", "global_name") if name in one.attributes)
    return {ir.FlatSymbolRefAttr(attribute).value for attribute in attributes}


def _is_internal(function: ir.Operation) -> bool:
    return "internal" in str(function.attributes["linkage"])


def _external() -> ir.Attribute:
    return ir.Attribute.parse("#llvm.linkage<external>")


def _in_own_context(module: ir.Module) -> ir.Module:
    """A copy: translating to LLVM changes the context, which two threads may not do at once."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return ir.Module.parse(written.getvalue(), ir.Context())
