"""Nodes, graphs and types in few words, for the bodies and the surroundings of drawn nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper


def node(text: str, **attributes: Any) -> onnx.NodeProto:
    """``"a, b = Op(c, d)"``."""
    outputs, _, call = text.partition(" = ")
    op, _, inputs = call.rstrip(")").partition("(")
    names = [name.strip() for name in inputs.split(",")] if inputs.strip() else []
    made = [name.strip() for name in outputs.split(",")]
    return helper.make_node(op, names, made, name=f"{op}_{made[0]}", **attributes)


def constant(name: str, array: Any) -> onnx.NodeProto:
    """A Constant."""
    return node(f"{name} = Constant()", value=onnx.numpy_helper.from_array(np.asarray(array), f"{name}_value"))


def element(kind: str) -> int:
    """The number of an ONNX type name such as "float"."""
    return int(onnx.TensorProto.DataType.Value(kind.upper()))


def tensor_type(kind: str, dims: Sequence[int | str | None] | None) -> onnx.TypeProto:
    """The type of a tensor; of any rank without ``dims``."""
    return helper.make_tensor_type_proto(element(kind), dims)


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[tuple[str, onnx.TypeProto]], outputs: Sequence[tuple[str, onnx.TypeProto]]
) -> onnx.GraphProto:
    """A graph of the nodes."""
    formals, results = ([onnx.ValueInfoProto(name=name, type=kind) for name, kind in each] for each in (inputs, outputs))
    return helper.make_graph(list(nodes), "body", formals, results)
