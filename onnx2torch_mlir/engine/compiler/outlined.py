"""Functions that stand for parts of @main, each written once for all parts that are alike or become the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch_mlir import ir


@dataclass
class Outlined:
    """The functions of a ``module`` whose names begin with ``prefix``."""

    module: ir.Module
    prefix: str
    exclusive: dict[str, list[int]] = field(default_factory=dict)
    """For each function the positions of its pointers whose memory no other argument reaches."""
    functions: dict[str, ir.Operation] = field(default_factory=dict)
    _names: dict[object, str] = field(default_factory=dict)
    """By what a function is written for, and by what is written."""

    def name(self, key: object, exclusive: list[int], write: Callable[[], ir.Operation]) -> str:
        """The function for what has the ``key`` (likeness.py), which ``write`` puts into the module if there is none yet.

        What is not alike may still become the same, such as nests of other shapes.
        """
        key = (key, *exclusive)
        if key not in self._names:
            self._names[key] = self._settled(write(), exclusive)
        return self._names[key]

    def _settled(self, function: ir.Operation, exclusive: list[int]) -> str:
        text = f"{exclusive}{function.get_asm(use_local_scope=True, assume_verified=True)}"
        name = self._names.get(text)
        if name is not None:
            function.erase()
            return name
        name = self._names[text] = f"{self.prefix}{len(self.exclusive)}"
        self.exclusive[name], self.functions[name] = exclusive, function
        function.attributes["sym_name"] = ir.StringAttr.get(name)
        return name
