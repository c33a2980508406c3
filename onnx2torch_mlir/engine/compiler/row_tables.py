"""Tables of places: where rows of a sum of products lie in two arrays, whatever their dims and strides.

Whoever computes rows writes the table of these: it stays in the first-level cache, and each thread writes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler.code_text import constants, declared, product, word_at, words

ENTRY_BYTES = 16
"""Of a table: two offsets for each place."""
_AT_ONCE = 4
"""Entries that a vector writes."""
_OFFSETS, _MASK = f"vector<{2 * _AT_ONCE}xi64>", f"vector<{2 * _AT_ONCE}xi1>"


def rows(count: int) -> str:
    """@o2m_rows_N(table, first, size, count and two strides of each dim): the offsets of ``size`` places from the ``first`` on.

    Outer dims come first.
    """
    names = [f"{letter}{i}" for i in range(count) for letter in ("mn", "ma", "mc")]
    arguments = declared([("%table", "!llvm.ptr"), *words(["first", "size", *names])])
    lines = [
        f"func.func private @{_name(count)}({arguments}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        *_first(count),
    ]
    inner = [f"%{side}{count - 1}" if count else "%none" for side in ("ma", "mc")]
    lines += run_start(inner[0], inner[1])
    # Along the innermost dim all are as far apart, which vectors write; divisions cost more than to go along.
    running = [f"%{side}0" if count else "%none" for side in "ac"] + [f"%at{i}" for i in range(1, count)]
    held = ["%ha", "%hc", *(f"%p{i}" for i in range(1, count))]
    to_end = (f"%least{count - 1}", f"%p{count - 1}") if count > 1 else None
    step, after = _step(count)
    lines += in_runs("%size", list(zip(held, running, strict=True)), [*run("%ha", "%hc"), *step], after, to_end)
    return "\n".join([*lines, "return", "}"])


def run_start(first: str, second: str) -> list[str]:
    """What `run` needs: how many bytes each of the two offsets of a place is behind that of the place before."""
    return [
        f"%is_second = arith.constant dense<[{', '.join(['false', 'true'] * _AT_ONCE)}]> : {_MASK}",
        f"%ordinals = arith.constant dense<[{', '.join(str(i // 2) for i in range(2 * _AT_ONCE))}]> : {_OFFSETS}",
        *constants(at_once=_AT_ONCE, two=2),
        f"%first_step = arith.muli {first}, %one : i64",
        f"%second_step = arith.muli {second}, %one : i64",
        *_pairs("%steps", "%first_step", "%second_step"),
        f"%within = arith.muli %steps, %ordinals : {_OFFSETS}",
        f"%all_at_once = vector.broadcast %at_once : i64 to {_OFFSETS}",
        f"%further = arith.muli %steps, %all_at_once : {_OFFSETS}",
    ]


def in_runs(
    size: str, running: Sequence[tuple[str, str]], body: Sequence[str], after: Sequence[str], end: tuple[str, str] | None
) -> list[str]:
    """A loop over so many entries from ``%table`` on, ``%many`` in each turn, whose first is ``%here``.

    They are all that are left, or no more than to the ``end`` of a line, given as its length and the place at hand. ``running``
    are names of numbers and what they are at first, ``after`` what they are in the next turn.
    """
    held, kinds = [name for name, _ in running], ", ".join(["i64"] * (1 + len(running)))
    given = ", ".join(f"{name} = {value}" for name, value in [("%entry", "%none"), *running])
    return [
        f"%ran:{1 + len(running)} = scf.while ({given}) : ({kinds}) -> ({kinds}) {{",
        f"%goes_on = arith.cmpi slt, %entry, {size} : i64",
        f"scf.condition(%goes_on) {', '.join(['%entry', *held])} : {kinds}",
        "} do {",
        f"^bb0({', '.join(f'{name}: i64' for name in ['%entry', *held])}):",
        f"%left = arith.subi {size}, %entry : i64",
        f"%to_end = arith.subi {end[0]}, {end[1]} : i64" if end else "",
        f"%many = arith.minsi %left, {'%to_end' if end else '%left'} : i64",
        "%to_here = arith.muli %entry, %two : i64",
        "%here = llvm.getelementptr %table[%to_here] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        *body,
        "%entry_after = arith.addi %entry, %many : i64",
        f"scf.yield {', '.join(['%entry_after', *after])} : {kinds}",
        "}",
    ]


def run(first: str | None, second: str) -> list[str]:
    """``%many`` entries from ``%here`` on, the steps of `run_start` apart, from one with both offsets on; of no
    ``first`` those stay that are there."""
    whole, part = "%values", [("%first_here", "%entry_at"), ("%second_here", "%second_at")]
    stays = list[str]()
    if first is None:
        first, whole, part = second, "%mixed", part[1:]
        stays = [
            f"%there = llvm.load %group_at {{alignment = 8 : i64}} : !llvm.ptr -> {_OFFSETS}",
            f"%mixed = arith.select %is_second, %values, %there : {_MASK}, {_OFFSETS}",
        ]
    return [
        *_pairs("%of_first", first, second),
        f"%start = arith.addi %of_first, %within : {_OFFSETS}",
        "%over = arith.remui %many, %at_once : i64",
        "%in_groups = arith.subi %many, %over : i64",
        "%last_group = scf.for %group = %none to %in_groups step %at_once"
        f" iter_args(%values = %start) -> ({_OFFSETS}) : i64 {{",
        "%to_group = arith.muli %group, %two : i64",
        "%group_at = llvm.getelementptr %here[%to_group] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        *stays,
        f"llvm.store {whole}, %group_at {{alignment = 8 : i64}} : {_OFFSETS}, !llvm.ptr",
        f"%moved_on = arith.addi %values, %further : {_OFFSETS}",
        f"scf.yield %moved_on : {_OFFSETS}",
        "}",
        "scf.for %single = %in_groups to %many step %one : i64 {",
        "%to_single = arith.muli %single, %two : i64",
        "%entry_at = llvm.getelementptr %here[%to_single] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        word_at("second_at", "%entry_at", 1),
        "%first_far = arith.muli %single, %first_step : i64",
        f"%first_here = arith.addi {first}, %first_far : i64",
        "%second_far = arith.muli %single, %second_step : i64",
        f"%second_here = arith.addi {second}, %second_far : i64",
        *(f"llvm.store {value}, {place} : i64, !llvm.ptr" for value, place in part),
        "}",
    ]


def _pairs(name: str, first: str, second: str) -> list[str]:
    """``name``: both by turns, as in a table."""
    return [
        f"{name}_first = vector.broadcast {first} : i64 to {_OFFSETS}",
        f"{name}_second = vector.broadcast {second} : i64 to {_OFFSETS}",
        f"{name} = arith.select %is_second, {name}_second, {name}_first : {_MASK}, {_OFFSETS}",
    ]


def _name(count: int) -> str:
    return f"o2m_rows_{count}"


def _first(count: int) -> list[str]:
    """``%ati``: the first row's place in each dim; ``%a0`` and ``%c0``: its offsets; ``%jumpai`` …: what is added to an offset
    where the dim begins again."""
    lines = []
    rest, offsets = "%first", {"a": "%none", "c": "%none"}
    for i in reversed(range(count)):
        # No dim is outside the first one, and to divide costs as much as to write some entries.
        at = f"%at{i}" if i else rest
        if i:
            lines += [
                f"%least{i} = arith.maxsi %mn{i}, %one : i64",
                f"%at{i} = arith.remui {rest}, %least{i} : i64",
                f"%rest{i} = arith.divui {rest}, %least{i} : i64",
            ]
            rest = f"%rest{i}"
        for side in "ac":
            lines += [
                f"%f{side}{i} = arith.muli {at}, %m{side}{i} : i64",
                f"%{side}{i} = arith.addi {offsets[side]}, %f{side}{i} : i64",
            ]
            offsets[side] = f"%{side}{i}"
            if i:
                lines += [
                    f"%all{side}{i} = arith.muli %mn{i}, %m{side}{i} : i64",
                    f"%jump{side}{i} = arith.subi %m{side}{i - 1}, %all{side}{i} : i64",
                ]
    return lines


def _step(count: int) -> tuple[list[str], list[str]]:
    """From a run of ``%many`` places to the next: the lines, and the offsets and places then."""
    lines, places = [], list[str]()
    offsets = {"a": "%ha", "c": "%hc"}
    carry = "%many"
    for i in reversed(range(count)):
        for side in "ac":
            step = f"%back{side}{i}"
            if i < count - 1:
                lines.append(f"{step} = arith.select %wraps{i + 1}, %jump{side}{i + 1}, %none : i64")
            else:
                lines.append(f"{step} = arith.muli %many, %m{side}{i} : i64")
            lines.append(f"%n{side}{i} = arith.addi {offsets[side]}, {step} : i64")
            offsets[side] = f"%n{side}{i}"
        if i:
            lines += [
                f"%moved{i} = arith.addi %p{i}, {carry} : i64",
                f"%wraps{i} = arith.cmpi eq, %moved{i}, %least{i} : i64",
                f"%next{i} = arith.select %wraps{i}, %none, %moved{i} : i64",
                f"%carry{i} = arith.select %wraps{i}, %one, %none : i64",
            ]
            carry = f"%carry{i}"
            places.insert(0, f"%next{i}")
    return lines, [*offsets.values(), *places]


def write(letter: str, dims: int, strides: tuple[str, str], place: tuple[str, str, str]) -> str:
    """A call that writes a table: ``place`` is the table, the first of the places and how many.

    Dim i has ``%<letter>ni`` places, ``%<stride>i`` apart.
    """
    given = ", ".join([*place, *(f"%{name}{i}" for i in range(dims) for name in (f"{letter}n", *strides))])
    types = ", ".join(["!llvm.ptr", *["i64"] * (2 + 3 * dims)])
    return f"func.call @{_name(dims)}({given}) : ({types}) -> ()"


def write_for_tiles(letter: str, dims: int, strides: tuple[str, str], place: tuple[str, str, str]) -> str:
    """`write`, and behind the last place the same once more: there are no tiles of some odd numbers of rows.

    There has to be room for it, and ``%one``.
    """
    table, _, count = place
    return "\n".join(
        [
            write(letter, dims, strides, place),
            f"%places_or_one = arith.maxsi {count}, %one : i64",
            f"%last_entry = llvm.getelementptr {table}[%places_or_one] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<2 x i64>",
            "%last_place = llvm.getelementptr %last_entry[-1] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<2 x i64>",
            "%last_offsets = llvm.load %last_place {alignment = 8 : i64} : !llvm.ptr -> vector<2xi64>",
            "llvm.store %last_offsets, %last_entry {alignment = 8 : i64} : vector<2xi64>, !llvm.ptr",
        ]
    )


def whole(letter: str, dims: int, strides: tuple[str, str]) -> list[str]:
    """``%<letter>s``: how many places there are; ``%<letter>table``: their offsets, by both ``strides``.

    Dims are as in `write`; ``%ctx``, ``%none``, ``%one`` and ``%entry``, `ENTRY_BYTES`, have to be there.
    """
    return [
        product(f"{letter}s", [f"%{letter}n{i}" for i in range(dims)]),
        f"%{letter}size = arith.muli %{letter}s, %entry : i64",
        f"%{letter}table = func.call @o2m_alloc(%ctx, %{letter}size) : (!llvm.ptr, i64) -> !llvm.ptr",
        write(letter, dims, strides, (f"%{letter}table", "%none", f"%{letter}s")),
    ]
