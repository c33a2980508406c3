"""torch's control-flow operators as ``torch.prim.If`` and ``torch.prim.Loop`` around calls of the sub-programs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch_mlir import ir

from onnx2torch_mlir.core.dims import known_equal, to_dim
from onnx2torch_mlir.core.signature import Dim

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
    loop = ir.Operation.create("torch.prim.Loop", results=types, operands=[limit, first, *state], regions=1, loc=importer._here)
    with importer._here:
        block = ir.Block.create_at_start(loop.regions[0], [importer.cache.torch_int_type, *types])
    with ir.InsertionPoint(block):
        results = _call(importer, step, types, [*list(block.arguments)[1:], *fixed])
        again = _as_bool(importer, _call(importer, ask, flag, [*results, *fixed])[0])
        importer.emit("torch.prim.Loop.condition", [], [again, *results])
    importer.bind_results(node, loop.results)


def import_part(importer: CoreNodeImporter, node: torch.fx.Node) -> None:
    """``invoke_subgraph(subgraph, identifier, *operands)``; source: torch._higher_order_ops.invoke_subgraph."""
    part, _, *operands = node.args
    values = [importer.operand(operand) for operand in operands]
    importer.bind_results(node, _call(importer, _function(importer, part), _result_types(importer, node), values))


def import_scan(importer: CoreNodeImporter, node: torch.fx.Node) -> None:
    """``scan(combine_fn, init, xs, additional)`` as a counted loop; source: torch._higher_order_ops.scan.

    The loop carries the states and the stacked outputs, of which every iteration replaces one slice.
    """
    combine, init, xs, additional = node.args
    sources = [*init, *xs, *additional]  # type: ignore[misc]
    count = len(init)  # type: ignore[arg-type]
    types, metas = _result_types(importer, node), node.meta["val"]
    known = {dim: _size_of(importer, *place) for dim, place in _places(sources).items()}
    if not xs:
        raise NotImplementedError("a scan without inputs has no length")
    length = _number(importer, to_dim(xs[0].meta["val"].shape[0]), known)  # type: ignore[index, union-attr]
    state = [_conform(importer, importer.operand(v), t) for v, t in zip(init, types, strict=False)]  # type: ignore[arg-type]
    stacks = [_empty(importer, value, known) for value in metas[count:]]
    inputs = [importer.operand(x) for x in xs]  # type: ignore[union-attr]
    fixed = [importer.operand(item) for item in additional]  # type: ignore[union-attr]
    step, zero, one, always = _function(importer, combine), *(importer.operand(n) for n in (0, 1, True))
    loop = ir.Operation.create(
        "torch.prim.Loop", results=types, operands=[length, always, *state, *stacks], regions=1, loc=importer._here
    )
    with importer._here:
        block = ir.Block.create_at_start(loop.regions[0], [importer.cache.torch_int_type, *types])
    with ir.InsertionPoint(block):
        position, *carried = list(block.arguments)
        elements = [
            importer.emit("torch.aten.select.int", [_type(importer, x.meta["val"], 1)], [value, zero, position]).result
            for x, value in zip(xs, inputs, strict=True)  # type: ignore[arg-type]
        ]
        rows = [importer.cache.vtensor([1, *value.shape[1:]], value.dtype) for value in metas[count:]]
        wanted = [*types[:count], *(_type(importer, value, 1) for value in metas[count:])]
        results = _call(importer, step, wanted, [*carried[:count], *elements, *fixed])
        after = importer.emit("torch.aten.add.int", [importer.cache.torch_int_type], [position, one]).result
        filled = []
        for stack, kind, row, result in zip(carried[count:], types[count:], rows, results[count:], strict=True):
            slab = importer.emit("torch.aten.unsqueeze", [row], [result, zero]).result
            operands = [stack, slab, zero, position, after, one]
            filled.append(importer.emit("torch.aten.slice_scatter", [kind], operands).result)
        importer.emit("torch.prim.Loop.condition", [], [always, *results[:count], *filled])
    importer.bind_results(node, loop.results)


def _type(importer: CoreNodeImporter, value: Any, start: int) -> Any:
    return importer.cache.vtensor(value.shape[start:], value.dtype)


def _places(sources: Sequence[Any]) -> dict[Dim, tuple[Any, int]]:
    """A tensor and an axis for each symbolic size of ``sources``."""
    found: dict[Dim, tuple[Any, int]] = {}
    for source in sources:
        for axis, size in enumerate(getattr(source.meta.get("val"), "shape", ())):
            if not isinstance(dim := to_dim(size), int):
                found.setdefault(dim, (source, axis))
    return found


def _size_of(importer: CoreNodeImporter, source: Any, axis: int) -> Any:
    operands = [importer.operand(source), importer.operand(axis)]
    return importer.emit("torch.aten.size.int", [importer.cache.torch_int_type], operands).result


def _number(importer: CoreNodeImporter, dim: Dim, known: Mapping[Dim, Any]) -> Any:
    """``dim`` as a number at run time: one of the sizes ``known``, or a sum or product of them."""
    if isinstance(dim, int):
        return importer.operand(dim)
    for size, value in known.items():
        if known_equal(size, dim):
            return value
    name = {sympy.Add: "torch.aten.add.int", sympy.Mul: "torch.aten.mul.int"}.get(dim.func)
    if name is None:
        raise NotImplementedError(f"the size {dim} is none of the sizes that the scan takes")
    parts = [_number(importer, to_dim(part), known) for part in dim.args]
    return functools.reduce(lambda a, b: importer.emit(name, [importer.cache.torch_int_type], [a, b]).result, parts)


def _empty(importer: CoreNodeImporter, value: Any, known: Mapping[Dim, Any]) -> Any:
    """``aten.empty`` for a tensor like ``value``."""
    items = [_number(importer, to_dim(size), known) for size in value.shape]
    list_type = ir.Type.parse("!torch.list<int>", context=importer._c)
    sizes = importer.emit("torch.prim.ListConstruct", [list_type], items).result
    dtype = importer.operand(value.dtype)
    none = importer.operand(None)
    operands = [sizes, dtype, none, none, none, none]
    return importer.emit("torch.aten.empty.memory_format", [_type(importer, value, 0)], operands).result


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
