"""Weights as parameters of IREE: globals of its ``util`` dialect that a parameter archive fills when a module is loaded.

The bindings at hand lack IREE's dialects, so the operations are made in their generic form, which iree-compile takes as text
and as bytecode (https://iree.dev/guides/parameters). ``torch_c.from_builtin_tensor`` carries a global into the torch dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch_mlir import ir

from onnx2torch_mlir.handoff.function_arguments import replace_arguments

SCOPE = "model"
"""The scope of all parameters, as in ``iree-run-module --parameters=model=FILE``; also that of IREE's own importers."""


def make_parameters(module: Any, function: Any, weights: Mapping[int, str]) -> None:
    """Turn the arguments of ``function`` whose numbers are in ``weights`` into parameters of these names."""
    with module.context as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        taken = {ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations if "sym_name" in op.attributes}
        first = ir.InsertionPoint.at_block_begin(module.body)
        symbols: dict[str, str] = {}
        makers = {}
        for number, name in weights.items():
            type_ = _builtin(function.regions[0].blocks[0].arguments[number].type)
            if name not in symbols:
                symbols[name] = _free(name, taken)
                taken.add(symbols[name])
                _declare(symbols[name], name, type_, first)
            makers[number] = partial(_load, symbols[name], name, type_)
        replace_arguments(function, makers)


def _declare(symbol: str, name: str, type_: Any, where: Any) -> None:
    attributes = {
        "sym_name": ir.StringAttr.get(symbol),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(type_),
        "initial_value": ir.Attribute.parse(f'#stream.parameter.named<"{SCOPE}"::"{_escaped(name)}"> : {type_}'),
    }
    ir.Operation.create("util.global", attributes=attributes, loc=ir.Location.name(name), ip=where)


def _load(symbol: str, name: str, builtin: Any, type_: Any) -> Any:
    attributes = {"global": ir.FlatSymbolRefAttr.get(symbol), "is_immutable": ir.UnitAttr.get()}
    where = ir.Location.name(name)
    value = ir.Operation.create("util.global.load", [builtin], attributes=attributes, loc=where).result
    if builtin == type_:
        return value
    return ir.Operation.create("torch_c.from_builtin_tensor", [type_], [value], loc=where).result


def _builtin(type_: Any) -> Any:
    """The builtin tensor that stands for a type: that of ``!torch.vtensor<[2],si8>`` is ``tensor<2xi8>``."""
    text = str(type_)
    if not text.startswith("!torch.vtensor<["):
        return type_
    sizes, _, element = text.removeprefix("!torch.vtensor<[").removesuffix(">").partition("],")
    dims = [int(size) for size in sizes.split(",") if size]
    return ir.RankedTensorType.get(dims, ir.Type.parse(element.removeprefix("s").removeprefix("u")))


def _free(name: str, taken: set[str]) -> str:
    symbol, count = name, 1
    while symbol in taken or not symbol:
        symbol, count = f"{name}.{count}", count + 1
    return symbol


def _escaped(name: str) -> str:
    """``name`` within the quotes of an MLIR string."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in name.encode())
