"""Core primitives that the torch dialect spells otherwise, or that upstream gets right only when spelled otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch_mlir import ir

from onnx2torch_mlir.core.dims import known_equal, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.handoff import quantization
from onnx2torch_mlir.handoff.view_plan import plan_view

if TYPE_CHECKING:
    from onnx2torch_mlir.handoff.importer import CoreNodeImporter

aten = torch.ops.aten

Respelling = Callable[["CoreNodeImporter", torch.fx.Node], bool]
"""Imports the node and returns True, or returns False to leave it to the importer."""


def _dims(node: Any) -> list[Dim]:
    return [to_dim(size) for size in node.meta["val"].shape]


def _view(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten.view`` of dynamic sizes, as collapse, unflatten, squeeze and unsqueeze.

    ``prims.collapse`` and not ``aten.flatten.using_ints``, which upstream turns back into a view.
    """
    source, sizes = node.args
    before, after = _dims(source), _dims(node)
    if all(isinstance(dim, int) for dim in (*before, *after)):
        return False
    if not importer.form.split_views:
        return _plain_view(importer, node, after)
    value = importer.operand(source)
    dtype = node.meta["val"].dtype
    for step in plan_view(tuple(before), tuple(after)):
        result = [importer.cache.vtensor(step.shape, dtype)]
        at = importer.operand(step.dim)
        if step.kind == "flatten":
            last = importer.operand(step.dim + step.count - 1)
            value = importer.emit("torch.prims.collapse", result, [value, at, last]).result
        elif step.kind == "unflatten":
            parts = [
                to_dim_argument(sizes[axis], after[axis])  # type: ignore[index]
                for axis in range(step.result_dim, step.result_dim + step.count)
            ]
            value = importer.emit("torch.aten.unflatten.int", result, [value, at, _int_list(importer, parts)]).result
        elif step.kind == "assume":
            value = importer.emit("torch.tensor_static_info_cast", result, [value]).result
        else:
            name = "torch.aten.squeeze.dim" if step.kind == "squeeze" else "torch.aten.unsqueeze"
            value = importer.emit(name, result, [value, at]).result
    importer.bind_node_value(node, value)
    return True


def _plain_view(importer: CoreNodeImporter, node: torch.fx.Node, after: list[Dim]) -> bool:
    """A view whose only dynamic size, if there is but one, is left to be inferred."""
    symbolic = [axis for axis, dim in enumerate(after) if not isinstance(dim, int)]
    if len(symbolic) != 1 or 0 in after:
        return False
    sizes = _int_list(importer, [dim if isinstance(dim, int) else -1 for dim in after])
    operands = [importer.operand(node.args[0]), sizes]
    result = [importer.cache.node_val_to_type(node)]
    importer.bind_node_value(node, importer.emit("torch.aten.view", result, operands).result)
    return True


def _expand(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten.expand`` to the sizes the tensor has: nothing, where upstream would refuse or compute it."""
    source = node.args[0]
    before, after = _dims(source), _dims(node)
    if len(before) != len(after) or not all(map(known_equal, before, after)):
        return False
    value = importer.operand(source)
    wanted = importer.cache.node_val_to_type(node)
    if value.type != wanted:
        value = importer.emit("torch.tensor_static_info_cast", [wanted], [value]).result
    importer.bind_node_value(node, value)
    return True


def to_dim_argument(argument: Any, dim: Dim) -> Any:
    """A size as an argument: the number where it is known, else the argument of the view (a node or -1)."""
    return dim if isinstance(dim, int) else argument


def _int_list(importer: CoreNodeImporter, items: list[Any]) -> Any:
    return importer.emit("torch.prim.ListConstruct", [importer.list_type], [importer.operand(item) for item in items]).result


def _squeeze_dims(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten.squeeze.dims`` one dim at a time, as far as the sizes are known to be 1."""
    source, dims = node.args
    shape = _dims(source)
    value = importer.operand(source)
    for dim in sorted({int(dim) % max(len(shape), 1) for dim in dims}, reverse=True):  # type: ignore[union-attr, arg-type]
        if shape and shape[dim] == 1:
            del shape[dim]
            result = [importer.cache.vtensor(shape, node.meta["val"].dtype)]
            value = importer.emit("torch.aten.squeeze.dim", result, [value, importer.operand(dim)]).result
    importer.bind_node_value(node, value)
    return True


def _all_dims(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten.all.dims`` one dim at a time."""
    source, dims, keep = (*node.args, None, False)[:3] if len(node.args) < 3 else node.args[:3]
    keep = node.kwargs.get("keepdim", keep if len(node.args) > 2 else False)
    shape = _dims(source)
    wanted = range(len(shape)) if dims is None else {int(dim) % max(len(shape), 1) for dim in dims}  # type: ignore[union-attr, arg-type]
    value = importer.operand(source)
    if not shape or not wanted:
        return False
    for dim in sorted(wanted, reverse=True):
        shape[dim : dim + 1] = [1] if keep else []
        result = [importer.cache.vtensor(shape, torch.bool)]
        operands = [value, importer.operand(dim), importer.operand(bool(keep))]
        value = importer.emit("torch.aten.all.dim", result, operands).result
    importer.bind_node_value(node, value)
    return True


def _stable_sort(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten.sort.stable`` as ``aten.sort``, which upstream knows, where nothing uses the order of equal elements."""
    if any(user.args[1] != 0 for user in node.users):
        return False
    arguments = {**dict(zip(("self", "stable", "dim", "descending"), node.args, strict=False)), **node.kwargs}
    operands = [importer.operand(arguments["self"])]
    operands += [importer.operand(arguments.get("dim", -1)), importer.operand(arguments.get("descending", False))]
    types = [importer.cache.value_info_to_type(value) for value in node.meta["val"]]
    importer.bind_results(node, importer.emit("torch.aten.sort", types, operands).results)
    return True


def _with_tensor(overload: str) -> Respelling:
    """``op.Scalar`` with the number as a 0-d tensor of the same dtype, for which there is an operation."""

    def respelling(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
        source, number = node.args
        dtype = source.meta["val"].dtype  # type: ignore[union-attr]
        if isinstance(number, torch.fx.Node):
            return False
        other = importer.scalar_tensor(torch.tensor(number, dtype=dtype))
        result = [importer.cache.node_val_to_type(node)]
        importer.bind_node_value(node, importer.emit(overload, result, [importer.operand(source), other]).result)
        return True

    return respelling


def _item(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten._local_scalar_dense`` by the kind of number it gives."""
    dtype = node.args[0].meta["val"].dtype  # type: ignore[union-attr]
    kind = "Float" if dtype.is_floating_point else "Bool" if dtype is torch.bool else "Int"
    result = [importer.cache.node_val_to_type(node)]
    value = importer.emit(f"torch.aten.{kind}.Tensor", result, [importer.operand(node.args[0])]).result
    importer.bind_node_value(node, value)
    return True


def _assertion(importer: CoreNodeImporter, node: torch.fx.Node) -> bool:
    """``aten._assert_scalar`` on a condition as ``torch.runtime.assert``."""
    condition, message = node.args
    if not importer.form.assertions:
        importer.fx_importer.left_out.append(str(message))
        return True
    value = importer.operand(condition)
    if value.type == importer.cache.torch_int_type:
        value = importer.emit("torch.aten.Bool.int", [importer.cache.torch_bool_type], [value]).result
    if value.type != importer.cache.torch_bool_type:
        return False
    text = ir.StringAttr.get(str(message), context=importer._c)
    importer.emit("torch.runtime.assert", [], [value], message=text)
    return True


RESPELLINGS: dict[Any, Respelling] = {
    aten.view.default: _view,
    aten.expand.default: _expand,
    aten.squeeze.dims: _squeeze_dims,
    aten.all.dims: _all_dims,
    aten.sort.stable: _stable_sort,
    aten.bitwise_or.Scalar: _with_tensor("torch.aten.bitwise_or.Tensor"),
    aten.bitwise_xor.Scalar: _with_tensor("torch.aten.bitwise_xor.Tensor"),
    aten._local_scalar_dense.default: _item,
    aten._assert_scalar.default: _assertion,
    **quantization.respellings(),
}
