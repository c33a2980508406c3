"""What windows compute of single elements, taken from the bodies of nests, and the same on vectors as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.walks import made_by

_PLAIN = (
    "llvm.call_intrinsic",  # Of what scalar_code.py writes.
    "llvm.intr.fmuladd",
    "math.absf",
    "math.ceil",
    "math.copysign",
    "math.floor",
    "math.fma",
    "math.roundeven",
    "math.sqrt",
)
_MAY_TRAP = re.compile(r"arith\.(ceil|floor)?(div|rem)(si|ui)")
_CONTRACTED = ("arith.mulf", "arith.addf")


@dataclass(frozen=True)
class Code:
    """Operations on scalars as (result, name, operands, attributes), the type of each name, and which value they give.

    ``arguments`` are the names of the body's arguments, ``scalars`` those of values from outside, ``constants`` are names and
    their numbers as text.
    """

    operations: tuple[tuple[str, str, tuple[str, ...], str], ...]
    types: tuple[tuple[str, str], ...]
    yielded: str
    arguments: tuple[str, ...]
    scalars: tuple[str, ...]
    constants: tuple[tuple[str, str], ...]

    def type_of(self, name: str) -> str:
        """The scalar type of a value."""
        return dict(self.types)[name]

    def used(self, name: str) -> bool:
        """Whether the value is asked for."""
        return name == self.yielded or any(name in operands for _, _, operands, _ in self.operations)

    def on_vectors(self, lanes: int, given: Mapping[str, str], tag: str) -> tuple[list[str], str]:
        """The operations on vectors, and the vector they give; ``given`` names vectors for the arguments.

        Constants and values from outside are found as vectors under their name and "_v".
        """
        kinds = {name: f"vector<{lanes}x{kind}>" for name, kind in self.types}
        names = {name: f"{name}_v" for name in (*self.scalars, *(name for name, _ in self.constants))} | dict(given)
        lines = []
        for result, operation, operands, attributes in self.operations:
            names[result] = f"%{tag}{result[1:]}"
            values = ", ".join(names[operand] for operand in operands)
            types = ", ".join(kinds[operand] for operand in operands)
            lines.append(f'{names[result]} = "{operation}"({values}) {attributes} : ({types}) -> {kinds[result]}')
        return lines, names[self.yielded]

    def shared(self, lanes: int) -> list[str]:
        """Constants and values from outside as vectors."""
        lines = []
        for name, number in self.constants:
            lines.append(f"{name}_v = arith.constant dense<{number}> : vector<{lanes}x{self.type_of(name)}>")
        for name in self.scalars:
            kind = self.type_of(name)
            lines.append(f"{name}_v = vector.broadcast {name} : {kind} to vector<{lanes}x{kind}>")
        return lines


@dataclass
class _Reading:
    prefix: str
    names: dict[ir.Value, str]
    operations: list[tuple[str, str, tuple[str, ...], str]] = field(default_factory=list)
    scalars: list[ir.Value] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)

    def name_of(self, value: ir.Value) -> str:
        if value not in self.names:
            constant = made_by(value, "arith.constant")
            if constant is not None:
                self.names[value] = name = f"%{self.prefix}c{len(self.constants)}"
                self.constants[name] = str(constant.attributes["value"]).split(" : ")[0]
            else:
                self.names[value] = f"%{self.prefix}e{len(self.scalars)}"
                self.scalars.append(value)
        return self.names[value]


def code_of(generic: ir.Operation, prefix: str, *, contract: bool) -> tuple[Code, list[ir.Value]] | None:
    """The body of a nest, and the values from outside that it uses; None if vectors cannot do the same.

    Names begin with ``prefix``. With ``contract``, products and sums may be one multiply-add.
    """
    block = generic.regions[0].blocks[0]
    arguments = list(block.arguments)
    reading = _Reading(prefix, {argument: f"%{prefix}a{number}" for number, argument in enumerate(arguments)})
    *operations, terminator = (operation.operation for operation in block.operations)
    for operation in operations:
        if operation.name == "arith.constant":
            continue
        plain = operation.name.startswith("arith.") or operation.name in _PLAIN
        if not plain or len(operation.results) != 1 or len(operation.regions) or _MAY_TRAP.fullmatch(operation.name):
            return None
        operands = tuple(reading.name_of(operand) for operand in operation.operands)
        attributes = {name: operation.attributes[name] for name in operation.attributes}
        text = "{" + ", ".join(f"{name} = {value}" for name, value in attributes.items()) + "}"
        if contract and operation.name in _CONTRACTED:
            text = "{fastmath = #arith.fastmath<contract>}"
        reading.names[operation.results[0]] = f"%{prefix}t{len(reading.operations)}"
        reading.operations.append((reading.names[operation.results[0]], operation.name, operands, text))
    if len(terminator.operands) != 1:
        return None
    yielded = reading.name_of(terminator.operands[0])
    types = {name: str(value.type) for value, name in reading.names.items()}
    if not all(re.fullmatch(r"[if]\d+", kind) for kind in types.values()):
        return None
    code = Code(
        tuple(reading.operations),
        tuple(types.items()),
        yielded,
        tuple(reading.names[argument] for argument in arguments),
        tuple(reading.names[value] for value in reading.scalars),
        tuple(reading.constants.items()),
    )
    return code, reading.scalars
