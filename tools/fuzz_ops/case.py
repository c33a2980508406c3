"""A drawn case: one node with its inputs, as plain data, and the model of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx2torch_mlir.specs import DEFAULT_DOMAIN

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Given:
    """An input: its array, its dims as the model declares them (numbers or names), or ``known``: an initializer."""

    array: Array
    dims: tuple[int | str, ...]
    known: bool = False


@dataclass(frozen=True)
class Case:
    """One node of ``domain``'s operator ``op`` at ``opset``; absent inputs are None, absent outputs False."""

    domain: str
    op: str
    opset: int
    inputs: tuple[Given | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[bool, ...] = (True,)
    dtype: str = ""

    @property
    def dynamic(self) -> bool:
        """Whether some input has a symbolic dim."""
        return any(isinstance(dim, str) for item in self.inputs if item is not None and not item.known for dim in item.dims)

    @property
    def types(self) -> set[str]:
        """ONNX's names of the inputs' element types."""
        given = [item.array.dtype for item in self.inputs if item is not None]
        return {onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype)).lower() for dtype in given}

    @property
    def size(self) -> int:
        """How large the case is; a smaller one is the better reproducer."""
        given = [item for item in self.inputs if item is not None]
        names = sum(isinstance(dim, str) for item in given for dim in item.dims)
        elements = sum(item.array.size + 2 * item.array.ndim for item in given)
        return elements + names + 3 * len(given) + 3 * len(self.attributes) + sum(self.outputs)

    def feeds(self) -> dict[str, Array]:
        """The arrays of the run-time inputs by name."""
        items = enumerate(self.inputs)
        return {f"in{index}": item.array for index, item in items if item is not None and not item.known}

    def model(self) -> onnx.ModelProto:
        """The model of one node; the outputs have the element types that ONNX infers, and no declared shapes."""
        domain = "" if self.domain == DEFAULT_DOMAIN else self.domain
        names = [f"in{index}" if item is not None else "" for index, item in enumerate(self.inputs)]
        results = [f"out{index}" if wanted else "" for index, wanted in enumerate(self.outputs)]
        node = helper.make_node(self.op, names, results, name=f"{self.op}_node", domain=domain, **self.attributes)
        formals, initializers = [], []
        for name, item in zip(names, self.inputs, strict=True):
            if item is None:
                continue
            if item.known:
                initializers.append(numpy_helper.from_array(item.array, name))
            else:
                element = helper.np_dtype_to_tensor_dtype(item.array.dtype)
                formals.append(helper.make_tensor_value_info(name, element, list(item.dims)))
        declared = [helper.make_empty_tensor_value_info(name) for name in results if name]
        graph = helper.make_graph([node], "one_node", formals, declared, initializers)
        imports = [helper.make_opsetid(domain, self.opset)]
        if domain:
            imports.append(helper.make_opsetid("", 21))
        model = helper.make_model(graph, opset_imports=imports)
        model.ir_version = max(4, min(helper.find_min_ir_version_for(imports, ignore_unknown=True), 13))
        return _typed(model)

    def command(self) -> str:
        """The case in one line, for reports."""
        parts = []
        for item in self.inputs:
            if item is None:
                parts.append("-")
                continue
            shape = list(item.dims if not item.known else item.array.shape)
            content = f"={item.array.tolist()}" if item.array.size <= 6 else ""
            parts.append(f"{'const ' if item.known else ''}{item.array.dtype}{list(item.array.shape) or ''}{content}")
            if not item.known and shape != list(item.array.shape):
                parts[-1] += " symbolic"
        attributes = ", ".join(f"{key}={value!r}" for key, value in self.attributes.items())
        wanted = "" if self.outputs == (True,) else f" -> {sum(self.outputs)} outputs"
        return f"{self.op}-{self.opset}({', '.join(parts)}{'; ' if attributes else ''}{attributes}){wanted}"


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        return model
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        element = known.type.tensor_type.elem_type
        if element:
            value.type.tensor_type.elem_type = element
    return model


def named_dims(index: int, shape: Sequence[int], symbolic: Sequence[bool]) -> tuple[int | str, ...]:
    """The dims of input ``index``: a name of its own where ``symbolic``, else the size."""
    return tuple(f"d{index}_{axis}" if name else size for axis, (size, name) in enumerate(zip(shape, symbolic, strict=True)))
