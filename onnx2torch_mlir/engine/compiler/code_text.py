"""Pieces of the text of functions that several generators write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def moved(name: str, base: str, count: str, step: str) -> list[str]:
    """``%name``: a pointer so many steps, of so many bytes, behind another."""
    return [f"%{name}_far = arith.muli {count}, {step} : i64", bytes_behind(f"%{name}", base, f"%{name}_far")]


def product(name: str, factors: Sequence[str]) -> str:
    """``%name``, the product of values of type i64; ``%one`` has to be there."""
    lines, found = [], "%one"
    for i, factor in enumerate(factors):
        lines.append(f"%{name}_{i} = arith.muli {found}, {factor} : i64")
        found = f"%{name}_{i}"
    return "\n".join([*lines, f"%{name} = arith.muli {found}, %one : i64"])


def added_in_halves(values: Sequence[str], count: int, added: str) -> tuple[list[str], list[str]]:
    """The first half of the values plus the second, and again until ``count`` are left: the lines, in which ``added`` is what
    adds two values, and what is left."""
    lines, left = list[str](), list(values)
    while len(left) > count:
        half = len(left) // 2
        names = [f"%halves{len(left)}_{place}" for place in range(half)]
        lines += [f"{name} = {added.format(*pair)}" for name, *pair in zip(names, left[:half], left[half:], strict=True)]
        left = names
    return lines, left


def held_apart(name: str, pointer: str) -> str:
    """``name``: the same pointer, of which LLVM does not know how it follows from others."""
    return f'{name} = llvm.inline_asm "", "=r,0" {pointer} : (!llvm.ptr) -> !llvm.ptr'


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


def word_at(name: str, base: str, number: int) -> str:
    """``%name``: where a word of what begins at ``base`` is."""
    return f"%{name} = llvm.getelementptr {base}[{number}] : (!llvm.ptr) -> !llvm.ptr, i64"


def header_word(name: str, header: str, word: int, type_: str = "i64") -> list[str]:
    """``name`` = a word of a header (layout.py), of packed weights for example."""
    return [
        f"{name}_at = llvm.getelementptr {header}[{word}] : (!llvm.ptr) -> !llvm.ptr, i64",
        f"{name} = llvm.load {name}_at : !llvm.ptr -> {type_}",
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


def masked_load(
    name: str, place: str, mask: str, lanes: int, element: str = "f32", width: int = 4, *, off: str = "%zero"
) -> str:
    """``name`` = the vector at ``place``, of elements of ``width`` bytes, and ``off`` where the ``mask`` is not set."""
    vector = f"vector<{lanes}x{element}>"
    return (
        f"{name} = llvm.intr.masked.load {place}, {mask}, {off} {{alignment = {width} : i32}}"
        f" : (!llvm.ptr, vector<{lanes}xi1>, {vector}) -> {vector}"
    )


def masked_store(value: str, place: str, mask: str, lanes: int, element: str = "f32", width: int = 4) -> str:
    """The ``value``, a vector, goes to ``place`` where the ``mask`` is set; if that may be nowhere, see `stored_if`."""
    return (
        f"llvm.intr.masked.store {value}, {place}, {mask} {{alignment = {width} : i32}}"
        f" : vector<{lanes}x{element}>, vector<{lanes}xi1> into !llvm.ptr"
    )


def stored_if(any_lane: str, *stores: str) -> list[str]:
    """Masked ``stores`` if there is ``any_lane``: asked not to store anything, processors of AMD take hundreds of cycles."""
    return [f"scf.if {any_lane} {{", *stores, "}"]


def stored_halves(sums: Mapping[tuple[int, int], str], lanes: int, element: str, *, known: str = "") -> list[str]:
    """The ``sums`` of a tile, by row and half, go to ``%c0_0``, ``%c0_1`` … where `column_masks` say, the second halves only if
    ``%columns`` are more than a vector has; ``known`` is the name of that number where it has one."""
    first, second = (
        [
            masked_store(value, f"%c{row}_{half}", f"%m{half}", lanes, element)
            for (row, half), value in sums.items()
            if half == which
        ]
        for which in range(2)
    )
    return [
        *first,
        *([] if known else [f"%one_vector = arith.constant {lanes} : i64"]),
        f"%has_second = arith.cmpi sgt, %columns, {known or '%one_vector'} : i64",
        *stored_if("%has_second", *second),
    ]


def turned(tag: str, rows: Sequence[str], lanes: int, element: str = "f32", width: int = 4) -> tuple[list[str], list[str]]:
    """A square of numbers turned in registers: the lines that make its columns of its ``rows``, vectors, and their names.

    An ``element`` has ``width`` bytes. First the numbers of 16 bytes are turned where they are, then these pieces change
    places: each step takes two vectors the way an instruction does that needs no order from a register.
    """
    vector, piece = f"vector<{lanes}x{element}>", min(lanes, 16 // width)
    pieces, lines, names = lanes // piece, list[str](), list(rows)

    def mixed(step: int, first: Sequence[str], second: Sequence[str], order: Sequence[int]) -> list[str]:
        found = []
        for one, other in zip(first, second, strict=True):
            found.append(f"%{tag}_{step}_{len(lines)}")
            lines.append(f"{found[-1]} = vector.shuffle {one}, {other} {list(order)} : {vector}, {vector}")
        return found

    step = 1
    while step < piece:
        low = [at + i // 2 + (i & 1) * lanes for at in range(0, lanes, piece) for i in range(piece)]
        for at in range(0, lanes, piece):
            first, second = names[at : at + piece // 2], names[at + piece // 2 : at + piece]
            names[at : at + piece : 2] = mixed(step, first, second, low)
            names[at + 1 : at + piece : 2] = mixed(step, first, second, [i + piece // 2 for i in low])
        step *= 2
    step = 1
    while step < pieces:
        even = [at * piece + i for at in range(0, 2 * pieces, 2) for i in range(piece)]
        for i in range(piece):
            group = names[i::piece]
            first, second = group[::2], group[1::2]
            names[i::piece] = mixed(step, first, second, even) + mixed(step, first, second, [j + piece for j in even])
        step *= 2
    return lines, names
