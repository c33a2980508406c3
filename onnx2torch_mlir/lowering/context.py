"""What a rule works with: the builder, the sizes, the declared results of its node, the conditions to be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import equation, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.hints import INDEPENDENT
from onnx2torch_mlir.lowering.builder import Builder
from onnx2torch_mlir.lowering.lowered import Check
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.sizes import Sizes

Number = bool | int | float | sympy.Basic
"""A scalar argument of a primitive: a Python number or an expression over symbolic sizes."""


class Context:
    """One module being built. ``b`` emits, ``sizes`` prints symbolic sizes."""

    def __init__(self, input_symbols: frozenset[sympy.Symbol], subgraph: Callable[..., Any]) -> None:
        self.b = Builder()
        self.sizes = Sizes(self.b)
        self.checks: dict[sympy.Basic, Check] = {}
        self._input_symbols = input_symbols
        self._subgraph = subgraph
        self._depth = 0
        self._specs: dict[int, tuple[Any, Spec]] = {}

    # --- results

    def specs(self, node: Node) -> list[Spec]:
        """Dtype and sizes of each tensor that ``node`` gives, as the program declares them."""
        value = node.meta["val"]
        return [self._spec(v) for v in (value if isinstance(value, (tuple, list)) else (value,))]

    def spec(self, node: Node) -> Spec:
        """Dtype and sizes of the one tensor that ``node`` gives."""
        return self._spec(node.meta["val"])

    def _spec(self, value: Any) -> Spec:
        """`spec_of`, once per fake tensor: programs share them between nodes of one type."""
        found = self._specs.get(id(value))
        if found is None or found[0] is not value:
            found = self._specs[id(value)] = (value, spec_of(value))
        return found[1]

    def operand(self, value: ir.Value, dtype: torch.dtype, shape: Sequence[Dim]) -> Operand:
        """A value with its dtype and sizes."""
        return Operand(dtype, tuple(shape), value)

    # --- conditions

    def require(self, condition: sympy.Basic | bool, message: str) -> None:
        """Let the program fail with ``message`` unless a condition on sizes holds.

        A condition over the inputs' dims alone is checked before the call; any other at its place in the program.
        """
        if condition is True or condition == sympy.true:
            return
        if condition is False or condition == sympy.false:
            if self._depth == 0:
                raise refuse("O2M-L002", f"can never hold: {message}")
            condition = sympy.false
        if self._depth == 0 and condition.free_symbols <= self._input_symbols:
            self.checks.setdefault(condition, Check(condition, message))
            return
        self.assert_true(self.sizes.condition(condition), message)
        if isinstance(condition, sympy.Ge | sympy.Le) and 0 in condition.args:
            self.sizes.numbers -= {condition.gts} if condition.lts == 0 else set()

    def require_equal(self, x: Dim, y: Dim, message: str) -> None:
        """Let the program fail with ``message`` unless two sizes are equal."""
        if not self.sizes.equal(x, y) and equation(y, x) not in self.checks:
            self.require(equation(x, y), f"{message}: {x} = {y}")

    def declare(self, dim: Dim, actual: Dim | ir.Value, message: str, *, size: bool = True) -> None:
        """Say that a declared size (or number) is ``actual``: remembers one that is new here, checks any other."""
        if not isinstance(dim, int) and not self.sizes.knows(dim):
            self.sizes.remember(dim, actual if isinstance(actual, ir.Value) else self.sizes.value(actual))
            if not size:
                self.sizes.numbers |= dim.free_symbols
        elif isinstance(actual, ir.Value):
            self.assert_true(self.b.compare("eq", self.sizes.value(dim), actual), f"{message}: {dim}")
        else:
            self.require_equal(dim, actual, message)

    def assert_true(self, condition: ir.Value, message: str) -> None:
        """``cf.assert``: end the call with ``message`` unless an i1 is true."""
        self.b.op("cf.assert", [], [condition], {"msg": ir.StringAttr.get(message)})

    # --- tensors

    def empty(self, dtype: torch.dtype, shape: Sequence[Dim]) -> ir.Value:
        """``tensor.empty``."""
        dynamic = [self.sizes.value(d) for d in shape if not isinstance(d, int)]
        return self.b.op("tensor.empty", [self.b.tensor_type(dtype, shape)], dynamic).results[0]

    def fill(self, scalar: ir.Value, dtype: torch.dtype, shape: Sequence[Dim]) -> Operand:
        """A tensor with every element ``scalar`` (linalg.fill)."""
        init = self.empty(dtype, shape)
        operation = self.b.op(
            "linalg.fill", [init.type], [scalar, init], {"operandSegmentSizes": self.b.segments(1, 1)}, regions=1
        )
        block = operation.regions[0].blocks.append(scalar.type, scalar.type)
        with ir.InsertionPoint(block):
            self.b.op("linalg.yield", [], [block.arguments[0]])
        return Operand(dtype, tuple(shape), operation.results[0])

    def full(self, value: bool | int | float, dtype: torch.dtype, shape: Sequence[Dim]) -> Operand:
        """A tensor with every element a constant."""
        return self.fill(self.b.constant(value, dtype), dtype, shape)

    def slots(self, dims: Sequence[Dim]) -> tuple[list[ir.Value], ir.Attribute]:
        """Sizes or offsets as an operation's (dynamic operands, static attribute)."""
        dynamic = [self.sizes.value(d) for d in dims if not isinstance(d, int)]
        return dynamic, self.b.i64_array([d if isinstance(d, int) else self.b.dynamic for d in dims])

    def at(self, x: Operand, indices: Sequence[ir.Value]) -> ir.Value:
        """``tensor.extract``."""
        return self.b.make("tensor.extract", self.b.element(x.dtype), x.value, *indices)

    # --- regions

    @contextmanager
    def region(self, block: ir.Block) -> Iterator[None]:
        """Emit in a block of a branch or loop; symbols bound there are forgotten at its end."""
        bound, numbers, meanings = dict(self.sizes.bound), set(self.sizes.numbers), dict(self.sizes.meanings)
        self._depth += 1
        try:
            with self.b.inside(block):
                yield
        finally:
            self._depth -= 1
            self.sizes.bound, self.sizes.numbers, self.sizes.meanings = bound, numbers, meanings

    def loop(
        self,
        count: ir.Value,
        carried: Sequence[ir.Value],
        body: Callable[..., Sequence[ir.Value]],
        *,
        start: ir.Value | None = None,
        step: ir.Value | None = None,
        independent: bool = False,
    ) -> list[ir.Value]:
        """``scf.for`` from ``start`` (0) to ``count`` by ``step`` (1); ``body(i, *carried)`` gives the next carried.

        ``independent`` turns read and write different elements of what they carry.
        """
        lower = self.b.idx(0) if start is None else start
        by = self.b.idx(1) if step is None else step
        types = [v.type for v in carried]
        operation = self.b.op("scf.for", types, [lower, count, by, *carried], regions=1)
        if independent:
            operation.attributes[INDEPENDENT] = ir.UnitAttr.get()
        block = operation.regions[0].blocks.append(self.b.index, *types)
        with self.region(block):
            self.b.op("scf.yield", [], list(body(*block.arguments)))
        return list(operation.results)

    def branch(
        self,
        condition: ir.Value,
        types: Sequence[ir.Type],
        then: Callable[[], Sequence[ir.Value]],
        otherwise: Callable[[], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """``scf.if`` with results."""
        operation = self.b.op("scf.if", list(types), [condition], regions=2)
        for region, body in zip(operation.regions, (then, otherwise), strict=True):
            with self.region(region.blocks.append()):
                self.b.op("scf.yield", [], list(body()))
        return list(operation.results)

    def repeat_while(
        self,
        carried: Sequence[ir.Value],
        condition: Callable[..., ir.Value],
        body: Callable[..., Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """``scf.while``: ``condition(*carried)`` gives an i1, ``body(*carried)`` the next carried values."""
        types = [v.type for v in carried]
        operation = self.b.op("scf.while", types, list(carried), regions=2)
        before = operation.regions[0].blocks.append(*types)
        with self.region(before):
            go = condition(*before.arguments)
            self.b.op("scf.condition", [], [go, *before.arguments])
        after = operation.regions[1].blocks.append(*types)
        with self.region(after):
            self.b.op("scf.yield", [], list(body(*after.arguments)))
        return list(operation.results)

    def repeat_until(
        self, carried: Sequence[ir.Value], body: Callable[..., tuple[ir.Value, Sequence[ir.Value]]]
    ) -> list[ir.Value]:
        """``scf.while``, its body first: ``body(*carried)`` gives an i1, whether to go on, and the next carried values."""
        types = [v.type for v in carried]
        operation = self.b.op("scf.while", types, list(carried), regions=2)
        before = operation.regions[0].blocks.append(*types)
        with self.region(before):
            again, following = body(*before.arguments)
            self.b.op("scf.condition", [], [again, *following])
        after = operation.regions[1].blocks.append(*types)
        with self.region(after):
            self.b.op("scf.yield", [], list(after.arguments))
        return list(operation.results)

    def subgraph(self, module: GraphModule, operands: Sequence[Any]) -> list[Any]:
        """Lower a control-flow branch or body in place; returns its results."""
        results: list[Any] = self._subgraph(self, module, operands)
        return results


def spec_of(value: Any) -> Spec:
    """Dtype and sizes of a (fake) tensor."""
    return Spec(value.dtype, tuple([d if type(d) is int else to_dim(d) for d in value.shape]))
