"""torch-mlir's FX importer for core programs: weights by reference, and no copy or change of the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sympy
import torch
from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.extras.fx_importer import FxImporter, FxImporterHooks, GraphNodeImporter, RangeConstraint

from onnx2torch_mlir.handoff.control_flow import import_cond, import_part, import_scan, import_while_loop
from onnx2torch_mlir.handoff.elements import Absent, absent_elements, elements
from onnx2torch_mlir.handoff.respell import RESPELLINGS
from onnx2torch_mlir.handoff.symbolic import SCALAR_OPERATIONS, scalar_kind
from onnx2torch_mlir.handoff.types import CoreContextCache

aten = torch.ops.aten

LARGE_BYTES = 64 << 10
"""Of a literal that may be left without data."""

_FAILURES = (NotImplementedError, AssertionError, LookupError, TypeError, ValueError, RuntimeError, AttributeError)
"""What upstream's importer raises for what it does not know."""


class NotCarriedError(Exception):
    """The torch dialect, or the importer, has no form for ``node``."""

    def __init__(self, node: torch.fx.Node, reason: str) -> None:
        self.node = node
        super().__init__(reason)


class WeightHooks(FxImporterHooks):  # type: ignore[misc]
    """Resolves the program's weights to literals that point into the tensors' own memory.

    Where ``absent`` is given, literals of more than `LARGE_BYTES` have no data; it takes these.
    """

    def __init__(self, absent: Absent | None = None) -> None:
        self._literals: dict[Any, Any] = {}
        self._absent = absent

    def resolve_input(self, gni: CoreNodeImporter, value: Any, info: Any) -> Any:
        """One literal per weight, named after it."""
        return self.literal(gni, value, info.input_spec.target) if isinstance(value, torch.Tensor) else None

    def resolve_literal(self, gni: CoreNodeImporter, literal: Any, info: Any) -> Any:
        """A tensor met in the graph itself; named by its position."""
        if not isinstance(literal, torch.Tensor):
            return None
        return self.literal(gni, literal, f"constant_{len(self._literals)}")

    def literal(self, gni: CoreNodeImporter, tensor: torch.Tensor, name: str) -> Any:
        """``torch.vtensor.literal`` of ``tensor``; tensors that share their memory share one resource."""
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype) if tensor.numel() else object()
        attribute = self._literals.get(key)
        if attribute is None:
            attribute = self._literals[key] = self._elements(tensor, name)
        return ir.Operation.create(
            "torch.vtensor.literal", results=[gni.cache.tensor_to_vtensor_type(tensor)], attributes={"value": attribute}
        ).result

    def _elements(self, tensor: torch.Tensor, name: str) -> Any:
        if self._absent is None or tensor.nbytes <= LARGE_BYTES or tensor.dtype is torch.bool:
            return elements(tensor, name)
        return absent_elements(tensor, name, self._absent)


@dataclass(frozen=True)
class Form:
    """What the importer makes of two things that the dialects differ about.

    ``split_views``: dynamic views as collapse and unflatten, without which upstream's way to Linalg goes wrong, and
    with which its ways to tosa and stablehlo, which take the sizes at their word, end. ``assertions``: whether to keep
    them.
    """

    split_views: bool = True
    assertions: bool = True


class CoreImporter(FxImporter):  # type: ignore[misc]
    """Imports core programs; use ``import_program``. ``left_out``: messages of the assertions not imported."""

    def __init__(self, context: Any, form: Form, absent: Absent | None = None) -> None:
        self.form = form
        self.left_out: list[str] = []
        super().__init__(context=context, hooks=WeightHooks(absent), graph_node_importer_cls=CoreNodeImporter)
        self._cc = CoreContextCache(context, py_attr_tracker=self._py_attr_tracker)


class CoreNodeImporter(GraphNodeImporter):  # type: ignore[misc]
    """Imports the nodes of one graph; numbers are made once per function."""

    __slots__ = ("_constants", "_here", "_lists")

    def __init__(self, fx_importer: Any, context: Any, context_cache: Any, block: Any) -> None:
        super().__init__(fx_importer, context, context_cache, block)
        self._constants: dict[tuple[type, Any], Any] = {}
        self._lists: dict[tuple[Any, ...], Any] = {}
        self._here: Any = None

    @property
    def form(self) -> Form:
        """What to make of views and assertions."""
        form: Form = self.fx_importer.form
        return form

    @property
    def cache(self) -> CoreContextCache:
        """The types of the context."""
        cache: CoreContextCache = self._cc
        return cache

    @property
    def list_type(self) -> Any:
        """The type of a list of numbers."""
        return ir.Type.parse("!torch.list<int>", context=self._c)

    def emit(self, name: str, results: Sequence[Any], operands: Sequence[Any], **attributes: Any) -> Any:
        """Append an operation at the location of the node being imported."""
        return ir.Operation.create(name, results=list(results), operands=list(operands), attributes=attributes, loc=self._here)

    def operand(self, argument: Any, schema_type: Any = None) -> Any:
        """The value of an argument: a node's, or a constant's."""
        return self._import_argument(self._here, argument, schema_type)

    def bind_results(self, node: torch.fx.Node, results: Sequence[Any]) -> None:
        """Say that ``results`` are what ``node`` gives: one value, or several that ``getitem`` nodes pick from."""
        if isinstance(node.meta["val"], list | tuple):
            self._multi_result_nodes.add(node)
        for index, value in enumerate(results):
            self.bind_node_value(node, value, index)

    def scalar_tensor(self, tensor: torch.Tensor) -> Any:
        """A literal of the small ``tensor``."""
        with self._here:
            return self.fx_importer._hooks.literal(self, tensor, "scalar")

    def import_nodes(
        self,
        nodes: Iterable[torch.fx.Node],
        *,
        skip_placeholders_outputs: bool = False,
        import_symbolic_shape_expressions: bool = False,
    ) -> None:
        """Import ``nodes`` in order."""
        arguments = iter(self._b.arguments)
        with ir.InsertionPoint(self._b):
            for node in nodes:
                self._here = self._cc.get_node_location(node)
                if node.op == "call_function" and scalar_kind(node) and node.target is not aten._local_scalar_dense.default:
                    self._v[node, 0] = partial(self._import_late, node)
                elif node.op == "call_function":
                    self._import_call(node)
                elif node.op == "placeholder" and import_symbolic_shape_expressions:
                    self._name_sizes(node)
                elif node.op == "placeholder" and not skip_placeholders_outputs:
                    self.bind_node_value(node, next(arguments))
                elif node.op == "output" and not skip_placeholders_outputs:
                    results = node.args[0] if isinstance(node.args[0], list | tuple) else [node.args[0]]
                    func.ReturnOp([self.operand(result) for result in results], loc=self._here)

    def _name_sizes(self, node: torch.fx.Node) -> None:
        """Say which symbols the sizes of an argument are, and their ranges."""
        shape = getattr(node.meta.get("val"), "shape", ())
        sizes = [size.node.expr for size in shape if isinstance(size, torch.SymInt)]
        value = self._v.get((node, 0))
        if not sizes or not isinstance(value, ir.Value) or not all(map(_is_affine, sizes)):
            return
        guards = self._cc.get_symbolic_guards()
        for symbol in sorted({str(symbol) for size in sizes for symbol in size.free_symbols}):
            if symbol not in self._symbol_to_value:
                guard = guards.get(symbol) or RangeConstraint(0, torch.iinfo(torch.int64).max)
                self._import_shape_symbols_with_guards(self._here, {symbol: guard})
        self._create_bind_symbolic_shape_ops(self._here, node)

    def _import_late(self, node: torch.fx.Node) -> Any:
        """A number, imported when something first uses it: pipelines without numbers refuse even unused ones."""
        del self._v[node, 0]
        before, self._here = self._here, self._cc.get_node_location(node)
        self._import_call(node)
        self._here = before
        return self._v[node, 0]

    def _import_call(self, node: torch.fx.Node) -> None:
        try:
            self._dispatch(node)
        except _FAILURES as error:
            raise NotCarriedError(node, f"{type(error).__name__}: {error}") from error

    def _dispatch(self, node: torch.fx.Node) -> None:
        target: Any = node.target
        respelling: Callable[[CoreNodeImporter, torch.fx.Node], bool] | None = RESPELLINGS.get(target)
        if respelling is not None and respelling(self, node):
            return
        if target is operator.getitem:
            self._import_getitem(self._here, node)
        elif target is aten.sym_size.int:
            self._import_torch_op_overload(self._here, node, aten.size.int)
        elif isinstance(target, torch._ops.OpOverload):
            self._import_torch_op_overload(self._here, node)
        elif isinstance(target, torch._ops.HigherOrderOperator):
            self._import_hop(self._here, node, target)
        else:
            self._import_scalar_function(node)

    def _import_scalar_function(self, node: torch.fx.Node) -> None:
        kinds = "".join(map(scalar_kind, node.args))
        if node.target is torch.sym_ite:
            self._import_choice(node)
            return
        name = SCALAR_OPERATIONS.get((node.target, kinds))  # type: ignore[arg-type]
        operands = [self.operand(argument) for argument in node.args]
        if name is None and "f" in kinds and set(kinds) <= {"i", "f"}:
            name = SCALAR_OPERATIONS.get((node.target, "f" * len(kinds)))  # type: ignore[arg-type]
            real = [self._cc.torch_float_type]
            operands = [
                self.emit("torch.aten.Float.Scalar", real, [value]).result if kind == "i" else value
                for kind, value in zip(kinds, operands, strict=True)
            ]
        if name is None:
            function = getattr(node.target, "__name__", str(node.target))
            raise NotImplementedError(f"the torch dialect has no operation for {function} on scalars ({kinds})")
        self.bind_node_value(node, self.emit(name, [self._cc.node_val_to_type(node)], operands).result)

    def _import_choice(self, node: torch.fx.Node) -> None:
        condition, *choices = (self.operand(argument) for argument in node.args)
        chosen = self.emit_if(condition, [self._cc.node_val_to_type(node)], [partial(list, [v]) for v in choices])
        self.bind_node_value(node, chosen.results[0])

    def emit_if(self, condition: Any, results: Sequence[Any], branches: Sequence[Callable[[], Sequence[Any]]]) -> Any:
        """``torch.prim.If`` whose two regions hold what ``branches`` emit and yield what these return."""
        choice = ir.Operation.create("torch.prim.If", list(results), [condition], regions=2, loc=self._here)
        for region, branch in zip(choice.regions, branches, strict=True):
            with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
                self.emit("torch.prim.If.yield", [], branch())
        return choice

    def _import_hop_cond(self, loc: Any, node: torch.fx.Node, hop: Any) -> None:
        import_cond(self, node)

    def _import_hop_while_loop(self, loc: Any, node: torch.fx.Node, hop: Any) -> None:
        import_while_loop(self, node)

    def _import_hop_scan(self, loc: Any, node: torch.fx.Node, hop: Any) -> None:
        import_scan(self, node)

    def _import_hop_invoke_subgraph(self, loc: Any, node: torch.fx.Node, hop: Any) -> None:
        import_part(self, node)

    def _import_argument(self, loc: Any, arg: Any, expected_jit_type: Any = None) -> Any:
        if isinstance(arg, torch.fx.Node) and arg.op == "get_attr":
            if (arg, 0) not in self._v:
                with loc, ir.InsertionPoint.at_block_begin(self._b):
                    self.bind_node_value(arg, self._import_literal(getattr(arg.graph.owning_module, str(arg.target))))
            return self.resolve_node_value(arg)
        return super()._import_argument(loc, arg, expected_jit_type)

    def _import_literal(self, py_value: Any, info: Any = None) -> Any:
        if isinstance(py_value, torch.Tensor):
            return self.fx_importer._hooks.resolve_literal(self, py_value, info)
        return self._number(py_value)

    def _import_default_value(self, loc: Any, arg: Any, expected_jit_type: Any) -> Any:
        if isinstance(arg, list):
            return self._import_list_argument(loc, arg, expected_jit_type)
        with loc:
            return self._number(arg)

    def _number(self, value: Any) -> Any:
        key = (type(value), repr(value) if isinstance(value, float) else value)
        found = self._constants.get(key)
        if found is None:
            # At the top, so that the regions of control flow can use what was first made for another.
            with ir.InsertionPoint.at_block_begin(self._b):
                found = self._constants[key] = super()._import_literal(value)
        return found

    def _import_list_argument(self, loc: Any, arg: Any, expected_jit_type: Any) -> Any:
        if any(isinstance(item, torch.fx.Node) for item in arg):
            return super()._import_list_argument(loc, arg, expected_jit_type)
        key = (str(expected_jit_type), *((type(item), item) for item in arg))
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = super()._import_list_argument(loc, arg, expected_jit_type)
        return found


def _is_affine(size: sympy.Expr) -> bool:
    if isinstance(size, sympy.Add | sympy.Mul):
        return all(map(_is_affine, size.args))
    return isinstance(size, sympy.Symbol | sympy.Integer)
