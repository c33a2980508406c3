"""Types and locations for the importer, each made once per context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch_mlir import ir
from torch_mlir.extras.fx_importer import ContextCache

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.handoff.context import Place, location
from onnx2torch_mlir.handoff.elements import ELEMENT_TYPES


class CoreContextCache(ContextCache):  # type: ignore[misc]
    """torch-mlir's cache with types looked up instead of parsed each time, and locations that name ONNX nodes."""

    __slots__ = ("_locations", "_vtensors")

    def __init__(self, context: Any, **arguments: Any) -> None:
        super().__init__(context, **arguments)
        self._vtensors: dict[tuple[tuple[int | None, ...], torch.dtype], Any] = {}
        self._locations: dict[Place, Any] = {}

    def vtensor(self, shape: Sequence[Dim | torch.SymInt], dtype: torch.dtype) -> Any:
        """``!torch.vtensor`` of this shape; a size that is no number is dynamic."""
        key = (tuple(size if isinstance(size, int) else None for size in shape), dtype)
        found = self._vtensors.get(key)
        if found is None:
            with self._c:
                element = ELEMENT_TYPES[dtype]()
            sizes = ",".join("?" if size is None else str(size) for size in key[0])
            found = ir.Type.parse(f"!torch.vtensor<[{sizes}],{element}>", context=self._c)
            self._vtensors[key] = found
        return found

    def value_info_to_type(self, val: Any, *, tensor_meta: Any = None, mutable: bool = False) -> Any:
        """The type of what a node gives, from ``meta["val"]``."""
        if isinstance(val, FakeTensor | torch.Tensor) and not mutable and val.layout is torch.strided:
            return self.vtensor(val.shape, val.dtype)
        return super().value_info_to_type(val, tensor_meta=tensor_meta if val is None else None, mutable=mutable)

    def tensor_to_vtensor_type(self, tensor: torch.Tensor) -> Any:
        """The type of a literal."""
        return self.vtensor(tensor.shape, tensor.dtype)

    def get_node_location(self, node: torch.fx.Node) -> Any:
        """A location that names the ONNX node and the core node."""
        place = place_of_node(node)
        found = self._locations.get(place)
        if found is None:
            found = self._locations[place] = location(place, self._c)
        return found


def place_of_node(node: torch.fx.Node) -> Place:
    """Where ``node`` came from: the ONNX node it is stamped with, else itself."""
    return Place(str(node.meta.get("onnx_node") or node.name), node.name)
