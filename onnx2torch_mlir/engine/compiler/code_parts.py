"""A finished LLVM module in parts, so that LLVM works on them side by side.

Its functions call each other by name and nothing is inlined between those that move, so that machine code is the same in any
part; the objects that are made of them become one (elf_objects.py).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Collection
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler import contexts
from onnx2torch_mlir.engine.compiler.walks import declare, nested, pointer, symbol
from onnx2torch_mlir.processors import processors

_MOVES = "o2m_"
"""How the functions begin that LLVM inlines nowhere (lower_to_llvm.py)."""

_MOST = 4
_WORTH = 700
"""What a part is worth at least, where all are worked on at once: about a hundredth of a second."""
_WORTH_LATER = 3000
"""The same of those that wait for each other: what begins anew for each part is a tenth of it."""

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
    return min(_MOST, processors()) if sys.platform == "linux" else 1


def split(module: ir.Module, most: int, elsewhere: Collection[str] = (), *, exported: bool = False) -> list[Part]:
    """At most so many parts, of about the same work each. The first is ``module`` without what has gone to the others, which
    have a context of their own each; what nobody calls is in none.

    ``elsewhere``: functions without a body here that come with other objects. If ``exported``, such objects may call all, and
    the parts are for one thread.
    """
    own = {symbol(view.operation): view.operation for view in module.body.operations if view.operation.name == "llvm.func"}
    bodies = {name: function for name, function in own.items() if len(function.regions[0].blocks)}
    inside = {name: nested(function) for name, function in bodies.items()}
    works = {name: len(inside[name]) + _BLOCK * len(function.regions[0].blocks) for name, function in bodies.items()}
    named = {name: _names_in(operations) for name, operations in inside.items()}
    called = {name: {symbol for _, _, symbol in found} for name, found in named.items()}
    foreign = set(elsewhere) - bodies.keys()
    count = max(min(most, sum(works.values()) // (_WORTH_LATER if exported else _WORTH)), 1)
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
    modules = [module, *(ir.Module.create() for _ in range(count - 1))]
    for made, names in zip(modules, needed, strict=True):
        for name in names:
            declare(own[name], made)
    for name, function in bodies.items():
        if place[name]:
            function.detach_from_parent()
            modules[place[name]].body.append(function)
    offered = [[name for name in shared if place[name] == part] for part in range(count)]
    for part, names in enumerate(offered):
        _offer({name: bodies[name] for name in names}, modules[part])
    for name, found in named.items():
        for operation, attribute, callee in found:
            if callee in offered[place[name]]:
                operation.attributes[attribute] = ir.FlatSymbolRefAttr.get(_inside(callee))
    missing = [sorted({name for name in needed[part] if name in bodies} | across[part] & foreign) for part in range(count)]
    return [
        Part(_in_own_context(made) if part else made, missing[part], offered[part])
        for part, made in enumerate(modules)
        if offered[part] or not part
    ]


def _names_in(operations: list[ir.Operation]) -> list[tuple[ir.Operation, str, str]]:
    """Where the operations name something: which of them, by which attribute, and what."""
    places = [(one, name) for one in operations for name in ("callee", "global_name") if name in one.attributes]
    return [(one, name, ir.FlatSymbolRefAttr(one.attributes[name]).value) for one, name in places]


def _is_internal(function: ir.Operation) -> bool:
    return "internal" in str(function.attributes["linkage"])


def _offer(functions: dict[str, ir.Operation], module: ir.Module) -> None:
    """Let other parts call these functions of a module, which get other names in it.

    They stay internal: for each that is not the execution engine adds one to call it by, which nobody does; with these machine
    code is a fourth larger.
    """
    for name, function in functions.items():
        function.attributes["sym_name"] = ir.StringAttr.get(_inside(name))
        function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "alias_type": function.attributes["function_type"],
            "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
        }
        with ir.InsertionPoint(module.body):
            alias = ir.Operation.create("llvm.mlir.alias", attributes=attributes, regions=1)
        with ir.InsertionPoint(alias.regions[0].blocks.append()):
            llvm.ReturnOp(arg=llvm.AddressOfOp(pointer(), _inside(name)).result)


def _inside(name: str) -> str:
    """The name of a function in its part; no text has dots in its names."""
    return f"{name}.inside"


def _in_own_context(module: ir.Module) -> ir.Module:
    """A copy: translating to LLVM changes the context, which two threads may not do at once."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return ir.Module.parse(written.getvalue(), contexts.new_context())
