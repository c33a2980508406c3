"""What reading gives: `LoadedModel`, and `ValueType`, the type of a graph input or output as the model declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import Finding

Dim = int | str | None
"""A size, the name of a size, or nothing known."""

UNKNOWN_DIM_NAMES = frozenset({"", "?", "-1"})
"""Names that exporters write where they know nothing: two dims of such a name are not equal."""


class Kind(StrEnum):
    """The kinds of ONNX values (https://onnx.ai/onnx/repo-docs/IR.html#standard-data-types)."""

    TENSOR = "tensor"
    SPARSE_TENSOR = "sparse_tensor"
    SEQUENCE = "sequence"
    OPTIONAL = "optional"
    MAP = "map"
    OPAQUE = "opaque"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ValueType:
    """A value's name and declared type.

    ``dtype`` and ``shape`` belong to tensors (for ``Kind.MAP`` the dtype is the key's); ``shape`` is None where even
    the rank is unknown, and a dim is an int, a name, or None. ``element`` is the type inside a sequence or optional,
    and of a map's values. Declared dims are claims: they may be wrong.
    """

    name: str
    kind: Kind = Kind.TENSOR
    dtype: ir.DataType | None = None
    shape: tuple[Dim, ...] | None = None
    element: ValueType | None = None

    def to_proto(self) -> onnx.TypeProto:
        """The ONNX form; an unknown kind gives an empty TypeProto."""
        proto = onnx.TypeProto()
        if self.kind in (Kind.TENSOR, Kind.SPARSE_TENSOR):
            inner = proto.tensor_type if self.kind is Kind.TENSOR else proto.sparse_tensor_type
            inner.elem_type = int(self.dtype or 0)
            if self.shape is not None:
                inner.shape.SetInParent()
                for size in self.shape:
                    dim = inner.shape.dim.add()
                    if isinstance(size, int):
                        dim.dim_value = size
                    elif size is not None:
                        dim.dim_param = size
        elif self.kind in (Kind.SEQUENCE, Kind.OPTIONAL) and self.element is not None:
            outer = proto.sequence_type if self.kind is Kind.SEQUENCE else proto.optional_type
            outer.elem_type.CopyFrom(self.element.to_proto())
        elif self.kind is Kind.MAP and self.element is not None:
            proto.map_type.key_type = int(self.dtype or 0)
            proto.map_type.value_type.CopyFrom(self.element.to_proto())
        return proto


def _data_type(number: int) -> ir.DataType | None:
    try:
        return ir.DataType(number) if number else None
    except ValueError:
        return None


def value_type(name: str, proto: onnx.TypeProto) -> ValueType:
    """The type that ``proto`` declares; dims below 0 and dims without a usable name become None."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        inner = getattr(proto, kind)
        shape: tuple[Dim, ...] | None = None
        if inner.HasField("shape"):
            shape = tuple(_dim(dim) for dim in inner.shape.dim)
        return ValueType(
            name, Kind.TENSOR if kind == "tensor_type" else Kind.SPARSE_TENSOR, _data_type(inner.elem_type), shape
        )
    if kind in ("sequence_type", "optional_type"):
        element = value_type("", getattr(proto, kind).elem_type)
        return ValueType(name, Kind.SEQUENCE if kind == "sequence_type" else Kind.OPTIONAL, element=element)
    if kind == "map_type":
        return ValueType(
            name, Kind.MAP, _data_type(proto.map_type.key_type), element=value_type("", proto.map_type.value_type)
        )
    return ValueType(name, Kind.OPAQUE if kind == "opaque_type" else Kind.UNKNOWN)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return None if dim.dim_param in UNKNOWN_DIM_NAMES else str(dim.dim_param)


def value_type_of(value: ir.Value) -> ValueType:
    """The type that an onnx_ir value carries."""
    shape: tuple[Dim, ...] | None = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    return _from_ir(value.name or "", value.type, shape)


def _from_ir(name: str, type_: ir.TypeProtocol | None, shape: tuple[Dim, ...] | None) -> ValueType:
    if isinstance(type_, ir.SequenceType | ir.OptionalType):
        kind = Kind.SEQUENCE if isinstance(type_, ir.SequenceType) else Kind.OPTIONAL
        return ValueType(name, kind, element=_from_ir("", type_.elem_type, shape))
    if isinstance(type_, ir.TensorType | ir.SparseTensorType):
        kind = Kind.TENSOR if isinstance(type_, ir.TensorType) else Kind.SPARSE_TENSOR
        return ValueType(name, kind, None if type_.dtype is ir.DataType.UNDEFINED else type_.dtype, shape)
    return ValueType(name, Kind.UNKNOWN, shape=shape)


@dataclass(frozen=True)
class LoadedModel:
    """A model that has been read and checked.

    ``ir``        the graph: nodes topologically sorted in every (sub-)graph and function, names of nodes unique, the
                  default domain written ``""``, every node's ``version`` set to the opset version of its domain
                  where it stands. ``ir.graph.inputs`` are the run-time inputs only.
    ``path``      the file it came from, if any.
    ``opsets``    domain -> version of the model's own imports.
    ``findings``  warnings and notes met on the way.
    ``inputs``    run-time inputs, ``outputs`` the outputs, in order, with their declared types.
    ``overridable``  names of initializers that the model also lists as inputs; they are constants here unless `read`
                  was told otherwise.
    """

    ir: ir.Model
    path: Path | None
    opsets: dict[str, int]
    findings: tuple[Finding, ...] = ()
    inputs: tuple[ValueType, ...] = ()
    outputs: tuple[ValueType, ...] = ()
    overridable: tuple[str, ...] = ()
    base_dir: Path | None = field(default=None)


Report = Callable[[Finding], None]
"""Where a check puts what it finds."""
