"""From the scores of a tree ensemble to labels, as onnxruntime decides: with two classes everything is special.

Source: the behaviour of onnxruntime's TreeEnsembleClassifier; ONNX does not define it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.ai_onnx_ml.rows import label_at
from onnx2torch_mlir.domains.ai_onnx_ml.scores import opposed, transformed


def verdict(
    g: ProgramBuilder,
    scores: Value,
    present: Value | None,
    labels: Sequence[int],
    base: Sequence[float],
    used: Sequence[int],
    positive: bool,
    post_transform: str,
) -> tuple[Value, Value]:
    """Labels [observations] and scores [observations, classes] in float32.

    ``scores`` [observations, classes] are sums; ``present`` (None: everywhere) says which classes got a weight at all. ``used``
    are the classes that leaves name, ``positive`` says that no weight is negative.

    Raises:
        Refusal: O2M-C005 for a count of ``base`` that ONNX does not allow, O2M-C003 where onnxruntime leaves scores undefined.
    """
    classes = len(labels)
    if len(base) not in ((0, classes) if classes != 2 else (0, 1, 2)):
        raise refuse("O2M-C005", f"{len(base)} base values for {classes} classes", case="base_values")
    offset = g.known(torch.tensor(list(base), dtype=scores.dtype)) if base else None
    if classes == 1:
        score = scores if offset is None else g.add(scores, offset)
        return _two_way(g, score, 0.0, (1, 0)), transformed(g, score, post_transform)
    if classes == 2:
        return _Binary(g, scores, present, labels, base, list(used), positive, post_transform).verdict()
    if offset is not None:
        scores, present = g.add(scores, offset), None
    ranked = scores if present is None else g.where(present, scores, g.scalar(float("-inf"), scores.dtype))
    label = label_at(g, labels, g.call("aten.argmax.default", ranked, 1, False))
    return label, transformed(g, scores, post_transform)


def _two_way(g: ProgramBuilder, score: Value, threshold: float, labels: tuple[int, int]) -> Value:
    """``labels[0]`` where ``score`` [observations, 1] is above the threshold, else ``labels[1]``."""
    above = g.reshape(g.binary("gt", score, threshold), [score.shape[0]])
    return g.where(above, g.scalar(labels[0], torch.int64), labels[1])


class _Binary:
    """Two classes: one score where only the first class got weights, two where the second did, decided per observation."""

    def __init__(
        self,
        g: ProgramBuilder,
        scores: Value,
        present: Value | None,
        labels: Sequence[int],
        base: Sequence[float],
        used: Sequence[int],
        positive: bool,
        post_transform: str,
    ) -> None:
        self.g = g
        self.first, self.second = g.slice(scores, 1, 0, 1), g.slice(scores, 1, 1, 2)
        self.present = present
        self.base = base
        self.single = len(used) == 1
        self.threshold = 0.5 if self.single and positive else 0.0
        self.labels = (labels[1], labels[0]) if self.single else (1, 0)
        self.complement = self.single and positive
        self.post_transform = post_transform
        self.has_second: Value | bool = 1 in used
        if present is not None and not self.single:
            self.has_second = g.slice(present, 1, 1, 2)

    def verdict(self) -> tuple[Value, Value]:
        """Labels and scores."""
        if isinstance(self.has_second, bool):
            decisive, pair = self._two() if self.has_second else self._one()
            return _two_way(self.g, decisive, self.threshold, self.labels), pair
        ours, theirs = self._two(), self._one()
        decisive, pair = (self.g.where(self.has_second, a, b) for a, b in zip(ours, theirs, strict=True))
        return _two_way(self.g, decisive, self.threshold, self.labels), pair

    def _two(self) -> tuple[Value, Value]:
        """The second class got weights: the deciding score, and both."""
        g = self.g
        first, second = self.first, self.second
        if len(self.base) == 2:
            second = g.add(first, self.base[1])
            first = g.unary("neg", second)
        elif self.base:
            first = g.add(first, self.base[0])
        return second, self._transformed(first, second)

    def _one(self) -> tuple[Value, Value]:
        """Only the first class got weights."""
        g = self.g
        if len(self.base) == 2:
            first = g.add(self.first, self.base[0])
            return first, self._transformed(first, g.add(self.second, self.base[1]))
        if self.base and not self.single:
            raise refuse(
                "O2M-C003", "one base value for two classes that both have weights leaves a score undefined", case="base_values"
            )
        first = g.add(self.first, self.base[0]) if self.base else self.first
        return first, opposed(g, first, self.post_transform, complement=self.complement)

    def _transformed(self, first: Value, second: Value) -> Value:
        """Both scores, 0 for a class without any weight."""
        pair = self.g.cat([first, second], 1)
        if self.present is not None:
            pair = self.g.where(self.present, pair, self.g.scalar(0.0, pair.dtype))
        return transformed(self.g, pair, self.post_transform)
