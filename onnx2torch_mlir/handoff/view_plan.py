"""A view as a chain of flatten, unflatten, squeeze and unsqueeze.

Upstream guesses which dims of a dynamic ``aten.view`` belong together, and guesses wrong: ``[B, S, 64]`` to
``[B * S, 64]`` is lowered as if ``S`` were 1. The symbolic sizes tell what belongs together, and each step says it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onnx2torch_mlir.core.dims import known_equal, product
from onnx2torch_mlir.core.signature import Dim

Kind = Literal["flatten", "unflatten", "squeeze", "unsqueeze", "assume"]


@dataclass(frozen=True)
class Step:
    """One step from a shape to the next, on the dims ``[dim, dim + count)`` of the shape before it.

    ``flatten`` merges ``count`` dims into one, ``unflatten`` splits one into ``count`` dims, which are the dims of the
    view's result from ``result_dim`` on, ``squeeze`` drops and ``unsqueeze`` inserts a dim of size 1, ``assume`` is
    where only run time can know that the dim has the size that ``shape`` says. ``shape`` is the shape after the step.
    """

    kind: Kind
    dim: int
    count: int
    shape: tuple[Dim, ...]
    result_dim: int = 0


@functools.lru_cache(maxsize=4096)
def plan_view(source: tuple[Dim, ...], result: tuple[Dim, ...]) -> tuple[Step, ...]:
    """The steps that turn a contiguous tensor of sizes ``source`` into one of sizes ``result``.

    Dims are grouped where the products of their sizes are provably equal; what is left over, if anything, is flattened
    into one dim and unflattened to the sizes of the result.
    """
    steps: list[Step] = []
    shape = list(source)
    at = 0
    taken = 0

    def step(kind: Kind, new: Sequence[Dim], old: int) -> None:
        shape[at : at + old] = new
        steps.append(Step(kind, at, max(old, len(new)), tuple(shape), taken))

    while at < len(shape) or taken < len(result):
        if at < len(shape) and taken < len(result) and known_equal(shape[at], result[taken]):
            at, taken = at + 1, taken + 1
        elif at < len(shape) and shape[at] == 1:
            step("squeeze", [], 1)
        elif taken < len(result) and result[taken] == 1:
            step("unsqueeze", [1], 0)
            at, taken = at + 1, taken + 1
        else:
            merged, split = _group(shape[at:], result[taken:])
            total = product(shape[at : at + merged])
            if merged == 0:
                step("unsqueeze", [1], 0)
                total = 1
            elif merged > 1:
                step("flatten", [total], merged)
            if split > 1:
                step("unflatten", result[taken : taken + split], 1)
            else:
                wanted = result[taken] if split else 1
                if not known_equal(total, wanted):
                    step("assume", [wanted], 1)
                if not split:
                    step("squeeze", [], 1)
            at, taken = at + split, taken + split
    return tuple(steps)


def _group(source: Sequence[Dim], result: Sequence[Dim]) -> tuple[int, int]:
    """How many leading dims of each have provably the same product; all of them if there is no such group."""
    for total in range(2, len(source) + len(result) + 1):
        for merged in range(max(1, total - len(result)), min(len(source), total - 1) + 1):
            if known_equal(product(source[:merged]), product(result[: total - merged])):
                return merged, total - merged
    return len(source), len(result)
