"""The walk over a core program: resolves arguments, calls the rule of each primitive, checks what it returns."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, refuse
from onnx2torch_mlir.lowering.constant_results import ConstantResults, constant_results
from onnx2torch_mlir.lowering.context import Context, spec_of
from onnx2torch_mlir.lowering.integer_forms import on_integers, plain
from onnx2torch_mlir.lowering.lowered import Lowered
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.registry import load_rules, why_missing
from onnx2torch_mlir.lowering.requirements import Requirements, bind_dims, input_symbols
from onnx2torch_mlir.lowering.retype import bind_results, retyped
from onnx2torch_mlir.lowering.scaled import Scaled
from onnx2torch_mlir.lowering.unused import erase_unused
from onnx2torch_mlir.lowering.weights import named, weights_of

_SYMBOLIC = (torch.SymInt, torch.SymBool, torch.SymFloat, int, bool, float)
_IGNORED = ("aten._assert_tensor_metadata", "aten.sym_constrain_range")
_NAMES: dict[Any, str] = {}


def target_name(target: Any) -> str:
    """A call target as the rules' table names it: the overload, or the operator's own name."""
    found = _NAMES.get(target)
    if found is None:
        if isinstance(target, torch._ops.HigherOrderOperator):
            found = str(target._name)
        elif isinstance(target, torch._ops.OpOverload):
            found = str(target)
        else:
            found = getattr(target, "__name__", str(target))
        _NAMES[target] = found
    return found


def node_ref(node: Node) -> NodeRef:
    """The place of a finding: the ONNX node that a program's node came from."""
    return NodeRef(str(node.meta.get("onnx_node", node.name)), target_name(node.target), "core")


def lower(
    exported: ExportedProgram,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dim_names: Mapping[str, str] | None = None,
    elements: Mapping[str, str] | None = None,
    fold_weights: bool = False,
) -> Lowered:
    """Lower a core program to linalg on tensors.

    The function ``@main`` takes the program's inputs, then its parameters, buffers and constant tensors, and returns
    its outputs. ``input_names`` and ``output_names`` replace the program's own names; ``dim_names`` maps symbols
    (``u0``) to the dims they came from; ``elements`` maps names of inputs and outputs to the element types of less than a
    byte that they hold (`core.narrow`). With ``fold_weights``, what takes work and depends on weights alone is a weight,
    too (`constant_results`), whose contents are computed when they are asked for.

    Raises Refusal: O2M-L001 with every primitive that has no rule, O2M-L002 for a case that a rule refuses, O2M-L003
    where a rule's result is not what the program declares, O2M-L004 if MLIR rejects the module.
    """
    rules = load_rules()
    _refuse_unknown(exported.graph_module, rules)
    placeholders = _placeholders(exported)
    inputs, weights = placeholders
    constant = constant_results(list(exported.graph.nodes), weights) if fold_weights else ConstantResults()
    with ir.Context() as mlir, ir.Location.unknown():
        mlir.enable_multithreading(False)
        symbols = input_symbols([spec_of(n.meta["val"]) for n in inputs])
        ctx = Context(symbols, _lower_subgraph)
        module, outputs = _build(ctx, exported, inputs, weights, constant)
        _verify(module)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        checks = tuple(ctx.checks.values())
    taken = tuple(named(n.meta["val"], name) for n, name in zip(inputs, input_names or _names(inputs), strict=True))
    given = _output_specs(exported, outputs, output_names)
    if elements:
        taken, given = _tagged(taken, elements), _tagged(given, elements)
    return Lowered(
        bytecode=buffer.getvalue(),
        inputs=taken,
        weights=weights_of(exported, weights, constant),
        outputs=given,
        checks=checks,
        dim_names=dict(dim_names or {}),
    )


def _tagged(specs: Sequence[TensorSpec], elements: Mapping[str, str]) -> tuple[TensorSpec, ...]:
    return tuple(dataclasses.replace(spec, element=elements.get(spec.name, "")) for spec in specs)


def _names(nodes: Sequence[Node]) -> list[str]:
    return [str(n.target) for n in nodes]


def _placeholders(exported: ExportedProgram) -> tuple[list[Node], list[Node]]:
    nodes = [n for n in exported.graph.nodes if n.op == "placeholder"]
    users: list[Node] = []
    weights: list[Node] = []
    specs = {spec.arg.name: spec for spec in exported.graph_signature.input_specs}
    for node in nodes:
        spec = specs[node.name]
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(node.meta.get("val"), torch.Tensor):
                users.append(node)
            elif node.users:
                raise refuse("O2M-L002", f"the input {node.name} is not a tensor", node=node_ref(node))
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            weights.append(node)
        elif node.users:
            raise refuse("O2M-L002", f"the input {node.name} is of kind {spec.kind.name}", node=node_ref(node))
    return users, weights


def _output_specs(exported: ExportedProgram, outputs: Sequence[Spec], names: Sequence[str] | None) -> tuple[TensorSpec, ...]:
    own = [getattr(s.arg, "name", f"output_{i}") for i, s in enumerate(exported.graph_signature.output_specs)]
    return tuple(TensorSpec(n, s.dtype, s.shape) for n, s in zip(names or own, outputs, strict=True))


def _build(
    ctx: Context, exported: ExportedProgram, inputs: Sequence[Node], weights: Sequence[Node], constant: ConstantResults
) -> tuple[ir.Module, list[Spec]]:
    b = ctx.b
    nodes = [*inputs, *weights, *constant.nodes]
    specs = [spec_of(n.meta["val"]) for n in nodes]
    types = [b.tensor_type(s.dtype, s.shape) for s in specs]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function = b.op("func.func", [], [], {"sym_name": ir.StringAttr.get("main")}, regions=1)
        block = function.regions[0].blocks.append(*types)
        with ir.InsertionPoint(block):
            operands = [Operand(s.dtype, s.shape, v) for s, v in zip(specs, block.arguments, strict=True)]
            bind_dims(ctx, operands)
            requirements = Requirements(ctx, exported)
            environment = dict(zip(nodes, operands, strict=True))
            results = _Walk(ctx, environment, requirements, constant.skipped).run(exported.graph_module)
            b.op("func.return", [], [r.value for r in results])
        erase_unused(function)
        kind = ir.FunctionType.get(types, [r.value.type for r in results])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
    return module, [r.spec for r in results]


def _lower_subgraph(ctx: Context, module: GraphModule, operands: Sequence[Any]) -> list[Any]:
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    environment: dict[Node, Any] = {}
    for node, operand in zip(nodes, operands, strict=True):
        if isinstance(operand, Operand):
            declared = spec_of(node.meta["val"]) if "val" in node.meta else operand.spec
            operand = retyped(ctx, operand, declared)
            bind_dims(ctx, [operand])
        environment[node] = operand
    return _Walk(ctx, environment, None).run(module)


class _Walk:
    """Lowers the nodes of one graph in order."""

    def __init__(
        self,
        ctx: Context,
        environment: dict[Node, Any],
        requirements: Requirements | None,
        skipped: Collection[Node] = (),
    ) -> None:
        self.ctx = ctx
        self.env = environment
        self.skipped = skipped
        self.rules = load_rules()
        self.requirements = requirements
        self.module: GraphModule | None = None

    def run(self, module: GraphModule) -> list[Any]:
        self.module = module
        locations: dict[str, ir.Location] = {}
        for node in module.graph.nodes:
            if node.op == "call_function" and node not in self.env and node not in self.skipped:
                name = str(node.meta.get("onnx_node", node.name))
                location = locations.get(name)
                if location is None:
                    location = locations[name] = ir.Location.name(name)
                with location:
                    try:
                        self.call(node)
                    except Refusal as refusal:
                        raise Refusal([f.at(node_ref(node)) for f in refusal.findings]) from refusal
            elif node.op == "output":
                returned = node.args[0]
                flat = returned if isinstance(returned, (tuple, list)) else (returned,)
                return [self.returned(v) for v in flat]
        raise AssertionError("a graph without an output node")

    def returned(self, argument: Any) -> Any:
        value = self.resolve(argument)
        if isinstance(value, Operand) or value is None:
            return value
        scalar, dtype = self.ctx.sizes.scalar(sympy.sympify(value))
        tensor = self.ctx.b.make("tensor.from_elements", self.ctx.b.tensor_type(dtype, ()), scalar)
        return Operand(dtype, (), tensor)

    def resolve(self, argument: Any) -> Any:
        """An argument of a node as a rule takes it."""
        if isinstance(argument, Node):
            found = self.env.get(argument)
            if found is not None:
                return found
            if argument.op == "get_attr":
                return _attribute(self.module, str(argument.target))
            return symbolic(argument.meta["val"])
        if isinstance(argument, (list, tuple)):
            return [self.resolve(a) for a in argument]
        return symbolic(argument)

    def call(self, node: Node) -> None:
        name = target_name(node.target)
        value = node.meta.get("val")
        if name == "getitem":
            source = self.env.get(cast(Node, node.args[0]))
            if source is not None:
                self.env[node] = source[node.args[1]]
            return
        if name == "aten._assert_scalar.default":
            self.assert_scalar(node)
            return
        if name.startswith(_IGNORED) or (isinstance(value, _SYMBOLIC) and name not in self.rules):
            return
        args = [self.resolve(a) for a in node.args]
        kwargs = {k: self.resolve(v) for k, v in node.kwargs.items()}
        result = on_integers(self.ctx, node, name, args, kwargs)
        if result is None:
            result = self.rules[name](self.ctx, node, *plain(args), **plain(kwargs))
        if result is None:
            pass
        elif isinstance(result, Operand):
            self.check(node, result, self.ctx.spec(node), name)
            self.env[node] = result
        else:
            for each, declared in zip(result, self.ctx.specs(node), strict=True):
                self.check(node, each, declared, name)
            self.env[node] = list(result)
        if self.requirements is not None:
            self.requirements.after_binding(ctx=self.ctx)

    def check(self, node: Node, result: Operand, declared: Spec, name: str) -> None:
        """Refuse (O2M-L003) a result that is not what the program declares."""
        if isinstance(result, Scaled) and result.dtype is declared.dtype and result.shape == declared.shape:
            bind_results(self.ctx, [declared], [result.codes.value])
            return
        wanted = self.ctx.b.tensor_type(declared.dtype, declared.shape)
        if result.dtype is not declared.dtype or result.value.type != wanted:
            raise refuse(
                "O2M-L003",
                f"the rule of {name} gave {result.value.type} ({result.dtype}) for {wanted} ({declared.dtype})",
                node=node_ref(node),
            )
        bind_results(self.ctx, [declared], [result.value])

    def assert_scalar(self, node: Node) -> None:
        condition = self.resolve(node.args[0])
        message = str(node.args[1]) if len(node.args) > 1 else f"{condition} must hold"
        if not isinstance(condition, Operand):
            self.ctx.require(condition, message)
            return
        self.ctx.assert_true(self.ctx.at(condition, []), message)


def symbolic(value: Any) -> Any:
    """Symbolic numbers as sympy expressions (or Python numbers where known); everything else as it is."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        expr = value.node.expr
        if expr.is_Integer:
            return int(expr)
        if expr in (sympy.true, sympy.false):
            return bool(expr)
        return float(expr) if expr.is_Float else expr
    return value


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _refuse_unknown(module: GraphModule, rules: Mapping[str, Any]) -> None:
    missing: dict[str, Node] = {}
    for graph in [m for m in module.modules() if isinstance(m, GraphModule)]:
        for node in graph.graph.nodes:
            if node.op != "call_function":
                continue
            name = target_name(node.target)
            if name in rules or name in missing or name == "getitem" or name == "aten._assert_scalar.default":
                continue
            if not isinstance(node.meta.get("val"), _SYMBOLIC) and not name.startswith(_IGNORED):
                missing[name] = node
    if missing:
        raise Refusal(
            [
                Finding("O2M-L001", why_missing(name), case=name, node=node_ref(node))
                for name, node in missing.items()
            ]
        )


def _verify(module: ir.Module) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        parts = [f"{d.message} at {d.location}" for d in error.error_diagnostics]
        raise refuse("O2M-L004", "; ".join(parts)[:2000] or str(error)) from error
