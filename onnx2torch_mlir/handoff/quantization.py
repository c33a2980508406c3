"""``quantized_decomposed`` in the torch dialect, which has no such operations: as the arithmetic that PyTorch does for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from onnx2torch_mlir.core.dims import floor_div, to_dim
from onnx2torch_mlir.core.signature import Dim

if TYPE_CHECKING:
    from onnx2torch_mlir.handoff.importer import CoreNodeImporter

_DTYPES = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.float16: 5, torch.float32: 6, torch.float64: 7}
"""PyTorch's numbers of scalar types."""


class _Emitter:
    """Operations on one tensor after the other; ``dtype`` and ``shape`` are those of the last."""

    def __init__(self, importer: CoreNodeImporter, source: Any) -> None:
        value = source.meta["val"]
        self.importer = importer
        self.value = importer.operand(source)
        self.dtype: torch.dtype = value.dtype
        self.shape: list[Dim] = [dim if type(dim) is int else to_dim(dim) for dim in value.shape]

    def emit(self, name: str, *operands: Any) -> None:
        """Replace the value by ``torch.aten.<name>`` of it and ``operands``."""
        result = [self.importer.cache.vtensor(self.shape, self.dtype)]
        self.value = self.importer.emit(f"torch.aten.{name}", result, [self.value, *operands]).result

    def number(self, value: float | int) -> Any:
        """A number as an operand."""
        return self.importer.operand(value)

    def to(self, dtype: torch.dtype) -> _Emitter:
        """Convert."""
        if dtype is not self.dtype:
            self.dtype = dtype
            no, none = self.importer.operand(False), self.importer.operand(None)
            self.emit("to.dtype", self.number(_DTYPES[dtype]), no, no, none)
        return self

    def view(self, shape: list[Dim]) -> _Emitter:
        """Other sizes, of which at most one may be unknown."""
        self.shape = shape
        sizes = [self.number(dim if isinstance(dim, int) else -1) for dim in shape]
        list_type = self.importer.list_type
        self.emit("view", self.importer.emit("torch.prim.ListConstruct", [list_type], sizes).result)
        return self

    def tensor(self, name: str, other: _Emitter) -> _Emitter:
        """``name.Tensor`` with another tensor, which broadcasts."""
        more = [self.number(1)] if name in ("add", "sub") else []
        self.emit(f"{name}.Tensor", other.value, *more)
        return self

    def scalar(self, name: str, number: float | int) -> _Emitter:
        """``name.Scalar`` with a number."""
        more = [self.number(1)] if name in ("add", "sub") else []
        self.emit(f"{name}.Scalar", self.number(number), *more)
        return self


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    schema = node.target._schema  # type: ignore[union-attr]
    given = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False))
    return {**given, **node.kwargs}


def _parameters(importer: CoreNodeImporter, x: _Emitter, arguments: dict[str, Any]) -> list[Any]:
    """Scale and zero point: numbers, or float32 tensors that broadcast to ``x``; None for a zero point that is absent."""
    found: list[Any] = []
    for name in ("scale", "zero_point"):
        given = arguments[name] if name in arguments else arguments[f"{name}s"]
        if given is None or isinstance(given, int | float):
            found.append(given)
            continue
        parameter = _Emitter(importer, given).to(torch.float32)
        if "axis" in arguments:
            shape: list[Dim] = [1] * len(x.shape)
            shape[arguments["axis"] % len(x.shape)] = parameter.shape[0]
            parameter.view(shape)
        elif "group_size" in arguments:
            parameter.view([*x.shape[:2], 1])
        elif name in arguments and parameter.shape:
            parameter.view([])
        found.append(parameter)
    return found


def _apply(x: _Emitter, name: str, parameter: Any) -> None:
    if isinstance(parameter, _Emitter):
        x.tensor(name, parameter)
    elif parameter is not None and not (parameter == 0 and name in ("add", "sub")):
        x.scalar(name, parameter)


def _start(importer: CoreNodeImporter, node: torch.fx.Node, arguments: dict[str, Any]) -> tuple[_Emitter, list[Dim]]:
    x = _Emitter(importer, next(iter(arguments.values()))).to(torch.float32)
    shape = list(x.shape)
    if "group_size" in arguments:
        x.view([shape[0], floor_div(shape[1], arguments["group_size"]), arguments["group_size"]])
    return x, shape


def dequantize(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """(x - zero_point) * scale."""
    arguments = _arguments(node)
    x, shape = _start(importer, node, arguments)
    scale, zero_point = _parameters(importer, x, arguments)
    _apply(x, "sub", zero_point)
    _apply(x, "mul", scale)
    _finish(importer, node, x, shape)
    return True


def quantize(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """round(x * (1 / scale)) + zero_point within the limits; per token and per group the zero point comes first."""
    arguments = _arguments(node)
    x, shape = _start(importer, node, arguments)
    scale, zero_point = _parameters(importer, x, arguments)
    if isinstance(scale, _Emitter):
        scale.emit("reciprocal")
        x.tensor("mul", scale)
    elif scale != 1.0:
        x.scalar("mul", 1.0 / scale)
    first = "group_size" in arguments or "per_token" in str(node.target)
    if first:
        _apply(x, "add", zero_point)
    x.emit("round")
    if not first:
        _apply(x, "add", zero_point)
    x.emit("clamp", x.number(float(arguments["quant_min"])), x.number(float(arguments["quant_max"])))
    _finish(importer, node, x, shape)
    return True


def _finish(importer: CoreNodeImporter, node: torch.fx.Node, x: _Emitter, shape: list[Dim]) -> None:
    x.to(node.meta["val"].dtype)
    if list(x.shape) != shape:
        x.view(shape)
    importer.bind_node_value(node, x.value)


def respellings() -> dict[Any, Any]:
    """The respelling of each overload; registers PyTorch's library of them."""
    import torch.ao.quantization.fx._decomposed

    library = torch.ops.quantized_decomposed
    kinds = ("per_channel", "per_token", "per_channel_group")
    table: dict[Any, Any] = {}
    for prefix, respelling in (("quantize", quantize), ("dequantize", dequantize)):
        packet = getattr(library, f"{prefix}_per_tensor")
        table |= {packet.default: respelling, packet.tensor: respelling}
        table |= {getattr(library, f"{prefix}_{kind}").default: respelling for kind in kinds}
    return table
