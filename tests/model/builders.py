"""Small models, right and wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def info(
    name: str, shape: Sequence[int | str | None] | None = (2,), dtype: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Inputs and outputs are written apart by blanks; ``_`` is an absent one."""
    names = [["" if part == "_" else part for part in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)


def const(name: str, values: Any, dtype: Any = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def tensor(name: str = "w", data_type: int = TensorProto.FLOAT, dims: Sequence[int] = (2,), **data: Any) -> TensorProto:
    return TensorProto(name=name, data_type=data_type, dims=dims, **data)


def external(
    name: str = "w", dims: Sequence[int] = (2,), data_type: int = TensorProto.FLOAT, **entries: Any
) -> TensorProto:
    proto = TensorProto(name=name, data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] = (),
    initializers: Sequence[TensorProto] = (),
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))


def model(
    nodes: Sequence[onnx.NodeProto] = (),
    *,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    initializers: Sequence[TensorProto] = (),
    opsets: Sequence[tuple[str, int]] = (("", 17),),
    functions: Sequence[onnx.FunctionProto] = (),
    ir_version: int = 10,
) -> onnx.ModelProto:
    """By default x -> y, both float[2], through Relu."""
    proto = onnx.ModelProto(ir_version=ir_version)
    proto.graph.CopyFrom(
        graph(
            nodes or [node("Relu", "x", "y")],
            [info("x")] if inputs is None else inputs,
            [info("y")] if outputs is None else outputs,
            initializers,
        )
    )
    for domain, version in opsets:
        proto.opset_import.add(domain=domain, version=version)
    proto.functions.extend(functions)
    return proto


def function(
    name: str,
    inputs: str,
    outputs: str,
    nodes: Sequence[onnx.NodeProto],
    opsets: Sequence[tuple[str, int]] = (("", 17), ("my", 1)),
    **more: Any,
) -> onnx.FunctionProto:
    """A function of the domain ``my``."""
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return helper.make_function("my", name, inputs.split(), outputs.split(), list(nodes), imports, **more)


def refer(to: onnx.NodeProto, attribute: str, parameter: str, kind: int = onnx.AttributeProto.FLOAT) -> onnx.NodeProto:
    """``to`` with an attribute that refers to a parameter of the function around it."""
    to.attribute.add(name=attribute, ref_attr_name=parameter, type=kind)
    return to


MY = (("", 17), ("my", 1))
