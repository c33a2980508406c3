"""torch's control-flow operators as ``torch.prim.If`` and ``torch.prim.Loop`` around calls of the sub-programs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch_mlir import ir

if TYPE_CHECKING:
    from onnx2torch_mlir.handoff.importer import CoreNodeImporter


def import_cond(importer: CoreNodeImporter, node: torch.fx.Node) -> None:
    """``torch.cond(pred, true_fn, false_fn, operands)``; source: torch._higher_order_ops.cond."""
    predicate, on_true, on_false, operands = node.args
    values = [importer.operand(operand) for operand in operands]  # type: ignore[union-attr]
    types = _result_types(importer, node)
    condition = _as_bool(importer, importer.operand(predicate))
    functions = [_function(importer, branch) for branch in (on_true, on_false)]
    branches = [partial(_call, importer, function, types, values) for function in functions]
    choice = importer.emit_if(condition, types, branches)
    importer.bind_results(node, choice.results)


def import_while_loop(importer: CoreNodeImporter, node: torch.fx.Node) -> None:
    """``while_loop(cond_fn, body_fn, carried, additional)``; source: torch._higher_order_ops.while_loop.

    The condition is asked before the first and after every iteration; additional inputs are passed to both functions
    and not carried.
    """
    condition, body, carried, *additional = node.args
    state = [importer.operand(operand) for operand in carried]  # type: ignore[union-attr]
    fixed = [importer.operand(operand) for group in additional for operand in group]  # type: ignore[union-attr]
    types = _result_types(importer, node)
    state = [_conform(importer, value, wanted) for value, wanted in zip(state, types, strict=True)]
    ask, step = _function(importer, condition), _function(importer, body)
    flag = [importer.cache.vtensor([], torch.bool)]
    first = _as_bool(importer, _call(importer, ask, flag, [*state, *fixed])[0])
    limit = importer.operand(torch.iinfo(torch.int64).max)
    loop = ir.Operation.create(
        "torch.prim.Loop", results=types, operands=[limit, first, *state], regions=1, loc=importer._here
    )
    with importer._here:
        block = ir.Block.create_at_start(loop.regions[0], [importer.cache.torch_int_type, *types])
    with ir.InsertionPoint(block):
        results = _call(importer, step, types, [*list(block.arguments)[1:], *fixed])
        again = _as_bool(importer, _call(importer, ask, flag, [*results, *fixed])[0])
        importer.emit("torch.prim.Loop.condition", [], [again, *results])
    importer.bind_results(node, loop.results)


def _function(importer: CoreNodeImporter, attribute: Any) -> str:
    module = getattr(attribute.graph.owning_module, attribute.target)
    name: str = importer.fx_importer._graph_module_to_func_name[id(module)]
    return name


def _call(importer: CoreNodeImporter, function: str, types: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    callee = importer.fx_importer.symbol_table[function]
    declared = ir.FunctionType(ir.TypeAttr(callee.attributes["function_type"]).value)
    passed = [_conform(importer, value, wanted) for value, wanted in zip(operands, declared.inputs, strict=True)]
    reference = ir.FlatSymbolRefAttr.get(function, context=importer._c)
    call = importer.emit("func.call", declared.results, passed, callee=reference)
    return [_conform(importer, value, wanted) for value, wanted in zip(call.results, types, strict=True)]


def _conform(importer: CoreNodeImporter, value: Any, wanted: Any) -> Any:
    """``value`` as the type ``wanted``, which may know more or fewer of the sizes."""
    if value.type == wanted:
        return value
    return importer.emit("torch.tensor_static_info_cast", [wanted], [value]).result


def _as_bool(importer: CoreNodeImporter, value: Any) -> Any:
    if value.type == importer.cache.torch_bool_type:
        return value
    return importer.emit("torch.aten.Bool.Tensor", [importer.cache.torch_bool_type], [value]).result


def _result_types(importer: CoreNodeImporter, node: torch.fx.Node) -> list[Any]:
    values = node.meta["val"]
    return [importer.cache.value_info_to_type(v) for v in (values if isinstance(values, list | tuple) else [values])]
