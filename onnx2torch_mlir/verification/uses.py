"""What a model does with an input: which operators read it, through operators that only pass values on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnx2torch_mlir.model import array

PASSES_ON: dict[str, tuple[int, ...]] = {
    "Identity": (0,),
    "Cast": (0,),
    "CastLike": (0,),
    "Reshape": (0,),
    "Flatten": (0,),
    "Squeeze": (0,),
    "Unsqueeze": (0,),
    "Transpose": (0,),
    "Expand": (0,),
    "Tile": (0,),
    "Slice": (0,),
    "Split": (0,),
    "Gather": (0,),
    "Where": (1, 2),
    "Concat": tuple(range(64)),
}
"""Operators whose outputs hold values of these inputs."""

_MAX_STEPS = 2048


@dataclass(frozen=True)
class Use:
    """One reader of a value: the node, and the position among its inputs. ``direct``: nothing lies in between."""

    node: ir.Node
    position: int
    direct: bool

    @property
    def op(self) -> str:
        """The operator, with its domain where that is not the default one."""
        return f"{self.node.domain}::{self.node.op_type}" if self.node.domain else self.node.op_type


def uses_of(value: ir.Value) -> Iterator[Use]:
    """The readers of ``value``, also those in sub-graphs."""
    stack, seen = [(value, True)], {value}
    while stack and len(seen) < _MAX_STEPS:
        current, direct = stack.pop()
        for node, position in current.uses():
            yield Use(node, position, direct)
            if not node.domain and position in PASSES_ON.get(node.op_type, ()):
                for output in node.outputs:
                    if output not in seen:
                        seen.add(output)
                        stack.append((output, False))


def index_bound(use: Use, shapes: dict[str, tuple[int, ...]]) -> int | None:
    """How large the data are that ``use`` indexes with the value: indices lie in [0, bound). None: it is no index.

    ``shapes`` are the sizes of the inputs by name. A size that is not known gives 1: index 0 is always right.
    """
    node, position = use.node, use.position
    if use.op in ("Gather", "GatherElements") and position == 1:
        return _size(node.inputs[0], _integer(node, "axis", 0), shapes)
    if use.op in ("ScatterElements", "Scatter") and position == 1:
        return _size(node.inputs[0], _integer(node, "axis", 0), shapes)
    if use.op in ("GatherND", "ScatterND", "TensorScatter") and position == (2 if use.op == "TensorScatter" else 1):
        sizes = _shape(node.inputs[0], shapes)
        return min((size for size in sizes if size is not None), default=1) if sizes else 1
    if use.op == "OneHot" and position == 0:
        depth = node.inputs[1]
        known = None if depth is None else _contents(depth)
        return int(known) if known is not None else 1
    if use.op == "com.microsoft::EmbedLayerNormalization" and position in (0, 1):
        return _size(node.inputs[2 + position], 0, shapes)
    if use.op == "com.microsoft::EmbedLayerNormalization" and position == 8:
        return _size(node.inputs[3], 0, shapes)
    if use.op in ("RotaryEmbedding", "com.microsoft::RotaryEmbedding") and position in (1, 3):
        wanted = 3 if not use.node.domain else 1
        return _size(node.inputs[1 if not use.node.domain else 2], 0, shapes) if position == wanted else None
    return None


def _integer(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else int(attribute.as_int())


def _shape(value: ir.Value | None, shapes: dict[str, tuple[int, ...]]) -> list[int | None]:
    if value is None:
        return []
    if value.name in shapes:
        return list(shapes[value.name or ""])
    if value.const_value is not None:
        return [int(size) for size in value.const_value.shape.numpy()]
    producer = value.producer()
    if producer is not None and producer.op_type in ("Cast", "Identity", "DequantizeLinear", "QuantizeLinear"):
        return _shape(producer.inputs[0], shapes)
    if producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        return [int(size) for size in producer.attributes["value"].as_tensor().shape.numpy()]
    if value.shape is None:
        return []
    return [size if isinstance(size, int) else None for size in value.shape]


def _size(value: ir.Value | None, axis: int, shapes: dict[str, tuple[int, ...]]) -> int:
    sizes = _shape(value, shapes)
    size = sizes[axis] if -len(sizes) <= axis < len(sizes) else None
    return 1 if size is None else size


def _contents(value: ir.Value) -> float | None:
    tensor = value.const_value
    return None if tensor is None or tensor.size != 1 else float(array(tensor).reshape(-1)[0])
