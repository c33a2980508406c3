"""One attempt at an upstream pipeline; runs in a worker process, for some inputs make the pipelines abort.

Imports MLIR but not torch, so that a worker starts quickly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from onnx2torch_mlir.handoff.context import Place, collecting, parse, place_of

TO_BACKEND = "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline"
"""From what the importer makes to upstream's backend contract; source: torch_mlir/fx.py."""

PIPELINES = {
    "tosa": "torch-backend-to-tosa-backend-pipeline",
    "stablehlo": "torch-backend-to-stablehlo-backend-pipeline{allow-non-finites=true}",
}
"""From the backend contract to a dialect; source: torch_mlir/compiler_utils.py."""

_STAND_INS = {
    "!torch.int": ("torch.constant.int", "1 : i64"),
    "!torch.float": ("torch.constant.float", "1.0 : f64"),
    "!torch.bool": ("torch.constant.bool", "true"),
}
_NO_COMPUTATION = re.compile(r"torch\.(constant\.|prim\.(ListConstruct|TupleConstruct|If|Loop)|vtensor\.literal)")
_QUOTED = re.compile(r"'([\w.]+)'")


@dataclass(frozen=True)
class Refused:
    """An operation that upstream refuses: its name, upstream's message, and all places of operations just like it."""

    operation: str
    message: str
    places: tuple[Place, ...]


def attempt(source: Path, dialect: str, target: Path, stubs: Collection[str] = ()) -> list[Refused]:
    """Convert the torch-dialect module in ``source`` to ``dialect`` and write bytecode to ``target``.

    Operations that came from the core nodes named in ``stubs`` are first taken out, so that the pipeline shows what
    else it refuses; nothing is written then. Returns what it refuses; nothing if all is well.
    """
    module = parse(source)
    groups = {place.core: (key, places) for key, places in _groups(module).items() for place in places}
    _stub(module, frozenset(stubs))
    with collecting(module.context) as reports, module.context:
        try:
            for pipeline in (TO_BACKEND, PIPELINES[dialect]):
                PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        except ir.MLIRError as error:
            if not reports:
                return [Refused("", str(error), ())]
    if not reports:
        if not stubs:
            module.operation.write_bytecode(str(target))
        return []
    refused: dict[str, Refused] = {}
    for report in reports:
        key, places = groups.get(report.place.core if report.place else "", ("", []))
        named = _QUOTED.search(report.message)
        name = named[1] if named and named[1] != "torch.operator" else key.split(" ")[0]
        refused.setdefault(key, Refused(name, report.message, tuple(places)))
    return list(refused.values())


def computations(source: Path) -> list[list[Place]]:
    """The nodes behind the module in ``source``, those with the same operation, types and constants together."""
    return list(_groups(parse(source)).values())


def _groups(module: Any) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for operation in _operations(module):
        place = place_of(operation.location)
        if place is not None:
            places = found.setdefault(_signature(operation), [])
            if place not in places:
                places.append(place)
    return found


def _signature(operation: Any) -> str:
    unregistered = operation.name == "torch.operator"
    name = ir.StringAttr(operation.attributes["name"]).value if unregistered else operation.name
    operands = [_constant(operand) or str(operand.type) for operand in operation.operands]
    return " ".join([name, *operands, "->", *(str(result.type) for result in operation.results)])


def _constant(value: Any) -> str | None:
    if isinstance(value.owner, ir.Block):
        return None
    owner = value.owner.operation
    if owner.name == "torch.prim.ListConstruct":
        return "[" + ",".join(_constant(item) or "?" for item in owner.operands) + "]"
    if owner.name.startswith("torch.constant."):
        return str(owner.attributes["value"]) if "value" in owner.attributes else "none"
    return None


def _operations(module: Any) -> Iterator[Any]:
    """Every operation that computes something, in all functions and regions."""
    pending = [op.operation for op in module.body.operations]
    while pending:
        operation = pending.pop(0)
        for region in operation.regions:
            for block in region:
                pending.extend(op.operation for op in block.operations)
        if operation.name.startswith("torch.") and not _NO_COMPUTATION.match(operation.name):
            yield operation


def _stub(module: Any, names: frozenset[str]) -> None:
    """Replace what came from ``names``: tensors by further arguments of the function, numbers by constants."""
    if not names:
        return
    with module.context:
        for operation in list(_operations(module)):
            place = place_of(operation.location)
            function = _function(operation)
            if place is not None and place.core in names and "sym_visibility" not in function.attributes:
                with operation.location:
                    _replace(function, operation)


def _function(operation: Any) -> Any:
    while operation.name != "func.func":
        operation = operation.parent.operation
    return operation


def _replace(function: Any, operation: Any) -> None:
    entry = function.regions[0].blocks[0]
    if any(not str(result.type).startswith(("!torch.vtensor", *_STAND_INS)) for result in operation.results):
        return
    for result in operation.results:
        if str(result.type) in _STAND_INS:
            constant, value = _STAND_INS[str(result.type)]
            attributes = {"value": ir.Attribute.parse(value)}
            made = ir.Operation.create(
                constant, [result.type], attributes=attributes, ip=ir.InsertionPoint.at_block_begin(entry)
            )
            result.replace_all_uses_with(made.result)
        else:
            result.replace_all_uses_with(entry.add_argument(result.type, operation.location))
    before = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    after = ir.FunctionType.get([argument.type for argument in entry.arguments], before.results)
    function.attributes["function_type"] = ir.TypeAttr.get(after)
    if "arg_attrs" in function.attributes:
        del function.attributes["arg_attrs"]
    operation.erase()
