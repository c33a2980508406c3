"""Sums along a run of numbers by vectors, as text: whole ones, then a masked one, and at the end the lanes of each added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Emit = Callable[..., None]
"""Takes some lines."""
Step = Callable[[str, str, Sequence[str], bool], list[str]]
"""Emits what the vectors from number ``place`` of the run on add to ``sums``, which it gives: takes a tag for its names, the
place, the sums, and whether the ``%mask`` leaves some lanes out."""


def end_of_run(lanes: int, count: str) -> list[str]:
    """Of a run of ``count`` numbers ``%past`` are behind the ``%whole`` vectors, if it ``%has_past``, where the ``%mask`` is
    set; ``%lanes`` of a vector. ``%none`` is there."""
    wide = f"vector<{lanes}xi64>"
    return [
        f"%lanes = arith.constant {lanes} : i64",
        f"%past = arith.remui {count}, %lanes : i64",
        f"%whole = arith.subi {count}, %past : i64",
        "%has_past = arith.cmpi ne, %past, %none : i64",
        f"%lane = arith.constant dense<[{', '.join(map(str, range(lanes)))}]> : {wide}",
        f"%limit = vector.broadcast %past : i64 to {wide}",
        f"%mask = arith.cmpi slt, %lane, %limit : {wide}",
    ]


def along_run(emit: Emit, lanes: int, sums: Sequence[str], step: Step) -> list[str]:
    """The sums after a run (`end_of_run`)."""
    kinds = ", ".join([f"vector<{lanes}xf32>"] * len(sums))
    held = [f"%h{i}" for i in range(len(sums))]
    given = ", ".join(f"{h} = {s}" for h, s in zip(held, sums, strict=True))
    emit(f"%full:{len(sums)} = scf.for %k = %none to %whole step %lanes iter_args({given}) -> ({kinds}) : i64 {{")
    emit(f"scf.yield {', '.join(step('full_', '%k', held, False))} : {kinds}", "}")
    whole = [f"%full#{i}" for i in range(len(sums))]
    emit(f"%every:{len(sums)} = scf.if %has_past -> ({kinds}) {{")
    emit(f"scf.yield {', '.join(step('past_', '%whole', whole, True))} : {kinds}")
    emit("} else {", f"scf.yield {', '.join(whole)} : {kinds}", "}")
    return [f"%every#{i}" for i in range(len(sums))]


def added_up(emit: Emit, sums: Sequence[str], lanes: int, tag: str = "t") -> str:
    """A vector whose first lanes are what the lanes of each of ``sums`` add up to, in their order.

    Two vectors of partial sums become one of half as many each: what lies in the first and in the second half of the lanes
    of each sum is added.
    """
    vector, width, made = f"vector<{lanes}xf32>", lanes, 0
    while width > 1:
        half, after = width // 2, list[str]()
        # The lanes of two vectors side by side: of each sum, those of its first half and those of its second.
        first = [at + i for at in range(0, 2 * lanes, width) for i in range(half)]
        for one, other in zip(sums[::2], [*sums[1::2], sums[-1]], strict=False):
            after.append(f"%{tag}{made}")
            made += 1
            for name, order in (("l", first), ("h", [lane + half for lane in first])):
                emit(f"{after[-1]}{name} = vector.shuffle {one}, {other} {order} : {vector}, {vector}")
            emit(f"{after[-1]} = arith.addf {after[-1]}l, {after[-1]}h : {vector}")
        sums, width = after, half
    return sums[0]
