"""One step on the host: a few nodes, run by onnxruntime, or by ONNX's reference evaluator where that has no kernel."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.hosting.maps import TAKES_A_MAP, MapSession
from onnx2torch_mlir.hosting.partition import Segment
from onnx2torch_mlir.hosting.sessions import EvaluatorSession, HostSession, OnnxruntimeSession
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, extract, node_ref, values_read


@dataclass(frozen=True)
class _Piece:
    session: HostSession
    nodes: tuple[ir.Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class HostStep:
    """The nodes of ``segment`` of ``loaded``; ``types`` are those of values, by name.

    ``nodes`` are all of them, ``inputs`` and ``outputs`` the names of the values that come and go.
    """

    def __init__(self, loaded: LoadedModel, segment: Segment, types: Mapping[str, ValueType]) -> None:
        self.nodes = segment.nodes
        self.inputs, self.outputs = segment.inputs, segment.outputs
        self._loaded, self._types = loaded, types

    @functools.cached_property
    def _pieces(self) -> list[_Piece]:
        """Sessions that run one after the other: one for all nodes, or one for each where onnxruntime refuses some."""
        if any(map(_takes_a_map, self.nodes)):
            return [self._alone(node) for node in self.nodes]
        try:
            return [self._piece(self.nodes, self.inputs, self.outputs, OnnxruntimeSession)]
        except Exception:
            return [self._alone(node) for node in self.nodes]

    def _alone(self, node: ir.Node) -> _Piece:
        outer = [value for value in values_read(node) if value.name and not (value.is_initializer() and value.const_value)]
        inputs = tuple(value.name or "" for value in outer if not _is_constant(value))
        outputs = tuple(value.name for value in node.outputs if value.name)
        try:
            return self._piece((node,), inputs, outputs, MapSession if _takes_a_map(node) else OnnxruntimeSession)
        except Exception as error:
            why = _first_line(error)
        try:
            return self._piece((node,), inputs, outputs, EvaluatorSession)
        except Exception as error:
            reason = f"onnxruntime: {why}; onnx.reference: {_first_line(error)}"
            raise refuse("O2M-C012", reason, node=node_ref(node)) from error

    def _piece(self, nodes: tuple[ir.Node, ...], inputs: Sequence[str], outputs: Sequence[str], made_by: Any) -> _Piece:
        # Sizes are left out: those that ONNX infers are not always those that come.
        cuts = {name: _without_sizes(self._types[name]) if name in self._types else None for name in inputs}
        folder = self._loaded.base_dir
        proto = extract(self._loaded, outputs, inputs=cuts, weights="embed" if folder is None else "external")
        for value in proto.graph.output:
            if value.name in self._types:
                value.type.CopyFrom(_without_sizes(self._types[value.name]).to_proto())
        given = tuple(value.name for value in proto.graph.input)
        return _Piece(made_by(proto, folder), nodes, given, tuple(outputs))

    @property
    def names(self) -> tuple[str, ...]:
        """By what the nodes run, each once.

        Raises:
            Refusal: O2M-C012 where nothing on the host can run a node.
        """
        return tuple(dict.fromkeys(piece.session.name for piece in self._pieces))

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for ``values`` by name, which may be more than the inputs.

        Raises:
            Refusal: O2M-X002 where the nodes cannot be run on these values.
        """
        known = dict(values)
        for piece in self._pieces:
            try:
                results = piece.session.run({name: known[name] for name in piece.inputs})
            except Exception as error:
                reason = f"{piece.session.name}: {_first_line(error)}"
                raise refuse("O2M-X002", reason, node=node_ref(piece.nodes[0]), case="host") from error
            known.update(zip(piece.outputs, map(settled, results), strict=True))
        return {name: known[name] for name in self.outputs}


def _takes_a_map(node: ir.Node) -> bool:
    return node.domain == "ai.onnx.ml" and node.op_type in TAKES_A_MAP


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Constant" and not producer.domain


def _without_sizes(described: ValueType) -> ValueType:
    if described.kind is not Kind.TENSOR:
        return described
    return ValueType(described.name, Kind.TENSOR, described.dtype)


def settled(value: Any) -> Any:
    """A value in the form that all steps share: strings are object arrays of str."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "OSU":
        return value
    words = np.empty(value.shape, object)
    words.reshape(-1)[:] = [_word(item) for item in value.reshape(-1).tolist()]
    return words


def _word(item: Any) -> Any:
    return item.decode("utf-8") if isinstance(item, bytes) else item


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]



