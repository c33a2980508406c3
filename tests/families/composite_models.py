"""Models over sequences and optionals, converted once and run at several lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from onnx2torch_mlir.program.core_program import CoreProgram

OPSET = 18
F = TensorProto.FLOAT
I = TensorProto.INT64  # noqa: E741

Array = np.ndarray[Any, Any]


def tensor(name: str, shape: Sequence[Any] | None, dtype: int = F) -> onnx.ValueInfoProto:
    """A tensor."""
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence(name: str, shape: Sequence[Any] | None, dtype: int = F) -> onnx.ValueInfoProto:
    """A sequence of tensors."""
    return helper.make_tensor_sequence_value_info(name, dtype, shape)


def optional(inside: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """An optional of what ``inside`` describes."""
    return helper.make_value_info(inside.name, helper.make_optional_type_proto(inside.type))


def node(text: str, **attributes: Any) -> onnx.NodeProto:
    """``"a b = Op(c, d)"``."""
    outputs, _, call = text.partition("=")
    op, _, inputs = call.strip().rstrip(")").partition("(")
    names = [name.strip() for name in inputs.split(",")] if inputs else []
    return helper.make_node(op, names, outputs.split(), name=f"{op}_{outputs.split()[0]}", **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    **constants: Any,
) -> onnx.GraphProto:
    """A graph; ``constants`` become initializers."""
    held = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), held)


def program_of(body: onnx.GraphProto, opset: int = OPSET) -> CoreProgram:
    """The program of a graph."""
    program = convert(read(helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)))
    assert isinstance(program, CoreProgram)
    return program


class Runs:
    """A program compiled once, whose results are held against those in eager PyTorch and against expected values."""

    def __init__(self, body: onnx.GraphProto, opset: int = OPSET) -> None:
        self.program = program_of(body, opset)
        self.native = self.program.compile()
        self.eager = self.program.eager()

    def gives(self, inputs: Sequence[Any], expected: Sequence[Any]) -> None:
        """Both runs give ``expected`` for ``inputs``."""
        for runnable in (self.native, self.eager):
            results = runnable.run(list(inputs))
            assert len(results) == len(expected)
            for result, want in zip(results, expected, strict=True):
                same(result, want)


def same(result: Any, want: Any) -> None:
    """Equal lists, arrays (in shape, dtype and contents) or both absent."""
    assert isinstance(result, list) == isinstance(want, list)
    if isinstance(want, list):
        assert len(result) == len(want)
        for one, other in zip(result, want, strict=True):
            same(one, other)
    elif want is None:
        assert result is None
    else:
        want = np.asarray(want)
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(result, want)
