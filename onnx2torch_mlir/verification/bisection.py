"""The first node whose value differs from the reference's while its inputs agree.

Values inside the model are made outputs, on both sides, and compared. The search narrows from the whole model to one
node by exposing the values of up to `WIDTH` nodes at a time, so that a model of n nodes takes about log(n) / log(WIDTH)
compilations, and memory for so many values. What is found is tried alone, on the reference's own inputs: that tells a wrong
node from errors that only add up. A node with a sub-graph is entered: the runs of its body are compared one by one, from the
reference's values, and the search goes on in the first that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx2torch_mlir.conversion import as_tensors
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.diagnostics.codes import Stage
from onnx2torch_mlir.model import (
    Kind,
    LoadedModel,
    ValueType,
    expand_functions,
    extract,
    graph_model,
    node_ref,
    one_node_model,
    read,
    sub_graphs,
    value_type_of,
    values_read,
    walk,
)
from onnx2torch_mlir.program import prepare
from onnx2torch_mlir.specs import SpecTable
from onnx2torch_mlir.verification.bodies import BodyRun, body_runs, type_of
from onnx2torch_mlir.verification.comparison import Comparison, Limits, compare_values, not_computed
from onnx2torch_mlir.verification.divergence import Divergence, Turn
from onnx2torch_mlir.verification.reference import run_reference

WIDTH = 128

_COMPARED = (Kind.TENSOR, Kind.SEQUENCE, Kind.OPTIONAL, Kind.MAP, Kind.UNKNOWN)


def bisect(
    loaded: LoadedModel,
    feeds: Mapping[str, Any],
    *,
    constants: Mapping[str, Any] | None = None,
    eager: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: int | None = None,
    failing: bool = True,
    table: SpecTable | None = None,
) -> Divergence | None:
    """The first node of ``loaded`` that differs on ``feeds``, functions expanded; None where none does.

    ``constants`` are inputs whose contents are known when our program is made. The limits are those of `verify`. A node that
    our side fails to compute differs, unless ``failing`` says that such a failure is to be raised.

    Raises:
        Refusal: O2M-V002 where the reference cannot run the model with its inner values as outputs; what the
            conversion of the model refuses.
    """
    loaded = expand_functions(loaded)
    ours = _Ours(eager, table, constants or {})
    found = _Search(loaded, {**feeds, **(constants or {})}, ours, Limits(rtol, atol, ulp)).run(failing)
    if found is None:
        return None
    places = {node.name: node_ref(node) for node in walk(loaded.ir.graph)}  # parts of the model are numbered otherwise
    within = tuple(replace(turn, node=places.get(turn.node.name, turn.node)) for turn in found.within)
    return replace(found, node=places.get(found.node.name, found.node), within=within)


@dataclass
class _Ours:
    """Our side: how parts of the model are run; ``rounds`` counts how many were compiled."""

    eager: bool
    table: SpecTable | None
    constants: Mapping[str, Any]
    rounds: int = 0

    def program(self, part: LoadedModel) -> Callable[[Mapping[str, Any]], list[Any]]:
        """``part`` as a function of the values of its inputs, by name."""
        names = [value.name for value in part.inputs]
        constants = {name: self.constants[name] for name in names if name in self.constants}
        prepared = prepare(part, eager=self.eager, table=self.table, constants=as_tensors(constants))
        self.rounds += 1
        return lambda feeds: prepared.run({name: feeds[name] for name in names if name not in constants})


class _Search:
    def __init__(self, loaded: LoadedModel, feeds: Mapping[str, Any], ours: _Ours, limits: Limits) -> None:
        self.loaded, self.feeds, self.ours, self.limits = loaded, feeds, ours, limits
        self.weights: Any = "embed" if loaded.base_dir is None else "external"
        self.compared: dict[str, Comparison | None] = {}
        self.reference: dict[str, Any] = {}
        needed = _needed(loaded.ir.graph)
        self.nodes = [node for node in loaded.ir.graph if node in needed and _outputs(node)]

    def run(self, failing: bool = True) -> Divergence | None:
        wanted = [value.name or "" for value in self.loaded.ir.graph.outputs if value.producer() is not None]
        low, high = 0, len(self.nodes)
        try:
            self._compare_at_once(list(dict.fromkeys(wanted)))
        except Refusal as refusal:
            if not failing or any(finding.stage is not Stage.RUN for finding in refusal.findings):
                raise
            return self._failing(refusal)
        found: int | None = None
        while low < high:
            step = max(1, -(-(high - low) // WIDTH))
            picked = [*range(low + step - 1, high - 1, step), high - 1]
            self._compare([name for index in picked for name in _outputs(self.nodes[index])])
            wrong = next((index for index in picked if self._first_wrong(self.nodes[index]) is not None), None)
            if wrong is None:
                break
            low = max([index + 1 for index in picked if index < wrong], default=low)
            high = wrong
            found = wrong
        return None if found is None else self._divergence(self._upwards(self.nodes[found]))

    def _failing(self, refusal: Refusal) -> Divergence | None:
        """The first node that differs, or else the one that our side fails to compute; by halving, as a part fails where a
        node of it does."""
        low, high = 0, len(self.nodes)
        while high - low > 1:
            middle = (low + high) // 2
            part = self.nodes[low:middle]
            try:
                self._compare_at_once([name for node in part for name in _outputs(node)])
            except Refusal as failure:
                high, refusal = middle, failure
                continue
            wrong = next((node for node in part if self._first_wrong(node) is not None), None)
            if wrong is not None:
                return self._divergence(self._upwards(wrong))
            low = middle
        if low == high:
            return None
        node = self.nodes[low]
        for name in _outputs(node):
            self.compared[name] = not_computed(name, self.reference.get(name), refusal.findings[0].reason)
        return self._divergence(node)

    def _first_wrong(self, node: ir.Node) -> str | None:
        return next((name for name in _outputs(node) if (c := self.compared.get(name)) is not None and not c.agrees), None)

    def _upwards(self, node: ir.Node) -> ir.Node:
        """From a node that differs to one that does while everything it reads agrees."""
        while True:
            before = [value.producer() for value in values_read(node)]
            names = [name for producer in before if producer is not None for name in _outputs(producer)]
            self._compare([name for name in names if name not in self.compared])
            worse = next((p for p in before if p is not None and self._first_wrong(p) is not None), None)
            if worse is None:
                return node
            node = worse

    def _compare(self, names: Sequence[str]) -> None:
        """Both sides' values of ``names``, as outputs of one model each; a value that cannot be one is not compared."""
        names = [name for name in dict.fromkeys(names) if name and name not in self.compared]
        if not names:
            return
        try:
            self._compare_at_once(names)
        except Refusal:
            if len(names) == 1:
                self.compared[names[0]] = None
                return
            self._compare(names[: len(names) // 2])
            self._compare(names[len(names) // 2 :])

    def _compare_at_once(self, names: Sequence[str]) -> None:
        proto = extract(self.loaded, names, weights=self.weights)
        base = self.loaded.base_dir
        theirs = run_reference(proto, self.feeds, base_dir=base).outputs
        self.reference.update(zip(names, theirs, strict=True))
        part = read(proto, base_dir=base)
        ours = self.ours.program(part)(self.feeds)
        for name, value in zip(names, ours, strict=True):
            self.compared[name] = self._worst(name, value, self.reference[name])

    def _worst(self, name: str, ours: Any, theirs: Any) -> Comparison | None:
        found = compare_values(name, ours, theirs, *self.limits)
        return next((item for item in found if not item.agrees), found[0] if found else None)

    # --- what was found -----------------------------------------------------------------------------------------------

    def _divergence(self, node: ir.Node) -> Divergence:
        name = self._first_wrong(node) or ""
        comparison = self.compared[name]
        assert comparison is not None
        values = self._values(node)
        inner = self._inside(node, values)
        if isinstance(inner, Divergence):
            return inner
        reads = {item.name or "": values[item.name or ""] for item in values_read(node) if not item.is_initializer()}
        held = {name: value for name, value in reads.items() if value is not None}
        types = {name: _type(name, value) for name, value in held.items()}
        model = one_node_model(self.loaded, node, types=types, weights=self.weights)
        alone = None
        try:
            part = read(model, base_dir=self.loaded.base_dir)
            theirs = run_reference(model, held, base_dir=self.loaded.base_dir).outputs
            ours = self.ours.program(part)(held)
            index = [value.name for value in part.outputs].index(name)
            alone = self._worst(name, ours[index], theirs[index])
        except Refusal:
            pass
        return Divergence(node_ref(node), name, comparison, alone, self.ours.rounds, model, held, turns=inner)

    def _values(self, node: ir.Node) -> dict[str, Any]:
        """The reference's values of what ``node`` reads, initializers left out."""
        reads = [value for value in values_read(node) if not value.is_initializer()]
        missing = [value.name or "" for value in reads if value.producer() is not None]
        missing = [name for name in missing if name not in self.reference]
        if missing:
            proto = extract(self.loaded, missing, weights=self.weights)
            theirs = run_reference(proto, self.feeds, base_dir=self.loaded.base_dir).outputs
            self.reference.update(zip(missing, theirs, strict=True))
        known = {**self.reference, **self.feeds}
        return {value.name or "": known.get(value.name or "") for value in reads}

    def _inside(self, node: ir.Node, values: Mapping[str, Any]) -> Divergence | int | None:
        """The first difference in the sub-graph of ``node``, else how many runs of it agree; None where none can be run."""
        body = _Body(self)
        count = 0
        try:
            for run in body_runs(self.loaded, node, values):
                if not body.agrees(run):
                    return self._search_body(node, run)
                count += 1
        except Exception:  # a body that one side cannot run by itself: the node as a whole is what can be said
            return None
        return count if any(sub_graphs(attribute) for attribute in node.attributes.values()) else None

    def _search_body(self, node: ir.Node, run: BodyRun) -> Divergence | None:
        types = {name: _type(name, value) for name, value in run.feeds.items()}
        part = read(graph_model(self.loaded, run.graph, types, weights=self.weights), base_dir=self.loaded.base_dir)
        found = _Search(part, run.feeds, self.ours, self.limits).run()
        if found is None:
            return None
        return replace(found, within=(Turn(node_ref(node), run.label), *found.within))


class _Body:
    """Our program of a sub-graph, compiled again only where a size changes that was the same in all runs before."""

    def __init__(self, search: _Search) -> None:
        self.search = search
        self.shapes: dict[str, tuple[int | None, ...]] = {}
        self.program: Callable[[Mapping[str, Any]], list[Any]] | None = None

    def agrees(self, run: BodyRun) -> bool:
        """Whether all outputs of the run agree."""
        if self._widen(run.feeds) or self.program is None:
            self.program = self._prepared(run)
        ours = self.program(run.feeds)
        outputs = [value.name or "" for value in run.graph.outputs]
        found = (self.search._worst(*item) for item in zip(outputs, ours, run.outputs, strict=True))
        return all(item is None or item.agrees for item in found)

    def _widen(self, feeds: Mapping[str, Any]) -> bool:
        changed = False
        for name, value in feeds.items():
            if isinstance(value, list):
                continue
            shape: tuple[int | None, ...] = np.shape(value)
            before = self.shapes.setdefault(name, shape)
            merged = tuple(a if a == b else None for a, b in zip(before, shape, strict=True)) if before != shape else before
            changed |= merged != before
            self.shapes[name] = merged
        return changed

    def _prepared(self, run: BodyRun) -> Callable[[Mapping[str, Any]], list[Any]]:
        loaded = self.search.loaded
        types = {name: type_of(name, value, self.shapes.get(name)) for name, value in run.feeds.items()}
        proto = graph_model(loaded, run.graph, types, weights=self.search.weights)
        return self.search.ours.program(read(proto, base_dir=loaded.base_dir))


def _needed(graph: ir.Graph) -> set[ir.Node]:
    """The nodes that outputs depend on: others may do what they like."""
    found: set[ir.Node] = set()
    open_values = list(graph.outputs)
    while open_values:
        node = open_values.pop().producer()
        if node is not None and node not in found:
            found.add(node)
            open_values += values_read(node)
    return found


def _outputs(node: ir.Node) -> list[str]:
    return [value.name for value in node.outputs if value.name and value_type_of(value).kind in _COMPARED]


def _type(name: str, value: Any) -> ValueType:
    return type_of(name, value, np.shape(value) if not isinstance(value, list) else None)


