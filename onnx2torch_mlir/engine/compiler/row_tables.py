"""Tables of places: where rows of a sum of products lie in two arrays, whatever their dims and strides.

Whoever computes rows writes the table of these: it stays in the first-level cache, and each thread writes its own.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.code_text import declared, product, words

ENTRY_BYTES = 16
"""Of a table: two offsets for each place."""


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
    # Places go along from row to row, for divisions cost more.
    running = [f"%{side}0" if count else "%none" for side in "ac"] + [f"%at{i}" for i in range(1, count)]
    held = ["%ha", "%hc", *(f"%p{i}" for i in range(1, count))]
    given = ", ".join(f"{name} = {value}" for name, value in zip(held, running, strict=True))
    kinds = ", ".join(["i64"] * len(held))
    step, after = _step(count)
    lines += [
        f"%end:{len(held)} = scf.for %row = %none to %size step %one iter_args({given}) -> ({kinds}) : i64 {{",
        "%entry = arith.addi %row, %row : i64",
        "%here = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "llvm.store %ha, %here : i64, !llvm.ptr",
        "%second = llvm.getelementptr %here[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        "llvm.store %hc, %second : i64, !llvm.ptr",
        *step,
        f"scf.yield {', '.join(after)} : {kinds}",
    ]
    return "\n".join([*lines, "}", "return", "}"])


def _name(count: int) -> str:
    return f"o2m_rows_{count}"


def _first(count: int) -> list[str]:
    """``%ati``: the first row's place in each dim; ``%a0`` and ``%c0``: its offsets; ``%jumpai`` …: what is added to an offset
    where the dim begins again."""
    lines = []
    rest, offsets = "%first", {"a": "%none", "c": "%none"}
    for i in reversed(range(count)):
        lines += [
            f"%least{i} = arith.maxsi %mn{i}, %one : i64",
            f"%at{i} = arith.remui {rest}, %least{i} : i64",
            f"%rest{i} = arith.divui {rest}, %least{i} : i64",
        ]
        rest = f"%rest{i}"
        for side in "ac":
            lines += [
                f"%f{side}{i} = arith.muli %at{i}, %m{side}{i} : i64",
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
    """From a row to the next: the lines, and the offsets and places then."""
    lines, places = [], list[str]()
    offsets = {"a": "%ha", "c": "%hc"}
    carry = "%one"
    for i in reversed(range(count)):
        for side in "ac":
            step = f"%m{side}{i}"
            if i < count - 1:
                step = f"%back{side}{i}"
                lines.append(f"{step} = arith.select %wraps{i + 1}, %jump{side}{i + 1}, %none : i64")
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
