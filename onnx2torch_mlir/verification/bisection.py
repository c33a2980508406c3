"""The first node whose value differs from the reference's while its inputs agree.

Values inside the model are made outputs, on both sides, and compared. The search narrows from the whole model to one
node by exposing up to `WIDTH` values at a time, so that a native model of n nodes takes about log(n) / log(WIDTH)
compilations; in eager PyTorch exposing costs nothing, and one run has them all. What is found is tried alone, on the
reference's own inputs: that tells a wrong node from errors that only add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import NodeRef, Refusal
from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.model import (
    Kind,
    LoadedModel,
    ValueType,
    expand_functions,
    extract,
    node_ref,
    one_node_model,
    read,
    value_type_of,
)
from onnx2torch_mlir.program import prepare
from onnx2torch_mlir.specs import SpecTable
from onnx2torch_mlir.verification.comparison import Comparison, compare
from onnx2torch_mlir.verification.reference import run_reference

WIDTH = 64


@dataclass(frozen=True)
class Divergence:
    """A node whose result differs although what it reads agrees.

    ``value`` is its first output that differs, compared in ``comparison``. ``alone`` compares the same output when
    the node runs by itself on the reference's inputs (None where that could not be done); if it agrees, the node is
    not wrong but passes on differences of its inputs that are within their tolerance. ``model`` is the node alone,
    ``inputs`` what the reference gives it. ``rounds`` is the number of times that a part of the model was compiled.
    """

    node: NodeRef
    value: str
    comparison: Comparison
    alone: Comparison | None
    rounds: int
    model: onnx.ModelProto | None = None
    inputs: Mapping[str, Array] | None = None

    @property
    def is_wrong_alone(self) -> bool:
        """Whether the node differs by itself too."""
        return self.alone is None or not self.alone.agrees

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "node": asdict(self.node),
            "value": self.value,
            "comparison": self.comparison.as_dict(),
            "alone": None if self.alone is None else self.alone.as_dict(),
            "rounds": self.rounds,
        }

    def __str__(self) -> str:
        lines = [
            f"first node that differs: {self.node}",
            f"  {self.comparison.reason()}",
            f"  ours:      {self.comparison.ours}",
            f"  reference: {self.comparison.theirs}",
        ]
        if self.alone is not None:
            told = "agrees: its inputs' differences add up" if self.alone.agrees else "differs as well"
            lines.append(f"  the node alone, on the reference's inputs, {told}")
        return "\n".join(lines)


def bisect(
    loaded: LoadedModel,
    feeds: Mapping[str, Array],
    *,
    eager: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    table: SpecTable | None = None,
) -> Divergence | None:
    """The first node of ``loaded`` that differs on ``feeds``, functions expanded; None where none does.

    Raises:
        Refusal: O2M-V002 where the reference cannot run the model with its inner values as outputs; what the
            conversion of the model refuses.
    """
    return _Search(expand_functions(loaded), feeds, eager, rtol, atol, table).run()


class _Search:
    def __init__(
        self,
        loaded: LoadedModel,
        feeds: Mapping[str, Array],
        eager: bool,
        rtol: float | None,
        atol: float | None,
        table: SpecTable | None,
    ) -> None:
        self.loaded, self.feeds, self.eager = loaded, feeds, eager
        self.rtol, self.atol, self.table = rtol, atol, table
        self.weights: Any = "embed" if loaded.base_dir is None else "external"
        self.compared: dict[str, Comparison] = {}
        self.reference: dict[str, Any] = {}
        self.rounds = 0
        self.nodes = [node for node in loaded.ir.graph if any(_is_tensor(value) for value in node.outputs)]

    def run(self) -> Divergence | None:
        wanted = [value.name or "" for value in self.loaded.ir.graph.outputs if value.producer() is not None]
        low, high = 0, len(self.nodes)
        self._compare(wanted)
        found: int | None = None
        while low < high:
            step = max(1, -(-(high - low) // (len(self.nodes) if self.eager else WIDTH)))
            picked = [*range(low + step - 1, high - 1, step), high - 1]
            self._compare([name for index in picked for name in _outputs(self.nodes[index])])
            wrong = next((index for index in picked if self._first_wrong(self.nodes[index]) is not None), None)
            if wrong is None:
                break
            low = max([index + 1 for index in picked if index < wrong], default=low)
            high = wrong
            found = wrong
        return None if found is None else self._divergence(self._upwards(self.nodes[found]))

    def _first_wrong(self, node: ir.Node) -> str | None:
        names = _outputs(node)
        return next((name for name in names if name in self.compared and not self.compared[name].agrees), None)

    def _upwards(self, node: ir.Node) -> ir.Node:
        """From a node that differs to one that does while everything it reads agrees."""
        while True:
            before = [value.producer() for value in _reads(node)]
            names = [name for producer in before if producer is not None for name in _outputs(producer)]
            self._compare([name for name in names if name not in self.compared])
            worse = next((p for p in before if p is not None and self._first_wrong(p) is not None), None)
            if worse is None:
                return node
            node = worse

    def _compare(self, names: Sequence[str]) -> None:
        """Both sides' values of ``names``, as outputs of one model each."""
        names = [name for name in dict.fromkeys(names) if name and name not in self.compared]
        if not names:
            return
        proto = extract(self.loaded, names, weights=self.weights)
        base = self.loaded.base_dir
        theirs = run_reference(proto, self.feeds, base_dir=base).outputs
        self.reference.update(zip(names, theirs, strict=True))
        kept = [name for name in names if isinstance(self.reference[name], np.ndarray)]
        if kept != names:
            proto = extract(self.loaded, kept, weights=self.weights)
        part = read(proto, base_dir=base)
        self.rounds += 1
        program = prepare(part, eager=self.eager, table=self.table)
        ours = program.run([self.feeds[value.name] for value in part.inputs])
        for name, value in zip(kept, ours, strict=True):
            self.compared[name] = compare(name, value, self.reference[name], self.rtol, self.atol)

    def _divergence(self, node: ir.Node) -> Divergence:
        name = self._first_wrong(node) or ""
        model, inputs = self._alone(node)
        alone = None
        try:
            part = read(model, base_dir=self.loaded.base_dir)
            theirs = run_reference(model, inputs, base_dir=self.loaded.base_dir).outputs
            ours = prepare(part, eager=self.eager, table=self.table).run([inputs[value.name] for value in part.inputs])
            index = [value.name for value in part.outputs].index(name)
            alone = compare(name, ours[index], theirs[index], self.rtol, self.atol)
        except Refusal:
            pass
        return Divergence(node_ref(node), name, self.compared[name], alone, self.rounds, model, inputs)

    def _alone(self, node: ir.Node) -> tuple[onnx.ModelProto, dict[str, Array]]:
        reads = [value for value in _reads(node) if not (value.is_initializer() and value.const_value is not None)]
        missing = [value.name or "" for value in reads if value.producer() is not None]
        missing = [name for name in missing if name not in self.reference]
        if missing:
            proto = extract(self.loaded, missing, weights=self.weights)
            theirs = run_reference(proto, self.feeds, base_dir=self.loaded.base_dir).outputs
            self.reference.update(zip(missing, theirs, strict=True))
        inputs = {
            name: self.feeds.get(name, self.reference.get(name)) for name in (value.name or "" for value in reads)
        }
        arrays = {name: array for name, array in inputs.items() if isinstance(array, np.ndarray)}
        types = {
            name: ValueType(name, Kind.TENSOR, ir.DataType.from_numpy(array.dtype), tuple(array.shape))
            for name, array in arrays.items()
        }
        return one_node_model(self.loaded, node, types=types, weights=self.weights), arrays


def _outputs(node: ir.Node) -> list[str]:
    return [value.name for value in node.outputs if value.name and _is_tensor(value)]


def _is_tensor(value: ir.Value) -> bool:
    return bool(value.name) and value_type_of(value).kind in (Kind.TENSOR, Kind.UNKNOWN)


def _reads(node: ir.Node) -> list[ir.Value]:
    """What ``node`` and its sub-graphs read."""
    values = [value for value in node.inputs if value is not None]
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            graph = attribute.as_graph()
            inner = {*graph.inputs, *graph.initializers.values(), *(v for child in graph for v in child.outputs)}
            values += [value for child in graph for value in _reads(child) if value not in inner]
    return list(dict.fromkeys(values))
