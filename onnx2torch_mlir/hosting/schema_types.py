"""The element types that operators' schemas declare, for values about which ONNX's shape inference says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

from onnx2torch_mlir.model import Kind, ValueType
from onnx2torch_mlir.specs import Formal, Ledger


def declared_types(
    node: onnx.NodeProto, known: Mapping[str, ValueType], ledger: Ledger, opset: int | None
) -> Iterator[ValueType]:
    """The outputs of ``node`` that are tensors of one type by its schema, or of the type of one of its ``known`` inputs."""
    version = None if opset is None else ledger.version(node.domain, node.op_type, opset)
    if version is None:
        return
    bound: dict[str, ir.DataType] = {}
    for name, formal in _paired(node.input, version.inputs):
        described = known.get(name)
        if described is not None and described.kind is Kind.TENSOR and described.dtype is not None:
            bound.setdefault(formal.type, described.dtype)
    for name, formal in _paired(node.output, version.outputs):
        allowed = version.type_constraints.get(formal.type, (formal.type,))
        dtype = bound.get(formal.type) or (_element(allowed[0]) if len(allowed) == 1 else None)
        if dtype is not None:
            yield ValueType(name, Kind.TENSOR, dtype)


def _paired(names: Iterable[str], formals: tuple[Formal, ...]) -> Iterator[tuple[str, Formal]]:
    for index, name in enumerate(names):
        formal = formals[min(index, len(formals) - 1)] if formals else None
        if name and formal is not None and (index < len(formals) or formal.kind == "variadic"):
            yield name, formal


def _element(type_name: str) -> ir.DataType | None:
    inner = type_name.removeprefix("tensor(").removesuffix(")")
    return ir.DataType[inner.upper()] if type_name == f"tensor({inner})" else None
