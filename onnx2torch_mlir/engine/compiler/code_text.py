"""Pieces of the text of functions that several generators write."""

from __future__ import annotations

from collections.abc import Sequence

LINE_BYTES = 64
"""Of a line of the cache."""


def declared(arguments: Sequence[tuple[str, str]]) -> str:
    """A function's arguments, given as names and types."""
    return ", ".join(f"{name}: {type_}" for name, type_ in arguments)


def words(names: Sequence[str]) -> list[tuple[str, str]]:
    """Arguments of type i64, given without their ``%``."""
    return [(f"%{name}", "i64") for name in names]


def constants(**numbers: int) -> list[str]:
    """Constants of type i64, each with its ``%name``."""
    return [f"%{name} = arith.constant {number} : i64" for name, number in numbers.items()]


def called(function: str, given: Sequence[tuple[str, str]]) -> str:
    """A call of a function without results: names and types of what it is given."""
    return f"func.call @{function}({', '.join(v for v, _ in given)}) : ({', '.join(t for _, t in given)}) -> ()"


def bytes_behind(target: str, base: str, offset: str) -> str:
    """``target``: a pointer so many bytes behind another."""
    return f"{target} = llvm.getelementptr {base}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"


def product(name: str, factors: Sequence[str]) -> str:
    """``%name``, the product of values of type i64; ``%one`` has to be there."""
    lines, found = [], "%one"
    for i, factor in enumerate(factors):
        lines.append(f"%{name}_{i} = arith.muli {found}, {factor} : i64")
        found = f"%{name}_{i}"
    return "\n".join([*lines, f"%{name} = arith.muli {found}, %one : i64"])


def moved_by_batch(batches: int, operands: dict[str, tuple[str, str]]) -> list[str]:
    """``%x_`` for each operand x: its place in ``%batch``, of its pointer and the name of its steps.

    Batches have so many dims of ``%bn0`` …, outer ones first, each step in bytes.
    """
    lines, rest = list[str](), "%batch"
    places = {name: pointer for name, (pointer, _) in operands.items()}
    for i in reversed(range(batches)):
        lines += [f"%i{i} = arith.remui {rest}, %bn{i} : i64", f"%rest{i} = arith.divui {rest}, %bn{i} : i64"]
        rest = f"%rest{i}"
        for name, (_, step) in operands.items():
            lines.append(f"%f{name}{i} = arith.muli %i{i}, %{step}{i} : i64")
            lines.append(bytes_behind(f"%{name}_{i}", places[name], f"%f{name}{i}"))
            places[name] = f"%{name}_{i}"
    ends = (f"%{name}_ = llvm.getelementptr {place}[0] : (!llvm.ptr) -> !llvm.ptr, i8" for name, place in places.items())
    return [*lines, *ends]


def header_word(name: str, header: str, word: int) -> list[str]:
    """``name`` = a word of the header of packed weights (layout.py)."""
    return [
        f"{name}_at = llvm.getelementptr {header}[{word}] : (!llvm.ptr) -> !llvm.ptr, i64",
        f"{name} = llvm.load {name}_at : !llvm.ptr -> i64",
    ]


def asked(place: str, *, writing: bool = False, level: int = 1) -> str:
    """Ask for the line at a place to come into the cache of a level."""
    how = f"cache = 1 : i32, hint = {4 - level} : i32, rw = {int(writing)} : i32"
    return f'"llvm.intr.prefetch"({place}) <{{{how}}}> : (!llvm.ptr) -> ()'


def column_masks(lanes: int) -> list[str]:
    """``%m0`` and ``%m1``: which lanes of two vectors of ``lanes`` columns are among the first ``%columns``."""
    wide, numbers = f"vector<{lanes}xi64>", ", ".join(map(str, range(lanes)))
    return [
        f"%lane = arith.constant dense<[{numbers}]> : {wide}",
        f"%shift = arith.constant dense<{lanes}> : {wide}",
        f"%limit0 = vector.broadcast %columns : i64 to {wide}",
        f"%limit1 = arith.subi %limit0, %shift : {wide}",
        *(f"%m{half} = arith.cmpi slt, %lane, %limit{half} : {wide}" for half in range(2)),
    ]


def turned(tag: str, rows: Sequence[str], lanes: int) -> tuple[list[str], list[str]]:
    """A square of numbers turned in registers: the lines that make its columns of its ``rows``, vectors, and their names."""
    vector, lines, names = f"vector<{lanes}xf32>", list[str](), list(rows)
    stage = 1
    while stage < lanes:
        low = [t if not t & stage else lanes + t - stage for t in range(lanes)]
        high = [t + stage if not t & stage else lanes + t for t in range(lanes)]
        for i in (i for i in range(lanes) if not i & stage):
            first, second = names[i], names[i | stage]
            for target, order in ((i, low), (i | stage, high)):
                names[target] = f"%{tag}_{stage}_{target}"
                lines.append(f"{names[target]} = vector.shuffle {first}, {second} {order} : {vector}, {vector}")
        stage *= 2
    return lines, names
