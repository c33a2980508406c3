"""Gradients by PyTorch's autograd at the waist: a piece of the program is differentiated as an FX graph and re-emitted.

The piece is built as a sub-program, traced together with `torch.autograd.grad` under the program's own symbolic sizes, and
the ATen calls of both directions are made again through the builder. Few of them are no primitives; they are written here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.primitives import POINTWISE_BINARY, PRIMITIVES
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.subprograms import SubProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.backward import EXTRA

Function = Callable[[ProgramBuilder, Sequence[Value]], Value]
_BINARY = {f"aten.{name}" for name in POINTWISE_BINARY if name.endswith((".Tensor", ".Scalar", ".Tensor_Scalar"))}
_NOT_HERE = {"aten._local_scalar_dense.default", "aten.nonzero.default"}
_KEYWORDS = ("dtype", "rounding_mode", "correction", "keepdim", "stable")


def gradients(g: ProgramBuilder, function: Function, xs: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    """The gradients of the sum of ``function(xs + others)`` with respect to each of ``xs``; zeros where it has none.

    Raises:
        Refusal: O2M-C003 where a piece has no derivative here or depends on sizes that decide its form.
    """
    inner = SubProgramBuilder(g)
    formals = [inner.parameter(f"input{i}", TensorType(x.dtype, x.shape)) for i, x in enumerate([*xs, *others])]
    module = inner.module([function(inner, formals)], bare=True)
    fakes = [_own(g, item.node.meta["val"]) for item in formals]
    fakes += [_own(g, outer.meta["val"]) for outer in inner.captured]
    traced = _trace(g, module, len(xs), fakes)
    given: list[Any] = [*xs, *others, *(_outer(g, node) for node in inner.captured)]
    results = _emit(g, traced, given)
    return [g.full(x.shape, 0, x.dtype) if item is None else item for x, item in zip(xs, results, strict=True)]


def _own(g: ProgramBuilder, fake: Any) -> Any:
    """A FakeTensor that nothing else is (the builder shares them by type, a tracer tells values apart by them)."""
    if not isinstance(fake, torch.Tensor):
        return fake
    with g.table.fake_mode:
        return torch.empty(fake.shape, dtype=fake.dtype)


def _trace(
    g: ProgramBuilder, module: torch.fx.GraphModule, count: int, fakes: Sequence[Any]
) -> torch.fx.GraphModule:
    def backward(*arguments: Any) -> list[torch.Tensor | None]:
        xs = [item.detach().requires_grad_() for item in arguments[:count]]
        y = _Differentiable(module).run(*xs, *arguments[count:])
        if not y.requires_grad:
            return [None] * count
        return list(torch.autograd.grad(y, xs, torch.ones_like(y), allow_unused=True))

    g.table.shape_env.pending_fresh_unbacked_symbols.clear()
    table: Any = core_aten_decompositions()
    tracer = make_fx(backward, decomposition_table=table, tracing_mode="symbolic")
    try:
        traced = tracer(*fakes)
    except GuardOnDataDependentSymNode as error:
        raise refuse(
            "O2M-C003",
            f"the form of a gradient depends on a size that only run time knows: {error.cond}",
            case="dynamic sizes",
            hint="pin the dims of the model with --dim NAME=N",
        ) from error
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        reason = str(error).strip().split("\n")[0]
        raise refuse("O2M-C003", f"autograd cannot differentiate this piece: {reason}", case="autograd") from error
    traced.graph.eliminate_dead_code()
    return traced


class _Product(torch.autograd.Function):
    """A product of matrices. PyTorch's own derivative looks at strides, which symbolic sizes do not decide."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return torch.mm(a, b)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        a, b = ctx.saved_tensors
        to_a = torch.mm(gradient, b.permute(1, 0)) if ctx.needs_input_grad[0] else None
        to_b = torch.mm(a.permute(1, 0), gradient) if ctx.needs_input_grad[1] else None
        return to_a, to_b


class _Differentiable(torch.fx.Interpreter):
    """A piece run with derivatives that hold for sizes of which nothing is known."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As in the base class, but for products of matrices."""
        if target is torch.ops.aten.mm.default:
            return _Product.apply(*args)  # type: ignore[no-untyped-call]
        return super().call_function(target, args, kwargs)


def _outer(g: ProgramBuilder, node: torch.fx.Node) -> Any:
    """A captured node of the program as a value, or a size."""
    known = node.meta["val"]
    if not isinstance(known, torch.Tensor):
        return to_dim(known)
    value = Value(g, known.dtype, tuple(to_dim(size) for size in known.shape), node=node)
    value.contiguous = False
    return value


def _emit(g: ProgramBuilder, traced: torch.fx.GraphModule, given: Sequence[Any]) -> list[Value | None]:
    """The calls of ``traced``, made through ``g``."""
    made: dict[torch.fx.Node, Any] = {}
    inputs = iter(given)
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            made[node] = next(inputs)
        elif node.op == "output":
            return list(torch.fx.map_arg(list(node.args[0]), made.__getitem__))
        elif isinstance(node.meta.get("val"), torch.SymInt | int):
            if str(node.target) in _NOT_HERE:
                raise refuse("O2M-C003", "the gradient of a piece whose sizes its data decide", case="sizes")
            made[node] = to_dim(node.meta["val"])
        elif node.target is operator.getitem:
            made[node] = made[node.args[0]][node.args[1]]
        elif node.target is torch.ops.aten.copy_.default:
            made[node] = made[node.args[0]] = _written(node, made)
        elif node.target is not torch.ops.aten._assert_scalar.default and node.meta.get("val") is not None:
            made[node] = _call(g, node, made)
    return []


def _written(node: torch.fx.Node, made: dict[torch.fx.Node, Any]) -> Value:
    """What ``copy_`` leaves, where it overwrites a result of ``where`` (a masked fill) that nothing else may see."""
    target, source = node.args[0], made[node.args[1]]  # type: ignore[index]
    assert isinstance(target, torch.fx.Node)
    fresh = target.target is torch.ops.aten.where.self
    seen = {user for user in target.users if user is not node and user.target is not torch.ops.aten.where.self}
    before: Value = made[target]
    if not fresh or seen or (source.dtype, source.shape) != (before.dtype, before.shape):
        raise refuse("O2M-C003", "the derivative of a piece overwrites a value", case="aten.copy_.default")
    result: Value = source
    return result


def _call(g: ProgramBuilder, node: torch.fx.Node, made: dict[torch.fx.Node, Any]) -> Any:
    name = str(node.target)
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or name in _NOT_HERE:
        raise refuse("O2M-C003", f"the gradient of a piece with {name} in it", case=name)
    arguments, keywords = _arguments(node, made)
    if name in EXTRA:
        return EXTRA[name](g, *arguments, **keywords)
    if name in _BINARY:
        arguments[:2] = _promoted(g, arguments[:2])
    scalars = [isinstance(item, int | float) for item in arguments[:2]]
    if name in _BINARY and any(scalars):
        return g.binary(name.split(".")[1], *arguments[:2], **keywords)
    if name not in PRIMITIVES:
        raise refuse("O2M-C003", f"the gradient needs {name}, which is no primitive", case=name)
    return g.call(name, *arguments, **keywords)


def _promoted(g: ProgramBuilder, operands: Sequence[Any]) -> list[Any]:
    """Two tensors of different dtypes in the one that PyTorch takes both to."""
    first, second = operands
    if not (isinstance(first, Value) and isinstance(second, Value)):
        return list(operands)
    dtype = torch.promote_types(first.dtype, second.dtype)
    return [g.cast(item, dtype) for item in operands]


def _arguments(node: torch.fx.Node, made: dict[torch.fx.Node, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with the defaults of the schema filled in; of keywords those that say what is computed."""

    def lowered(item: Any) -> Any:
        item = torch.fx.map_arg(item, made.__getitem__)
        return list(item) if isinstance(item, list | tuple) else item

    schema = node.target._schema  # type: ignore[union-attr]
    positional = [item for item in schema.arguments if not item.kwarg_only]
    arguments = [lowered(item) for item in node.args]
    arguments += [lowered(node.kwargs.get(item.name, item.default_value)) for item in positional[len(arguments) :]]
    known = {item.name for item in schema.arguments if item.kwarg_only}
    if node.kwargs.get("alpha", 1) != 1:
        raise refuse("O2M-C003", f"the gradient needs {node.target} with alpha", case="alpha")
    return arguments, {key: node.kwargs[key] for key in _KEYWORDS if key in known and key in node.kwargs}
