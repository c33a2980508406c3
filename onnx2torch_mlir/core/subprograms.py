"""Control flow: sub-programs of torch's higher-order operators ``cond``, ``while_loop`` and ``scan``.

A sub-program is built by a builder of its own that shares the symbols; a value of an outer program that it uses is
captured: it becomes an extra operand of the operator and a placeholder inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sympy
import torch
import torch.fx

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.nodes import eliminate_dead_code
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.symbolic_nodes import SymbolicNodes
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

Body = Callable[[ProgramBuilder, list[Value]], list[Value]]
AnyBody = Callable[[ProgramBuilder, list[Any]], list[Any]]
"""A body that also takes and gives values that are no tensors (`core.composites`)."""
Join = Callable[[Sequence[ProgramBuilder], Sequence[list[Any]]], list[list[Value]]]
"""Makes tensors, of the same kinds, of what the two bodies of `cond` give."""


@dataclass(frozen=True)
class Formal:
    """An input of a graph attribute as the graph declares it; what is not known is None."""

    name: str
    dtype: torch.dtype | None
    shape: tuple[int | str | None, ...] | None


class SubGraph(Protocol):
    """A graph attribute as a converter sees it: call it to convert its nodes into a program."""

    @property
    def formals(self) -> tuple[Formal, ...]:
        """The inputs."""

    @property
    def arity(self) -> int:
        """Number of inputs."""

    @property
    def outputs(self) -> int:
        """Number of outputs."""

    def __call__(self, g: ProgramBuilder, inputs: Sequence[Any] = ()) -> list[Any]:
        """The outputs for ``inputs``, computed in ``g``."""


class _CapturingSymbols(SymbolicNodes):
    """Sizes inside a sub-program: what only the outer program knows is captured."""

    def __init__(self, builder: SubProgramBuilder) -> None:
        super().__init__(builder)
        self._sub = builder

    def node(self, expression: sympy.Basic) -> Any:
        """As in the base class; a symbol of the outer program becomes an operand."""
        if isinstance(expression, sympy.Symbol) and not super().is_bound(expression):
            outer = self._sub.parent.symbols.node(expression)
            inner = self._sub.capture_node(outer, str(expression))
            inner.meta["val"] = self._sub.table.symint(expression)
            self.define(expression, inner)
            return inner
        return super().node(expression)

    def is_bound(self, symbol: sympy.Symbol) -> bool:
        """Whether this program or one around it can compute ``symbol``."""
        return super().is_bound(symbol) or self._sub.parent.symbols.is_bound(symbol)


class SubProgramBuilder(ProgramBuilder):
    """Builds the body of a control-flow operator inside ``parent``."""

    def __init__(self, parent: ProgramBuilder) -> None:
        super().__init__(parent.table)
        self.parent = parent
        self.origin = parent.origin
        self.trips = parent.trips
        self.streams = parent.streams
        self.symbols = _CapturingSymbols(self)
        self.captured: list[torch.fx.Node] = []
        self._inner: dict[torch.fx.Node, torch.fx.Node] = {}
        self._anchor: torch.fx.Node | None = None
        self._names_of = dict(parent._names_of)

    def parameter(self, name: str, type_: TensorType) -> Value:
        """A placeholder of the body."""
        node = self.graph.placeholder(self._unique(name))
        self._anchor = node
        value = self._value(node, type_.dtype, type_.shape, name)
        value.element = type_.element
        return value

    def adopt(self, value: Value) -> torch.fx.Node:
        """A node in this program for a value of an outer one."""
        return self.capture_node(self.parent.node_of(value), value.name or "captured")

    def capture_node(self, outer: torch.fx.Node, name: str) -> torch.fx.Node:
        """The placeholder that stands for a node of the outer program."""
        if outer not in self._inner:
            with self._after_placeholders():
                node = self.graph.placeholder(self._unique(name))
            self._anchor = node
            node.meta.update(outer.meta)
            self._inner[outer] = node
            self.captured.append(outer)
        return self._inner[outer]

    def materialize(self, value: Value) -> torch.fx.Node:
        """Constants of the model are lifted in the outermost program and captured."""
        contents = value._contents
        if value._load is not None or (isinstance(contents, torch.Tensor) and contents.numel() != 1):
            outer = Value(self.parent, value.dtype, value.shape, contents=contents, load=value._load, name=value.name)
            return self.adopt(outer)
        return super().materialize(value)

    def _after_placeholders(self) -> Any:
        if self._anchor is not None:
            return self.graph.inserting_after(self._anchor)
        return self.graph.inserting_before(next(iter(self.graph.nodes), None))

    def module(self, outputs: Sequence[Value], *, bare: bool = False) -> torch.fx.GraphModule:
        """The finished body, giving a tuple, or its only output ``bare``.

        An output that is a placeholder is copied, since the operators allow no aliases.
        """
        nodes = []
        for value in outputs:
            node = self.node_of(value)
            if node.op == "placeholder" or node in nodes:
                node = self.call("aten.clone.default", _known_node(self, value, node)).node
            nodes.append(node)
        self.graph.output(nodes[0] if bare else tuple(nodes))
        eliminate_dead_code(self.graph)
        return torch.fx.GraphModule(self.modules, self.graph)


def _known_node(builder: ProgramBuilder, value: Value, node: torch.fx.Node) -> Value:
    return Value(builder, value.dtype, value.shape, node=node)


def scan(
    g: ProgramBuilder, body: Body, init: Sequence[Value], sequences: Sequence[Value], length: Dim
) -> tuple[list[Value], list[Value]]:
    """Run ``body`` over the first axis of ``sequences``; gives the last carries and the stacked other results.

    ``body`` gets the carries and one element of each sequence, and returns the new carries, then what is stacked.

    Source: `torch._higher_order_ops.scan`.

    Raises:
        Refusal: O2M-C003 where a carry changes its type.
    """
    inner = SubProgramBuilder(g)
    carried = [TensorType(value.dtype, value.shape, value.element) for value in init]
    carries = [inner.parameter(f"carry{i}", type_) for i, type_ in enumerate(carried)]
    elements = [
        inner.parameter(f"element{i}", TensorType(value.dtype, value.shape[1:], value.element))
        for i, value in enumerate(sequences)
    ]
    for element, sequence in zip(elements, sequences, strict=True):
        element.contiguous = sequence.contiguous
    for carry in carries:
        carry.contiguous = False
    with g.table.inside():
        results = body(inner, [*carries, *elements])
        types = [TensorType(value.dtype, tuple(map(g.simplify, value.shape)), value.element) for value in results]
        for carry, result in zip(carries, results, strict=False):
            require_same(inner, carry, result)
        for result, item in zip(results[len(init) :], types[len(init) :], strict=True):
            if not all(known_around(g, size) for size in item.shape):
                raise refuse("O2M-C003", f"each step decides the size of the scan output {described(g, result)}")
        module = inner.module(results)
    stacked = [TensorType(item.dtype, (length, *item.shape), item.element) for item in types[len(init) :]]
    operands = ([g.node_of(value) for value in init], [g.node_of(value) for value in sequences], tuple(inner.captured))
    outputs = g.emit_higher_order(torch.ops.higher_order.scan, "scan_body", [module], operands, (*carried, *stacked))
    return list(outputs[: len(init)]), list(outputs[len(init) :])


def known_around(g: ProgramBuilder, size: Dim) -> bool:
    """Whether ``g``, the program around a branch or a body, can compute a size that is used inside."""
    return isinstance(size, int) or all(g.symbols.is_bound(symbol) for symbol in size.free_symbols)


def check_carried(g: ProgramBuilder, before: Value | TensorType, after: Value | TensorType) -> None:
    """Refuse (O2M-C003) a carried value whose dtype or rank changes."""
    if (before.dtype, before.element, len(before.shape)) != (after.dtype, after.element, len(after.shape)):
        what = "rank" if (before.dtype, before.element) == (after.dtype, after.element) else "dtype"
        first = described(g, before)
        raise refuse("O2M-C003", f"a value carried by a loop changes its {what}: {first} becomes {described(g, after)}")


def require_same(b: ProgramBuilder, before: Value | TensorType, after: Value) -> None:
    """Assert that a carried value keeps its sizes; refuse (O2M-C003) one whose dtype or rank changes."""
    check_carried(b, before, after)
    for own, new in zip(before.shape, after.shape, strict=True):
        b.require_equal(own, new, "size of a value carried by a loop")


def described(g: ProgramBuilder, value: Value | TensorType) -> str:
    """A value for a message: its ONNX name, element type and dims, as ``y float[N, 3]``."""
    word = value.element or str(value.dtype).removeprefix("torch.").replace("_", "")
    word = {"float32": "float", "float64": "double"}.get(word, word)
    name = f"{value.name} " if isinstance(value, Value) and value.name else ""
    return f"{name}{word}[{', '.join(g.table.describe(g.simplify(size)) for size in value.shape)}]"


def cond(
    g: ProgramBuilder, condition: Value, bodies: tuple[AnyBody, AnyBody], join: Join | None = None
) -> list[Value]:
    """``bodies[0]`` if the 0-d bool ``condition`` holds, else ``bodies[1]``.

    A size in which the two results differ becomes a data-dependent size. Bodies that give more than tensors need ``join``,
    which makes tensors of both results.

    Source: `torch.cond`.

    Raises:
        Refusal: O2M-C003 where the two give different dtypes or ranks.
    """
    builders = [SubProgramBuilder(g), SubProgramBuilder(g)]
    results = []
    for body, builder in zip(bodies, builders, strict=True):
        with g.table.inside():
            results.append(body(builder, []))
            for value in results[-1]:
                if isinstance(value, Value):
                    builder.node_of(value)
    if join is not None:
        with g.table.inside():
            results = join(builders, results)
            for builder, result in zip(builders, results, strict=True):
                for value in result:
                    builder.node_of(value)
    types = []
    for first, second in zip(*results, strict=True):
        if (first.dtype, first.element, first.rank) != (second.dtype, second.element, second.rank):
            what = "ranks" if (first.dtype, first.element) == (second.dtype, second.element) else "dtypes"
            one, other = described(g, first), described(g, second)
            raise refuse(
                "O2M-C003",
                f"the branches give values of different {what} where one has to come out: {one} if true, {other} if false",
                case=what,
            )
        shape = tuple(
            a if a == b and known_around(g, a) else g.table.new_symbol(f"size of {g.origin}")
            for a, b in zip(first.shape, second.shape, strict=True)
        )
        types.append(TensorType(first.dtype, shape, first.element))
    captured: list[torch.fx.Node] = list(dict.fromkeys(node for builder in builders for node in builder.captured))
    modules = [
        _with_operands(builder, captured).module(result) for builder, result in zip(builders, results, strict=True)
    ]
    operands = (tuple(captured),)
    outputs = g.emit_higher_order(
        torch.ops.higher_order.cond, "branch", modules, operands, tuple(types), before=(g.node_of(condition),)
    )
    return list(outputs)


def _with_operands(builder: SubProgramBuilder, captured: Sequence[torch.fx.Node]) -> SubProgramBuilder:
    """The placeholders of ``builder`` in the order of ``captured``, with unused ones for what only others use."""
    nodes = [builder.capture_node(outer, "captured") for outer in captured]
    if not nodes:
        return builder
    first = next(iter(builder.graph.nodes))
    for node in nodes:
        if node is first:
            first = first.next
        else:
            first.prepend(node)
    builder._anchor = nodes[-1] if nodes else None
    return builder


def while_loop(
    g: ProgramBuilder,
    condition: Body,
    body: Body,
    init: Sequence[Value],
    types: Sequence[TensorType] | None = None,
    results: Sequence[TensorType] | None = None,
) -> list[Value]:
    """Run ``body`` on the carries as long as ``condition`` (a 0-d bool of them) holds; gives the last carries.

    ``types`` are the carries' types at the start of every turn, where they are wider than those of ``init``: a size that
    changes is a symbol that is used for nothing else. ``results`` are the types after the loop, with symbols of their own.

    Source: `torch._higher_order_ops.while_loop`.

    Raises:
        Refusal: O2M-C003 where a carry changes its dtype or rank.
    """
    types = list(types or [TensorType(value.dtype, value.shape, value.element) for value in init])
    results = list(results or types)
    builders = [SubProgramBuilder(g), SubProgramBuilder(g)]
    outcomes = []
    for builder, function in zip(builders, (condition, body), strict=True):
        with g.table.inside():
            carries = [builder.parameter(f"carry{i}", type_) for i, type_ in enumerate(types)]
            for carry in carries:
                carry.contiguous = False
            outcomes.append(function(builder, carries))
            for value in outcomes[-1]:
                builder.node_of(value)
    for before, after in zip(types, outcomes[1], strict=True):
        check_carried(g, before, after)
    captured = list(dict.fromkeys(node for builder in builders for node in builder.captured))
    modules = []
    for builder, outcome in zip(builders, outcomes, strict=True):
        placeholders = [node for node in builder.graph.nodes if node.op == "placeholder"][: len(types)]
        last = placeholders[-1]
        for outer in captured:
            node = builder.capture_node(outer, "captured")
            last.append(node)
            last = node
        builder._anchor = last
        modules.append(builder.module(outcome, bare=builder is builders[0]))
    operands = (tuple(g.node_of(value) for value in init), tuple(captured))
    outputs = g.emit_higher_order(torch.ops.higher_order.while_loop, "loop", modules, operands, tuple(results))
    return list(outputs)
