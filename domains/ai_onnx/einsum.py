"""Einsum of any number of operands, as sums, diagonals and matrix products of pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Refusal, refuse
from onnx2torch_mlir.families import wide

ELLIPSIS = "..."


@dataclass(frozen=True)
class Term:
    """An operand with one label per axis; axes of the ellipsis are labelled by their place from the right."""

    value: Value
    labels: tuple[str, ...]

    def size(self, label: str) -> Dim:
        """The size of a label's axis."""
        return self.value.shape[self.labels.index(label)]


def einsum(g: ProgramBuilder, *inputs: Value, equation: str) -> Value:
    """Products of elements with equal labels, summed over the labels that the result does not have.

    Source: https://onnx.ai/onnx/operators/onnx__Einsum.html.

    Raises:
        Refusal: O2M-C005 where the equation is not well formed, O2M-C006 where it does not fit the operands.
    """
    inside, arrow, outside = equation.replace(" ", "").partition("->")
    texts = inside.split(",")
    if len(texts) != len(inputs):
        raise _bad(equation, f"it has {len(texts)} terms for {len(inputs)} operands")
    dtype = inputs[0].dtype
    labels = [_labels(text, value.rank, equation) for text, value in zip(texts, inputs, strict=True)]
    terms = [Term(wide.widen(g, value), item) for value, item in zip(inputs, labels, strict=True)]
    output = _output(outside, terms, equation) if arrow else _implicit(terms)
    terms = _without_ones([_diagonal(g, term) for term in terms])
    result = terms[0]
    for index, term in enumerate(terms[1:], start=1):
        later = {label for other in terms[index + 1 :] for label in other.labels} | set(output)
        left, right = _summed(g, result, later | set(term.labels)), _summed(g, term, later | set(result.labels))
        result = _pair(g, left, right, later)
    result = _summed(g, result, set(output))
    order = [result.labels.index(label) for label in output]
    return wide.narrow(g, g.permute(result.value, order), dtype)


def _bad(equation: str, reason: str) -> Refusal:
    return refuse("O2M-C005", f"equation {equation!r}: {reason}", case="equation")


def _split(text: str, equation: str) -> list[str]:
    """``text`` as labels, with the ellipsis as one of them."""
    before, dots, after = text.partition(ELLIPSIS)
    labels = [*before, *([ELLIPSIS] if dots else []), *after]
    if any(label != ELLIPSIS and not (label.isascii() and label.isalpha()) for label in labels):
        raise _bad(equation, f"{text!r} is no term")
    return labels


def _labels(text: str, rank: int, equation: str) -> tuple[str, ...]:
    labels = _split(text, equation)
    covered = rank - len(labels) + (ELLIPSIS in labels)
    if covered < 0 or (covered and ELLIPSIS not in labels):
        reason = f"equation {equation!r}: {text!r} does not fit an operand of rank {rank}"
        raise refuse("O2M-C006", reason, case="equation")
    if ELLIPSIS not in labels:
        return tuple(labels)
    place = labels.index(ELLIPSIS)
    return (*labels[:place], *_dots(covered), *labels[place + 1 :])


def _dots(count: int) -> tuple[str, ...]:
    return tuple(f"{ELLIPSIS}{place}" for place in reversed(range(count)))


def _all_dots(terms: list[Term]) -> tuple[str, ...]:
    return _dots(max(sum(label.startswith(ELLIPSIS) for label in term.labels) for term in terms))


def _implicit(terms: list[Term]) -> tuple[str, ...]:
    counts = Counter(label for term in terms for label in term.labels if not label.startswith(ELLIPSIS))
    return (*_all_dots(terms), *sorted(label for label, count in counts.items() if count == 1))


def _output(text: str, terms: list[Term], equation: str) -> tuple[str, ...]:
    labels = _split(text, equation)
    known = {label for term in terms for label in term.labels} | {ELLIPSIS}
    if len(set(labels)) != len(labels) or not set(labels) <= known:
        raise _bad(equation, f"{text!r} repeats a label or has one that no operand has")
    return tuple(part for label in labels for part in (_all_dots(terms) if label == ELLIPSIS else (label,)))


def _diagonal(g: ProgramBuilder, term: Term) -> Term:
    """Axes of one label merged into their diagonal."""
    value, labels = term.value, list(term.labels)
    while len(set(labels)) < len(labels):
        first = next(axis for axis, label in enumerate(labels) if labels.count(label) > 1)
        second = labels.index(labels[first], first + 1)
        g.require_equal(value.shape[first], value.shape[second], f"sizes of axes labelled {labels[first]}")
        rest = [axis for axis in range(value.rank) if axis not in (first, second)]
        places = g.arange(0, value.shape[first])
        value = g.call("aten.index.Tensor", g.permute(value, [first, second, *rest]), [places, places])
        labels = [labels[first], *(labels[axis] for axis in rest)]
    return Term(value, tuple(labels))


def _without_ones(terms: list[Term]) -> list[Term]:
    """Axes of size 1 dropped where another operand's axis of that label is longer: they broadcast."""
    longer = {label for term in terms for label in term.labels if term.size(label) != 1}
    result = []
    for term in terms:
        axes = [axis for axis, label in enumerate(term.labels) if label in longer and term.value.shape[axis] == 1]
        value = term.value
        if axes:
            value = value.builder.squeeze(value, axes)
        result.append(Term(value, tuple(label for axis, label in enumerate(term.labels) if axis not in axes)))
    return result


def _summed(g: ProgramBuilder, term: Term, keep: set[str]) -> Term:
    axes = [axis for axis, label in enumerate(term.labels) if label not in keep]
    return Term(g.sum(term.value, axes), tuple(label for label in term.labels if label in keep))


def _pair(g: ProgramBuilder, a: Term, b: Term, keep: set[str]) -> Term:
    """One product; labels of both operands that ``keep`` lacks are summed."""
    shared = [label for label in a.labels if label in b.labels]
    for label in shared:
        g.require_equal(a.size(label), b.size(label), f"sizes of axes labelled {label}")
    batch = [label for label in shared if label in keep]
    inner = [label for label in shared if label not in keep]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    sizes = [*[a.size(label) for label in (*batch, *rows)], *[b.size(label) for label in columns]]
    left, right = _arranged(g, a, (batch, rows, inner)), _arranged(g, b, (batch, inner, columns))
    if not inner:
        left = g.reshape(left, [left.shape[0], left.shape[1], 1])
        product = g.mul(left, g.reshape(right, [right.shape[0], 1, right.shape[2]]))
    elif batch:
        product = g.matmul(left, right)
    else:
        product = g.matmul(g.reshape(left, left.shape[1:]), g.reshape(right, right.shape[1:]))
    return Term(g.reshape(product, sizes), (*batch, *rows, *columns))


def _arranged(g: ProgramBuilder, term: Term, groups: tuple[list[str], ...]) -> Value:
    """The operand with its axes in the order of ``groups``, each group one axis."""
    order = [term.labels.index(label) for group in groups for label in group]
    return g.reshape(g.permute(term.value, order), [D.product(term.size(label) for label in group) for group in groups])
