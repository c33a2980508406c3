"""The program builder: converters call primitives through it, and it infers, folds, emits and records.

A call goes through four steps: contents that are known are computed on the spot (`folding`); otherwise the shape rule of
the primitive gives the result's type (`shapes`), a node is appended to the FX graph, and the node is stamped with the
ONNX node that is being converted.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch
import torch.fx

from onnx2torch_mlir.core import folding, shapes
from onnx2torch_mlir.core.dim_table import DimTable
from onnx2torch_mlir.core.dims import fits, to_dim
from onnx2torch_mlir.core.extension import ADDED
from onnx2torch_mlir.core.nodes import Projection, element_among, keeps_contiguous, overload
from onnx2torch_mlir.core.primitives import CARRYING, PRIMITIVES
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.sizing import Sizing
from onnx2torch_mlir.core.symbolic_nodes import SymbolicNodes
from onnx2torch_mlir.core.values import SymbolicArray, Value

Argument = Any
"""An argument of a primitive: Value, size, number, bool, dtype, None, or a list of these."""


@dataclass
class Constant:
    """A tensor lifted out of the graph: a weight, or contents too large to be written as an operation."""

    name: str
    spec_shape: tuple[int, ...]
    dtype: torch.dtype
    load: Callable[[], torch.Tensor]
    node: torch.fx.Node


@dataclass
class ProgramBuilder(Sizing):
    """Builds one core program (or one sub-program of a control-flow operator).

    ``trips`` are the trip numbers of the loops around the node that is being converted, the outermost first;
    ``streams`` numbers the nodes that draw random numbers.
    """

    table: DimTable = field(default_factory=DimTable)

    def __post_init__(self) -> None:
        self.graph = torch.fx.Graph()
        self.modules = torch.nn.Module()
        self.inputs: list[Value] = []
        self.constants: list[Constant] = []
        self.origin: str = ""
        self.trips: tuple[Value, ...] = ()
        self.streams: Iterator[int] = itertools.count()
        self.symbols = SymbolicNodes(self)
        self._names: set[str] = set()
        self._first_input: torch.fx.Node | None = None
        self._asserted: set[sympy.Basic] = set()
        self._full_cache: dict[Any, Value] = {}
        self._size_of: dict[sympy.Basic, sympy.Symbol] = {}
        self._names_of: dict[sympy.Basic, sympy.Symbol] = {}

    # --- inputs and constants -------------------------------------------------------------------------------------

    def input(self, name: str, dtype: torch.dtype, shape: Sequence[int | str | None]) -> Value:
        """A program input; a string in ``shape`` is an ONNX dim name, None an anonymous dim of its own."""
        sizes = tuple(
            dim
            if isinstance(dim, int)
            else self.table.new_symbol(f"{name}.{axis}")
            if dim is None
            else self.table.input_symbol(dim)
            for axis, dim in enumerate(shape)
        )
        node = self.graph.placeholder(self._unique(name))
        self._first_input = self._first_input or node
        value = self._value(node, dtype, sizes, name)
        self.inputs.append(value)
        return value

    def constant(
        self, name: str, dtype: torch.dtype, shape: Sequence[int], load: Callable[[], torch.Tensor]
    ) -> Value:
        """A constant of the model; ``load`` reads it and is not called unless its contents decide something."""
        return Value(self, dtype, tuple(shape), load=load, name=name)

    def known(self, contents: torch.Tensor | SymbolicArray, dtype: torch.dtype = torch.int64) -> Value:
        """A value whose contents are known now: a tensor, or an object array of sizes of integer ``dtype``."""
        if isinstance(contents, torch.Tensor):
            return Value(self, contents.dtype, tuple(contents.shape), contents=contents)
        return Value(self, dtype, tuple(contents.shape), contents=contents)

    def sizes(self, dims: Sequence[Dim], dtype: torch.dtype = torch.int64) -> Value:
        """The 1-D integer value that lists ``dims``."""
        if all(isinstance(dim, int) for dim in dims):
            return self.known(torch.tensor(list(dims), dtype=dtype))
        array = np.empty(len(dims), dtype=object)
        array[:] = list(dims)
        return self.known(array, dtype)

    def scalar(self, number: float | int | bool, dtype: torch.dtype) -> Value:
        """A 0-d value."""
        return self.known(torch.tensor(number, dtype=dtype))

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, primitive: str, *args: Argument, **kwargs: Argument) -> Any:
        """Call ``primitive`` (``"aten.add.Tensor"``) and return its result: a Value, or a tuple of them.

        Raises:
            Refusal: O2M-C006 where shapes or dtypes do not fit.
            KeyError: the primitive is not in the closed list (a defect of the converter).
            TypeError: arithmetic on elements of less than a byte, which only movement may see as they are held.
        """
        if primitive not in PRIMITIVES and primitive not in ADDED:
            raise KeyError(f"{primitive} is not a core primitive")
        element = element_among(args)
        if element and primitive not in CARRYING:
            raise TypeError(f"{primitive} does not compute on {element}")
        result = self._call(primitive, args, kwargs)
        return result.tagged(element) if element else result

    def _call(self, primitive: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Any:
        folded = folding.fold(self, primitive, args, kwargs)
        if folded is not None:
            return folded
        result = self._in_small_sizes(shapes.infer(self, primitive, args, kwargs))
        if primitive == "aten.view.default" and not args[0].contiguous:
            args = (self._contiguous(args[0]), *args[1:])
        value = self.emit(overload(primitive), args, kwargs, result)
        if isinstance(value, Value):
            value.contiguous = keeps_contiguous(primitive, args)
        return value

    def _in_small_sizes(self, result: shapes.Result) -> shapes.Result:
        if not isinstance(result, shapes.TensorType):
            return tuple(map(self._in_small_sizes, result))  # type: ignore[arg-type]
        if all(map(fits, result.shape)):
            return result
        return shapes.TensorType(result.dtype, tuple(self.bounded(dim, size=True) for dim in result.shape), result.element)

    def _contiguous(self, x: Value) -> Value:
        """``x`` laid out afresh: eager PyTorch cannot view a permuted tensor; lowerings see no difference."""
        arguments = {"memory_format": torch.contiguous_format}
        return self.emit(overload("aten.clone.default"), (x,), arguments, shapes.TensorType(x.dtype, x.shape))

    def emit(
        self, target: Any, args: Sequence[Argument], kwargs: dict[str, Argument], result: shapes.Result
    ) -> Any:
        """Append a node that calls ``target`` and gives ``result`` (one type, or a tuple of types)."""
        node = self.graph.call_function(target, self.lower_arguments(args), self.lower_arguments(kwargs))
        self.stamp(node)
        if isinstance(result, shapes.TensorType):
            return self._value(node, result.dtype, result.shape)
        node.meta["val"] = tuple(self.table.fake(item.dtype, item.shape) for item in result)
        return tuple(Projection(self, node, index, item) for index, item in enumerate(result))

    def emit_higher_order(
        self,
        operator: Any,
        name: str,
        modules: Sequence[torch.fx.GraphModule],
        operands: Sequence[Any],
        result: tuple[shapes.TensorType, ...],
        before: Sequence[torch.fx.Node] = (),
    ) -> tuple[Value, ...]:
        """Append a call of a control-flow operator with its sub-programs, which become modules of the program."""
        references = []
        for module in modules:
            target = self._unique(name)
            self.modules.add_module(target, module)
            node = self.graph.get_attr(target)
            self.stamp(node)
            references.append(node)
        node = self.graph.call_function(operator, (*before, *references, *operands))
        self.stamp(node)
        node.meta["val"] = tuple(self.table.fake(item.dtype, item.shape) for item in result)
        values = tuple(Projection(self, node, index, item) for index, item in enumerate(result))
        for value in values:
            if any(isinstance(size, sympy.Symbol) and not self.symbols.is_bound(size) for size in value.shape):
                self._bind(value.node, value.shape)
        return values

    def node_of(self, value: Value) -> torch.fx.Node:
        """The node of ``value`` in this program."""
        return value.node if value.builder is self else self.adopt(value)

    def adopt(self, value: Value) -> torch.fx.Node:
        """A node for a value of another program: only sub-programs have one (they capture it)."""
        raise LookupError(f"{value!r} belongs to another program")

    def lower_arguments(self, argument: Any) -> Any:
        """``argument`` as FX takes it: nodes for values, and for sizes that are expressions."""
        if isinstance(argument, Value):
            return self.node_of(argument)
        if isinstance(argument, list | tuple):
            return type(argument)(self.lower_arguments(item) for item in argument)
        if isinstance(argument, dict):
            return {key: self.lower_arguments(item) for key, item in argument.items()}
        if isinstance(argument, sympy.Basic):
            size = self.simplify(argument)
            return size if isinstance(size, int) else self.symbols.node(size)
        return argument

    # --- nodes ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def converting(self, onnx_node: str) -> Iterator[None]:
        """Stamp the nodes made inside with the name of the ONNX node they come from."""
        previous, self.origin = self.origin, onnx_node
        try:
            yield
        finally:
            self.origin = previous

    @contextlib.contextmanager
    def turn(self, trip: Value) -> Iterator[None]:
        """Let ``trip`` be the number of the turn in which the nodes made inside run."""
        previous, self.trips = self.trips, (*self.trips, trip)
        try:
            yield
        finally:
            self.trips = previous

    def stamp(self, node: torch.fx.Node) -> None:
        """Record provenance on ``node``."""
        node.meta["onnx_node"] = self.origin

    def materialize(self, value: Value) -> torch.fx.Node:
        """A node for a value of which so far only the contents are known."""
        contents = value._contents
        if isinstance(contents, np.ndarray):
            return self._materialize_sizes(value, contents)
        if contents is not None and contents.numel() == 1 and _has_fill(contents.dtype):
            shape = [int(size) for size in contents.shape]
            return self._fill(shape, contents.item(), contents.dtype)
        load = value._load if contents is None else (lambda: contents)
        assert load is not None
        name = self._unique(f"c_{value.name}" if value.name else "c_constant")
        anchor = self._first_input
        if anchor is None:
            anchor = next(iter(self.graph.nodes), None)
        with self.graph.inserting_before(anchor) if anchor is not None else contextlib.nullcontext():
            node = self.graph.placeholder(name)
        self.stamp(node)
        node.meta["val"] = self.table.fake(value.dtype, value.shape)
        shape = [int(size) for size in value.shape]
        self.constants.append(Constant(value.name or name, tuple(shape), value.dtype, load, node))
        return node

    def _fill(self, shape: list[int], number: float | int | bool, dtype: torch.dtype) -> torch.fx.Node:
        key = (tuple(shape), repr(number), dtype)
        if key not in self._full_cache:
            kwargs = {"dtype": dtype}
            type_ = shapes.TensorType(dtype, tuple(shape))
            self._full_cache[key] = self.emit(torch.ops.aten.full.default, (shape, number), kwargs, type_)
        return self._full_cache[key].node

    def _materialize_sizes(self, value: Value, contents: SymbolicArray) -> torch.fx.Node:
        items = [self._materialize_size(to_dim(item), value.dtype) for item in contents.reshape(-1)]
        if not contents.shape:
            return items[0].node
        rows = [self.call("aten.view.default", item, [1]) for item in items]
        flat = self.call("aten.cat.default", rows, 0)
        return self.call("aten.view.default", flat, list(contents.shape)).node

    def _materialize_size(self, item: Dim, dtype: torch.dtype) -> Value:
        if not isinstance(item, sympy.Expr) or item.is_integer:
            return self.call("aten.scalar_tensor.default", item, dtype=dtype)
        numerator, denominator = map(to_dim, sympy.together(item).as_numer_denom())
        whole = self.call("aten.scalar_tensor.default", numerator, dtype=dtype)
        return self.div(whole, self.scalar(denominator, dtype))

    def _value(self, node: torch.fx.Node, dtype: torch.dtype, shape: tuple[Dim, ...], name: str = "") -> Value:
        node.meta["val"] = self.table.fake(dtype, shape)
        self._bind(node, shape)
        return Value(self, dtype, shape, node=node, name=name)

    def _bind(self, node: torch.fx.Node, shape: tuple[Dim, ...]) -> None:
        for axis, size in enumerate(shape):
            if isinstance(size, sympy.Symbol) and not self.symbols.is_bound(size):
                self.symbols.bind(size, node, axis)

    def _unique(self, name: str) -> str:
        stem = "".join(char if char.isalnum() else "_" for char in name) or "value"
        stem = stem if not stem[0].isdigit() else f"v_{stem}"
        candidate, count = stem, 1
        while candidate in self._names:
            candidate, count = f"{stem}_{count}", count + 1
        self._names.add(candidate)
        return candidate


def _has_fill(dtype: torch.dtype) -> bool:
    return dtype.itemsize > 1 or dtype in (torch.bool, torch.int8, torch.uint8)
