"""A drawn case: one node with its inputs, as plain data, and the model of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx2torch_mlir.specs import DEFAULT_DOMAIN

Array = np.ndarray[Any, Any]

ADDED = "com.microsoft.onnx"
"""The ledger's name of what onnxruntime adds to the default domain; its nodes are of that domain."""


@dataclass(frozen=True)
class Given:
    """An input: its array, its dims as the model declares them (numbers or names), or ``known``: an initializer.

    With a ``type`` it is no tensor: a list (of a sequence), a dict (of a map), or None (an optional without a value).
    """

    array: Any
    dims: tuple[int | str, ...]
    known: bool = False
    type: onnx.TypeProto | None = None

    def arrays(self) -> Iterator[Array]:
        """The arrays it holds."""
        items = self.array if isinstance(self.array, list) else [] if self.array is None else [self.array]
        for item in items:
            array = np.asarray(list(item.values()) if isinstance(item, dict) else item)
            yield array.astype(object) if array.dtype.kind == "U" else array


@dataclass(frozen=True)
class Surroundings:
    """What else the model of a case holds: more ``inputs`` by name, nodes ``before`` and ``after`` the node.

    ``links`` names what the node reads at a place where the case has no input; ``results`` are the model's outputs, if they
    are not the node's. ``opset`` is that of the default domain, where it is not the one that goes by itself.
    """

    inputs: tuple[tuple[str, Given], ...] = ()
    before: tuple[onnx.NodeProto, ...] = ()
    after: tuple[onnx.NodeProto, ...] = ()
    links: tuple[tuple[int, str], ...] = ()
    results: tuple[str, ...] = ()
    opset: int = 0


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
    around: Surroundings = Surroundings()
    declared: tuple[tuple[int, str], ...] = ()
    """The element types of outputs, by their places, that no input decides."""

    @property
    def given(self) -> dict[str, Given]:
        """All inputs by their names in the model: the node's are in0, in1 …"""
        own = {f"in{index}": item for index, item in enumerate(self.inputs) if item is not None}
        return {**own, **dict(self.around.inputs)}

    @property
    def dynamic(self) -> bool:
        """Whether some input has a symbolic dim."""
        return any(isinstance(dim, str) for item in self.given.values() if not item.known for dim in item.dims)

    @property
    def types(self) -> set[str]:
        """ONNX's names of the inputs' element types."""
        given = [array.dtype for item in self.given.values() for array in item.arrays()]
        return {onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype)).lower() for dtype in given}

    @property
    def size(self) -> int:
        """How large the case is; a smaller one is the better reproducer."""
        given = self.given.values()
        names = sum(isinstance(dim, str) for item in given for dim in item.dims)
        elements = sum(array.size + 2 * array.ndim for item in given for array in item.arrays())
        nodes = len(self.around.before) + len(self.around.after) + sum(map(_nodes, self.attributes.values()))
        return elements + names + 3 * len(given) + 3 * len(self.attributes) + sum(self.outputs) + 3 * nodes

    def feeds(self) -> dict[str, Any]:
        """The arrays (lists, dicts, None) of the run-time inputs by name."""
        return {name: item.array for name, item in self.given.items() if not item.known}

    def model(self) -> onnx.ModelProto:
        """The model of one node; the outputs have the element types that ONNX infers, and no declared shapes."""
        domain = "" if self.domain in (DEFAULT_DOMAIN, ADDED) else self.domain
        around = self.around
        names = [f"in{index}" if item is not None else "" for index, item in enumerate(self.inputs)]
        for index, name in around.links:
            names[index:] = [*[""] * (index - len(names)), name, *names[index + 1 :]]
        made = [f"out{index}" if wanted else "" for index, wanted in enumerate(self.outputs)]
        results = list(around.results) or [name for name in made if name]
        node = helper.make_node(self.op, names, made, name=f"{self.op}_node", domain=domain, **self.attributes)
        formals, initializers = [], []
        for name, item in self.given.items():
            if item.known:
                initializers.append(numpy_helper.from_array(item.array, name))
            elif item.type is not None:
                formals.append(onnx.ValueInfoProto(name=name, type=item.type))
            else:
                element = helper.np_dtype_to_tensor_dtype(item.array.dtype)
                formals.append(helper.make_tensor_value_info(name, element, list(item.dims)))
        declared = [helper.make_empty_tensor_value_info(name) for name in results]
        kinds = {f"out{place}": onnx.TensorProto.DataType.Value(kind.upper()) for place, kind in self.declared}
        for value in declared:
            if value.name in kinds:
                value.type.tensor_type.elem_type = kinds[value.name]
        nodes = [*around.before, node, *around.after]
        graph = helper.make_graph(nodes, "one_node", formals, declared, initializers)
        imports = [helper.make_opsetid(domain, (not domain and around.opset) or self.opset)]
        if domain:
            imports.append(helper.make_opsetid("", around.opset or 21))
        model = helper.make_model(graph, opset_imports=imports)
        model.ir_version = max(4, min(helper.find_min_ir_version_for(imports, ignore_unknown=True), 13))
        return _typed(model)

    def command(self) -> str:
        """The case in one line, for reports."""
        links = dict(self.around.links)
        parts = [links.get(index) or _told(item) for index, item in enumerate(self.inputs)]
        parts += [name for index, name in links.items() if index >= len(self.inputs)]
        attributes = ", ".join(f"{key}={_shown(value)}" for key, value in self.attributes.items())
        wanted = "" if self.outputs == (True,) else f" -> {sum(self.outputs)} outputs"
        more = [f"{name}={_told(item)}" for name, item in self.around.inputs]
        more += [_text(node) for node in (*self.around.before, *self.around.after)]
        told = f" with {'; '.join(more)}" if more else ""
        return f"{self.op}-{self.opset}({', '.join(parts)}{'; ' if attributes else ''}{attributes}){wanted}{told}"


def _told(item: Given | None) -> str:
    if item is None:
        return "-"
    if item.type is not None:
        return f"[{', '.join(f'{array.dtype}{list(array.shape)}' for array in item.arrays())}]{' symbolic' * bool(item.dims)}"
    content = f"={item.array.tolist()}" if item.array.size <= 6 else ""
    symbolic = not item.known and list(item.dims) != list(item.array.shape)
    told = f"{'const ' if item.known else ''}{item.array.dtype}{list(item.array.shape) or ''}{content}"
    return f"{told}{' symbolic' if symbolic else ''}"


def _shown(value: Any) -> str:
    if isinstance(value, onnx.GraphProto):
        return f"{{{'; '.join(map(_text, value.node))}}}"
    if isinstance(value, onnx.TensorProto):
        return _told(Given(numpy_helper.to_array(value), (), known=True))
    return " ".join(str(value).split()) if isinstance(value, onnx.TypeProto) else repr(value)


def _text(node: onnx.NodeProto) -> str:
    attributes = ", ".join(f"{item.name}={_shown(helper.get_attribute_value(item))}" for item in node.attribute)
    inner = f"<{attributes}>" if attributes else ""
    return f"{', '.join(node.output)} = {node.op_type}{inner}({', '.join(node.input)})"


def _nodes(value: Any) -> int:
    """How many nodes a graph has, those of its sub-graphs too."""
    if not isinstance(value, onnx.GraphProto):
        return 0
    inner = [helper.get_attribute_value(item) for node in value.node for item in node.attribute]
    return len(value.node) + len(value.input) + sum(map(_nodes, inner))


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        return model
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        element = known.type.tensor_type.elem_type
        if element:
            value.type.tensor_type.elem_type = element
        elif known.type.WhichOneof("value") not in ("tensor_type", None):
            value.type.CopyFrom(known.type)
    return model


def named_dims(index: int, shape: Sequence[int], symbolic: Sequence[bool]) -> tuple[int | str, ...]:
    """The dims of input ``index``: a name of its own where ``symbolic``, else the size."""
    return tuple(f"d{index}_{axis}" if name else size for axis, (size, name) in enumerate(zip(shape, symbolic, strict=True)))
