"""What a search for the first node that differs gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import onnx

from onnx2torch_mlir.diagnostics import NodeRef
from onnx2torch_mlir.verification.comparison import Comparison


@dataclass(frozen=True)
class Turn:
    """A node whose sub-graph holds the node that differs; ``label`` says which run of it, such as ``iteration 3``."""

    node: NodeRef
    label: str

    def __str__(self) -> str:
        return f"{self.label} of {self.node}"


@dataclass(frozen=True)
class Divergence:
    """A node whose result differs although what it reads agrees.

    ``value`` is its first output that differs, compared in ``comparison``. ``alone`` compares the same output when
    the node runs by itself on the reference's inputs (None where that could not be done); if it agrees, the node is
    not wrong but passes on differences of its inputs that are within their tolerance. ``model`` is the node alone,
    ``inputs`` what the reference gives it. ``within`` are the sub-graphs around the node, the outermost first, each with
    its first run that differs on the reference's own values. ``turns`` is how many runs of the node's own sub-graph
    agree, one by one, on the reference's values; None where it has none. ``rounds`` is the number of times that a part of
    the model was compiled.
    """

    node: NodeRef
    value: str
    comparison: Comparison
    alone: Comparison | None
    rounds: int
    model: onnx.ModelProto | None = None
    inputs: Mapping[str, Any] | None = None
    within: tuple[Turn, ...] = ()
    turns: int | None = None

    @property
    def is_wrong_alone(self) -> bool:
        """Whether the node differs by itself too."""
        return self.alone is None or not self.alone.agrees

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "node": asdict(self.node),
            "within": [{"node": asdict(turn.node), "run": turn.label} for turn in self.within],
            "value": self.value,
            "comparison": self.comparison.as_dict(),
            "alone": None if self.alone is None else self.alone.as_dict(),
            "runs_of_its_body_that_agree": self.turns,
            "rounds": self.rounds,
        }

    def __str__(self) -> str:
        lines = [
            f"first node that differs: {self.node}",
            *(f"  in {turn}" for turn in reversed(self.within)),
            f"  {self.comparison.reason()}",
            f"  ours:      {self.comparison.ours}",
            f"  reference: {self.comparison.theirs}",
        ]
        if self.alone is not None:
            told = "agrees: its inputs' differences add up" if self.alone.agrees else "differs as well"
            lines.append(f"  the node alone, on the reference's inputs, {told}")
        if self.turns is not None:
            lines.append(f"  each of the {self.turns} runs of its body agrees, on the reference's values")
        return "\n".join(lines)
