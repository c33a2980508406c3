"""Arguments of a module's function: named, or turned into values that the body makes itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

NAMES = "arg_attrs"


def name_arguments(function: Any, names: Sequence[tuple[str, str]]) -> None:
    """Give each argument of ``function`` one attribute: (attribute, name)."""
    with function.context:
        function.attributes[NAMES] = ir.ArrayAttr.get(
            [ir.DictAttr.get({attribute: ir.StringAttr.get(name)}) for attribute, name in names]
        )


def names_of_arguments(function: Any, attribute: str) -> dict[int, str]:
    """The arguments of ``function`` that carry ``attribute``: its text by their numbers."""
    if NAMES not in function.attributes:
        return {}
    given = [ir.DictAttr(entry) for entry in ir.ArrayAttr(function.attributes[NAMES])]
    return {n: ir.StringAttr(entry[attribute]).value for n, entry in enumerate(given) if attribute in entry}


def replace_arguments(function: Any, makers: Mapping[int, Callable[[Any], Any]]) -> None:
    """Take the arguments with the numbers in ``makers`` away; each maker gives the value that stands for its argument.

    A maker is called with the argument's type, and its operations go to the beginning of the body, in order.
    """
    entry = function.regions[0].blocks[0]
    with function.context, ir.InsertionPoint.at_block_begin(entry):
        for number, make in makers.items():
            argument = entry.arguments[number]
            argument.replace_all_uses_with(make(argument.type))
        for number in sorted(makers, reverse=True):
            entry.erase_argument(number)
        before = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        kept = [number for number in range(len(before.inputs)) if number not in makers]
        after = ir.FunctionType.get([before.inputs[number] for number in kept], before.results)
        function.attributes["function_type"] = ir.TypeAttr.get(after)
        if NAMES in function.attributes:
            names = list(ir.ArrayAttr(function.attributes[NAMES]))
            function.attributes[NAMES] = ir.ArrayAttr.get([names[number] for number in kept])
