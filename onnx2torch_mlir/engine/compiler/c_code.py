"""Functions in the LLVM dialect, written down as statements: what a C programmer would write where there is no C compiler.

A `Function` is a context manager; its methods append instructions, and `Value` has operators. Pointers are moved by bytes.
Constants and strings become globals of the `Fragment`, which in the end is the text of all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

POINTER = "!llvm.ptr"

Operand: TypeAlias = "Value | int"


@dataclass(frozen=True, eq=False)
class Value:
    """A value of type i1, i8, i32, i64 or pointer; Python's numbers beside it are constants of its type."""

    function: Function
    name: str
    type: str

    def __add__(self, other: Operand) -> Value:
        return self._binary("llvm.add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("llvm.sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("llvm.mul", other)

    def __and__(self, other: Operand) -> Value:
        return self._binary("llvm.and", other)

    def __or__(self, other: Operand) -> Value:
        return self._binary("llvm.or", other)

    def modulo(self, other: Operand) -> Value:
        """The remainder of an unsigned division."""
        return self._binary("llvm.urem", other)

    def divided(self, other: Operand) -> Value:
        """The whole number of an unsigned division."""
        return self._binary("llvm.udiv", other)

    def equals(self, other: Operand) -> Value:
        """Whether both are the same; 0 stands for the null pointer too."""
        return self._compare("eq", other)

    def differs(self, other: Operand) -> Value:
        """Whether they are not the same."""
        return self._compare("ne", other)

    def below(self, other: Operand) -> Value:
        """Whether it is less, as a signed number."""
        return self._compare("slt", other)

    def above(self, other: Operand) -> Value:
        """Whether it is greater, as an unsigned number."""
        return self._compare("ugt", other)

    def at(self, offset: Operand) -> Value:
        """The pointer so many bytes further."""
        if isinstance(offset, int):
            return self.function.emit(f"llvm.getelementptr {self.name}[{offset}] : ({POINTER}) -> {POINTER}, i8", POINTER)
        text = f"llvm.getelementptr {self.name}[{offset.name}] : ({POINTER}, i64) -> {POINTER}, i8"
        return self.function.emit(text, POINTER)

    def load(self, offset: Operand = 0, type_: str = "i64") -> Value:
        """What lies so many bytes behind the pointer."""
        return self.function.emit(f"llvm.load {self.at(offset).name} : {POINTER} -> {type_}", type_)

    def largest_byte(self, count: int) -> Value:
        """The largest of so many unsigned bytes behind the pointer, by vectors."""
        kind = f"vector<{count}xi8>"
        bytes_ = self.function.emit(f"llvm.load {self.name} {{alignment = 1 : i64}} : {POINTER} -> {kind}", kind)
        return self.function.emit(f'"llvm.intr.vector.reduce.umax"({bytes_.name}) : ({kind}) -> i8', "i8")

    def store(self, value: Value, offset: Operand = 0) -> None:
        """Write ``value`` so many bytes behind the pointer."""
        self.function.line(f"llvm.store {value.name}, {self.at(offset).name} : {value.type}, {POINTER}")

    def exchange(self, value: Value) -> Value:
        """Write the pointer ``value`` where this one points to, and give what was there, at once for all threads."""
        text = f"llvm.atomicrmw xchg {self.name}, {value.name} acq_rel : {POINTER}, {POINTER}"
        return self.function.emit(text, POINTER)

    def as_number(self) -> Value:
        """A pointer as i64."""
        return self.function.emit(f"llvm.ptrtoint {self.name} : {POINTER} to i64", "i64")

    def as_pointer(self) -> Value:
        """An i64 as a pointer."""
        return self.function.emit(f"llvm.inttoptr {self.name} : i64 to {POINTER}", POINTER)

    def widened(self) -> Value:
        """A signed i32 as i64."""
        return self.function.emit(f"llvm.sext {self.name} : i32 to i64", "i64")

    def narrowed(self) -> Value:
        """The lower half of an i64."""
        return self.function.emit(f"llvm.trunc {self.name} : i64 to i32", "i32")

    def field(self, index: int) -> Value:
        """A field of a structure of i32."""
        return self.function.emit(f"llvm.extractvalue {self.name}[{index}] : {self.type}", "i32")

    def _binary(self, operation: str, other: Operand) -> Value:
        right = self.function.of(other, self.type)
        return self.function.emit(f"{operation} {self.name}, {right.name} : {self.type}", self.type)

    def _compare(self, predicate: str, other: Operand) -> Value:
        right = self.function.of(other, self.type)
        return self.function.emit(f'llvm.icmp "{predicate}" {self.name}, {right.name} : {self.type}', "i1")


class Fragment:
    """Functions and globals, as text."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._declared: dict[str, str] = {}
        self._defined: set[str] = set()
        self._globals: dict[object, str] = {}

    def __str__(self) -> str:
        declarations = [text for name, text in self._declared.items() if name not in self._defined]
        return "\n".join([*declarations, *self._parts])

    @contextmanager
    def function(
        self, name: str, parameters: Sequence[str], result: str | None = None, *, exported: bool = False, attributes: str = ""
    ) -> Iterator[Function]:
        """A function that is being written; its parameters are in ``arguments``."""
        function = Function(self, parameters)
        yield function
        self._defined.add(name)
        given = ", ".join(f"{value.name}: {value.type}" for value in function.arguments)
        linkage = "" if exported else "internal "
        returned = "" if result is None else f" -> {result}"
        body = "\n  ".join(function.lines)
        self._parts.append(f"llvm.func {linkage}@{name}({given}){returned} {attributes} {{\n  {body}\n}}")

    def declare(self, name: str, types: Sequence[str], result: str | None, variadic: bool) -> None:
        """Say that there is such a function."""
        given = ", ".join([*types, *(["..."] if variadic else [])])
        self._declared.setdefault(name, f"llvm.func @{name}({given}){'' if result is None else f' -> {result}'}")

    def text(self, content: bytes) -> str:
        """The symbol of a constant string, with a zero behind it."""
        if content not in self._globals:
            symbol = self._globals[content] = f"o2m_text_{len(self._globals)}"
            shown = "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:02X}" for byte in content + b"\0")
            self._parts.append(f'llvm.mlir.global internal constant @{symbol}("{shown}") {{addr_space = 0 : i32}}')
        return self._globals[content]

    def numbers(self, content: Sequence[int]) -> str:
        """The symbol of a constant array of i64 (of one 0 where there are none)."""
        listed = tuple(content) or (0,)
        if listed not in self._globals:
            symbol = self._globals[listed] = f"o2m_table_{len(self._globals)}"
            values = f"dense<[{', '.join(map(str, listed))}]> : tensor<{len(listed)}xi64>"
            type_ = f"!llvm.array<{len(listed)} x i64>"
            self._parts.append(f"llvm.mlir.global internal constant @{symbol}({values}) : {type_}")
        return self._globals[listed]


class Function:
    """The body of a function, instruction by instruction."""

    def __init__(self, fragment: Fragment, parameters: Sequence[str]) -> None:
        self.fragment = fragment
        self.lines: list[str] = []
        self.arguments = [Value(self, f"%a{number}", type_) for number, type_ in enumerate(parameters)]
        self._count = 0
        self._ended = False

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(text)
        self._ended = text.startswith(("llvm.return", "llvm.br", "llvm.cond_br"))

    def emit(self, text: str, type_: str) -> Value:
        """Append an instruction with a result."""
        self._count += 1
        self.line(f"%v{self._count} = {text}")
        return Value(self, f"%v{self._count}", type_)

    def of(self, operand: Operand, type_: str) -> Value:
        """A number as a constant of a type (0 is the null pointer); values are given back."""
        if isinstance(operand, Value):
            return operand
        if type_ == POINTER:
            return self.emit(f"llvm.mlir.zero : {POINTER}", POINTER)
        return self.emit(f"llvm.mlir.constant({operand} : {type_}) : {type_}", type_)

    def number(self, value: int, type_: str = "i64") -> Value:
        """A constant."""
        return self.of(value, type_)

    def null(self) -> Value:
        """The null pointer."""
        return self.of(0, POINTER)

    def text(self, content: str | bytes) -> Value:
        """A pointer to a constant string."""
        symbol = self.fragment.text(content.encode() if isinstance(content, str) else content)
        return self.emit(f"llvm.mlir.addressof @{symbol} : {POINTER}", POINTER)

    def numbers(self, content: Sequence[int]) -> Value:
        """A pointer to a constant array of i64."""
        return self.emit(f"llvm.mlir.addressof @{self.fragment.numbers(content)} : {POINTER}", POINTER)

    def memory(self, size: int) -> Value:
        """A pointer to so many bytes that live as long as the call; only at the start of the function."""
        return self.emit(f"llvm.alloca {self.number(size).name} x i8 {{alignment = 64 : i64}} : (i64) -> {POINTER}", POINTER)

    def choose(self, condition: Value, yes: Value, no: Value) -> Value:
        """One of two values."""
        return self.emit(f"llvm.select {condition.name}, {yes.name}, {no.name} : i1, {yes.type}", yes.type)

    def call(self, name: str, *values: Value, result: str | None = None) -> Value | None:
        """Call a function of this fragment or from outside."""
        self.fragment.declare(name, [value.type for value in values], result, variadic=False)
        given = ", ".join(value.name for value in values)
        types = ", ".join(value.type for value in values)
        if result is None:
            self.line(f"llvm.call @{name}({given}) : ({types}) -> ()")
            return None
        return self.emit(f"llvm.call @{name}({given}) : ({types}) -> {result}", result)

    def get(self, name: str, *values: Value, result: str = "i64") -> Value:
        """The result of a call."""
        found = self.call(name, *values, result=result)
        assert found is not None
        return found

    def print_into(self, target: Value, size: int, form: str, *values: Value) -> None:
        """``snprintf``; the values are pointers and i64."""
        fixed = [target, self.number(size), self.text(form)]
        self.fragment.declare("snprintf", [value.type for value in fixed], "i32", variadic=True)
        listed = [*fixed, *values]
        given, types = ", ".join(v.name for v in listed), ", ".join(v.type for v in listed)
        kind = f"!llvm.func<i32 ({POINTER}, i64, {POINTER}, ...)>"
        self.emit(f"llvm.call @snprintf({given}) vararg({kind}) : ({types}) -> i32", "i32")

    def give(self, value: Value | None = None) -> None:
        """Return."""
        self.line("llvm.return" if value is None else f"llvm.return {value.name} : {value.type}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What is done if the condition holds."""
        then, after = self._label(), self._label()
        self.line(f"llvm.cond_br {condition.name}, {then}, {after}")
        self.lines.append(f"{then}:")
        self._ended = False
        yield
        if not self._ended:
            self.line(f"llvm.br {after}")
        self.lines.append(f"{after}:")
        self._ended = False

    @contextmanager
    def loop(self, count: Operand) -> Iterator[Value]:
        """What is done for each i64 from 0 to below ``count``."""
        limit, start = self.of(count, "i64"), self.number(0)
        head, body, after = self._label(), self._label(), self._label()
        index = self._argument("i64")
        self.line(f"llvm.br {head}({start.name} : i64)")
        self.lines.append(f"{head}({index.name}: i64):")
        self.line(f"llvm.cond_br {index.below(limit).name}, {body}, {after}")
        self.lines.append(f"{body}:")
        yield index
        self.line(f"llvm.br {head}({(index + 1).name} : i64)")
        self.lines.append(f"{after}:")
        self._ended = False

    @contextmanager
    def each(self, first: Value, link: int) -> Iterator[Value]:
        """What is done for each member of a list, whose pointer to the next lies ``link`` bytes behind it."""
        head, body, after = self._label(), self._label(), self._label()
        member = self._argument(POINTER)
        self.line(f"llvm.br {head}({first.name} : {POINTER})")
        self.lines.append(f"{head}({member.name}: {POINTER}):")
        self.line(f"llvm.cond_br {member.differs(0).name}, {body}, {after}")
        self.lines.append(f"{body}:")
        following = member.load(link, POINTER)
        yield member
        self.line(f"llvm.br {head}({following.name} : {POINTER})")
        self.lines.append(f"{after}:")
        self._ended = False

    def _label(self) -> str:
        self._count += 1
        return f"^b{self._count}"

    def _argument(self, type_: str) -> Value:
        self._count += 1
        return Value(self, f"%v{self._count}", type_)
