"""Binding: an ONNX node's inputs and attributes become the arguments of a converter, once and for every operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx2torch_mlir.conversion.handlers import Handler, Input
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import Anything, describe
from onnx2torch_mlir.core.parameters import Need
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import NodeRef, refuse
from onnx2torch_mlir.model import StoredList
from onnx2torch_mlir.specs import Formal, OperatorVersion, Row


def bind(
    builder: ProgramBuilder,
    handler: Handler,
    row: Row,
    version: OperatorVersion,
    node: NodeRef,
    inputs: Sequence[Anything | None],
    attributes: Mapping[str, Any],
    wanted: tuple[bool, ...],
    enclosing: Any = None,
) -> Any:
    """Call ``handler`` for one node, which stands in the graph ``enclosing``.

    Attributes the node leaves out take the row's default, else the ledger's. An attribute that the converter does not
    take is refused unless the row ignores it. Long lists of the model are made lists of Python's, where the converter does
    not say that it takes any sequence.

    Raises:
        Refusal: O2M-C004 where an input must be known and is not, O2M-C005 where the node breaks its signature.
    """
    _check_arity(version, inputs)
    arguments = _inputs(builder, handler, version, inputs)
    keywords = {key: value for key, value in row.options.items() if key in handler.keywords}
    for name, spec in version.attributes.items():
        if name in row.ignore:
            continue
        value = attributes.get(name, row.attributes.get(name, spec.default))
        if value is None:
            if spec.required:
                raise refuse("O2M-C005", f"attribute {name} is missing", case=name)
            continue
        if name in handler.keywords:
            stored = isinstance(value, StoredList) and name not in handler.sequences
            keywords[name] = list(value) if stored else value
        elif name in attributes and attributes[name] != spec.default:
            raise refuse("O2M-C003", f"attribute {name}={attributes[name]!r} is not supported", case=name)
    unknown = sorted(set(attributes) - set(version.attributes))
    if unknown:
        raise refuse(
            "O2M-C005",
            f"{version} has no attribute {', '.join(unknown)}",
            case=unknown[0],
            hint="the model's opset import may be wrong for this node",
        )
    reserved = {"wanted": wanted, "opset": version.since_version, "node": node, "enclosing": enclosing}
    reserved["written"] = frozenset(attributes)
    names = handler.keywords - version.attributes.keys()
    keywords |= {key: value for key, value in reserved.items() if key in names}
    for name in sorted(handler.required - keywords.keys()):
        raise refuse("O2M-C005", f"attribute {name} is missing", case=name)
    return handler.function(builder, *arguments, **keywords)


def _check_arity(version: OperatorVersion, inputs: Sequence[Anything | None]) -> None:
    formals = version.inputs
    variadic = bool(formals) and formals[-1].kind == "variadic"
    if len(inputs) > len(formals) and not variadic:
        raise refuse("O2M-C005", f"{len(inputs)} inputs are given, {version} takes at most {len(formals)}")
    for index, formal in enumerate(formals):
        if formal.kind == "single" and (index >= len(inputs) or inputs[index] is None):
            raise refuse("O2M-C005", f"input {formal.name} is missing", case=formal.name)


def _inputs(
    builder: ProgramBuilder, handler: Handler, version: OperatorVersion, inputs: Sequence[Anything | None]
) -> list[Any]:
    arguments: list[Any] = []
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    for index, value in enumerate(given):
        if index < len(handler.inputs) and not handler.inputs[index].variadic:
            parameter = handler.inputs[index]
        elif handler.inputs and handler.inputs[-1].variadic:
            parameter = handler.inputs[-1]
        else:
            formal = version.inputs[min(index, len(version.inputs) - 1)]
            raise refuse("O2M-C003", f"input {formal.name} is not supported", case=formal.name)
        formal = version.inputs[min(index, len(version.inputs) - 1)]
        arguments.append(None if value is None else _argument(builder, version, value, parameter, formal))
    missing = [item for item in handler.inputs[len(given) :] if not item.optional and not item.variadic]
    if missing:
        raise refuse("O2M-C005", f"input {missing[0].name} is missing", case=missing[0].name)
    return arguments


def _argument(
    builder: ProgramBuilder, version: OperatorVersion, value: Anything, parameter: Input, formal: Formal
) -> Any:
    if isinstance(value, Value):
        return contents(builder, value, parameter, formal.name)
    types = version.type_constraints.get(formal.type, (formal.type,))
    if parameter.need is not None or all(name.startswith("tensor(") for name in types):
        raise refuse("O2M-C005", f"input {formal.name} of {version} is {describe(value)}, not a tensor", case=formal.name)
    return value


def contents(builder: ProgramBuilder, value: Value, parameter: Input, name: str) -> Any:
    """What ``parameter`` takes of ``value``.

    Raises:
        Refusal: O2M-C004 where that is not known.
    """
    need = parameter.need
    if need is None:
        return value
    if need in (Need.SIZE, Need.SIZES):
        sizes = value.dims()
        if sizes is None:
            sizes = _run_time_sizes(builder, value, name, single=need is Need.SIZE)
        return sizes[0] if need is Need.SIZE else sizes
    known = value.tensor
    if known is None:
        raise refuse(
            "O2M-C004",
            f"input {name} decides the form of the result and is only known at run time ({need.value} is needed)",
            case=name,
            hint=f"make it an initializer, or give it with --constant {name}=VALUE",
        )
    if need is Need.TENSOR:
        return known
    flat = known.reshape(-1).tolist()
    return flat if need in (Need.INTS, Need.FLOATS) else flat[0]


def _run_time_sizes(builder: ProgramBuilder, value: Value, name: str, *, single: bool) -> list[Any]:
    count = 1
    if value.rank == 1:
        length = value.shape[0]
        if single:
            builder.require_equal(length, 1, f"number of elements of {name}")
            length = 1
        if not isinstance(length, int):
            raise refuse(
                "O2M-C004",
                f"the length of input {name} is only known at run time, so the rank of the result is not determined",
                case=name,
                hint=f"make it an initializer, or give it with --constant {name}=VALUE",
            )
        count = length
    elif value.rank > 1:
        raise refuse("O2M-C005", f"input {name} has rank {value.rank}, not 0 or 1", case=name)
    flat = builder.reshape(value, [count])
    return [builder.item(builder.select(flat, 0, index), signed=True) for index in range(count)]
