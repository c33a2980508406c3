"""The named part ``tree_ensemble``: rows go down trees, and what the leaves hold is put together.

The nodes of all trees are slots of one table. The first slots are the roots; the two children of a node stand side by side,
at ``first`` and ``first + 1``, and a row goes to the second where the node's comparison holds. A leaf is its own first child
and no comparison holds there, so that a row that has arrived stays.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

COMPARISONS = ("le", "lt", "ge", "gt", "eq")
MIXED = "mixed"
FEATURE, FIRST, LEAF, MASK = range(4)

T = TypeVar("T")


@dataclass(frozen=True)
class TreeForm:
    """What is known of an ensemble besides its tables.

    ``comparison`` is one of `COMPARISONS` (value, threshold) for all nodes, or `MIXED`: then bit 0, 1, 2 of a node's mask say
    whether it holds for a value below, at, above the threshold. Bit 3 says whether it holds for a missing value; without
    ``masked`` there is no mask, and it never does. ``members``: a value in the set of its node counts as at the threshold.
    ``combine`` is add, maximum or minimum. ``listed``: leaves list the targets of their weights, else they have one for each.
    """

    trees: int
    comparison: str
    combine: str
    masked: bool = False
    members: bool = False
    listed: bool = False

    @property
    def name(self) -> str:
        """The name of the part."""
        return f"tree_ensemble{asdict(self)}"

    @staticmethod
    def of(name: str) -> TreeForm | None:
        """The form that a part of this name has; None if it is another kind of part."""
        kind, brace, rest = name.partition("{")
        return TreeForm(**ast.literal_eval(brace + rest)) if kind == "tree_ensemble" else None


@dataclass(frozen=True)
class TreeTables(Generic[T]):
    """The operands after the rows [rows, features].

    By slot: ``nodes`` (int32) [slots, 4], its columns `FEATURE`, `FIRST`, `LEAF` (which leaf this is) and `MASK` side by side
    because a step reads them together, and ``thresholds`` (of the rows' dtype, NaN in leaves). ``depths`` (int32) [trees]: the
    most comparisons in a tree. ``weights`` [leaves, size] and ``targets`` (int32) of the same shape. ``sets`` [count, size], of
    which ``set_of`` (int32) says the row for a slot; NaN is no member.
    """

    nodes: T
    thresholds: T
    depths: T
    weights: T
    targets: T | None = None
    sets: T | None = None
    set_of: T | None = None

    def operands(self) -> list[T]:
        """Those that are there, in order."""
        return [item for item in vars(self).values() if item is not None]

    @staticmethod
    def of(form: TreeForm, operands: Sequence[T]) -> TreeTables[T]:
        """Of the operands of a part of this form (what follows them is not taken)."""
        there = (True,) * 4 + (form.listed, form.members, form.members)
        rest = iter(operands)
        return TreeTables(*(next(rest) if wanted else None for wanted in there))  # type: ignore[arg-type]
