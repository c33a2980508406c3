"""Small pieces of the graph: overloads by name, one result of several, and which results are contiguous."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from onnx2torch_mlir.core.shapes.rules import TensorType
from onnx2torch_mlir.core.values import Value

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder


class Projection(Value):
    """One of several results of a node; its ``getitem`` node is made only if something uses it."""

    __slots__ = ("_index", "_source")

    def __init__(self, builder: ProgramBuilder, source: torch.fx.Node, index: int, type_: TensorType) -> None:
        super().__init__(builder, type_.dtype, type_.shape)
        self.element = type_.element
        self._source = source
        self._index = index

    @property
    def node(self) -> torch.fx.Node:
        """The ``getitem`` node."""
        if self._node is None:
            node = self.builder.graph.call_function(operator.getitem, (self._source, self._index))
            node.meta["onnx_node"] = self._source.meta["onnx_node"]
            node.meta["val"] = self.builder.table.fake(self.dtype, self.shape)
            self._node = node
        return self._node


_STRIDED = {"aten.permute.default", "aten.expand.default", "aten.slice.Tensor", "aten.select.int"}
_FRESH = {"aten.view.default", "aten.mm.default", "aten.bmm.default", "aten.gather.default", "aten.index_select.default"}


def keeps_contiguous(primitive: str, args: Sequence[Any]) -> bool:
    """Whether eager PyTorch is sure to give a contiguous result, so that it can be viewed in another shape."""
    if primitive in _STRIDED:
        return False
    flat = [part for item in args for part in (item if isinstance(item, list | tuple) else [item])]
    return primitive in _FRESH or all(item.contiguous for item in flat if isinstance(item, Value))


def element_among(args: Sequence[Any]) -> str:
    """The element type of less than a byte that one of ``args`` (or of the lists in it) has, if one has."""
    for item in args:
        if isinstance(item, Value):
            if item.element:
                return item.element
        elif isinstance(item, list | tuple):
            element = element_among(item)
            if element:
                return element
    return ""


def overload(primitive: str) -> Any:
    """The `torch._ops.OpOverload` named ``aten.op.overload`` (or of another namespace)."""
    namespace, op, variant = primitive.split(".")
    if namespace == "quantized_decomposed":
        importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the operators
    return getattr(getattr(getattr(torch.ops, namespace), op), variant)


def eliminate_dead_code(graph: torch.fx.Graph) -> None:
    """Remove what no output, no assertion and no shape needs; placeholders stay."""
    reads = torch.ops.aten._local_scalar_dense.default

    def has_effect(node: torch.fx.Node) -> bool:
        return node.op in ("placeholder", "output") or node.target is torch.ops.aten._assert_scalar.default

    graph.eliminate_dead_code(lambda node: has_effect(node) or node.target is reads)
    if graph.find_nodes(op="call_function", target=reads):
        sizes = _symbols_of_shapes(graph)
        graph.eliminate_dead_code(
            lambda node: has_effect(node) or (node.target is reads and node.meta["val"].node.expr in sizes)
        )


def _symbols_of_shapes(graph: torch.fx.Graph) -> set[Any]:
    """The symbols in the sizes of all tensors."""
    found: set[Any] = set()
    for node in graph.nodes:
        value = node.meta.get("val")
        for tensor in value if isinstance(value, list | tuple) else [value]:
            sizes: Any = tensor.shape if isinstance(tensor, torch.Tensor) else ()
            found.update(*(size.node.expr.free_symbols for size in sizes if isinstance(size, torch.SymInt)))
    return found
