"""What a strategy draws with: sizes, shapes, types, arrays and attributes of one node, from hypothesis."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from onnx2torch_mlir.specs import Formal, OperatorVersion
from tools.fuzz_ops.case import Array, Case, Given, Surroundings, named_dims
from tools.fuzz_ops.values import fill

T = TypeVar("T")

SIZES = (2, 3, 1, 0, 5, 4, 7, 8, 11, 16, 17)
"""Sizes of a dim, the ones to shrink to first."""


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's (ml_dtypes') dtype of an ONNX type name such as "bfloat16"."""
    element = onnx.TensorProto.DataType.Value(name.upper())
    return helper.tensor_dtype_to_np_dtype(element)


class Draw:
    """The draw of one case: a strategy puts inputs and attributes into it, by their ONNX names."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], version: OperatorVersion, special: bool) -> None:
        self._draw = draw
        self.version = version
        self.special = special
        self.types: dict[str, str] = {}
        self._inputs: dict[str, list[Given | str | None]] = {}
        self.attributes: dict[str, Any] = {}
        self.outputs: tuple[bool, ...] | None = None
        self.symbolic = self.choose(("no", "all", "some"))
        self.broadcasts = False
        """Whether inputs broadcast: dims of different names are then taken to be equal, so one of size 1 has no name."""
        self._count = 0
        self.opset = 0
        """The default domain's opset of the model; 0 is the version's own."""
        self.before: list[onnx.NodeProto] = []
        self.after: list[onnx.NodeProto] = []
        self.results: tuple[str, ...] = ()
        self.output_types: dict[str, str] = {}
        """The element types of outputs, by their ONNX names, that no input decides."""
        self._more: dict[str, Given] = {}

    # Numbers and choices

    def choose(self, options: Sequence[T]) -> T:
        """One of ``options``; the first is the simplest."""
        chosen: T = self._draw(st.sampled_from(list(options)))
        return chosen

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return int(self._draw(st.integers(low, high)))

    def flag(self) -> bool:
        """False or True; False is the simpler one."""
        return bool(self._draw(st.booleans()))

    def one_in(self, count: int) -> bool:
        """True once in ``count``."""
        return self.integer(0, count - 1) == count - 1

    def size(self, low: int = 0, high: int = 11) -> int:
        """The size of a dim."""
        return self.choose([size for size in SIZES if low <= size <= high])

    def shape(self, low: int = 0, high: int = 5, smallest: int = 0) -> tuple[int, ...]:
        """A shape of rank ``low`` to ``high`` with some thousand elements at most."""
        rank = self.integer(low, high)
        largest = {0: 17, 1: 17, 2: 17, 3: 8, 4: 5}.get(rank, 4)
        return tuple(self.size(smallest, largest) for _ in range(rank))

    def broadcastable(self, shape: Sequence[int], *, prefix: bool = False) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``; with ``prefix`` possibly of a higher rank."""
        kept = list(shape[self.integer(0, len(shape)) :])
        for axis in range(len(kept)):
            if self.one_in(4):
                kept[axis] = 1
        if prefix and len(kept) == len(shape) and self.one_in(4):
            kept.insert(0, self.size(0, 3))
        return tuple(kept)

    def axis(self, rank: int) -> int:
        """An axis from -rank to rank - 1."""
        axis = self.integer(0, max(rank - 1, 0))
        return axis - rank if self.flag() else axis

    def axes(self, rank: int, *, empty: bool = True) -> list[int]:
        """Some distinct axes, each counted from either end."""
        kept = [axis for axis in range(rank) if self.flag()] or ([0] if rank and not empty else [])
        return [axis - rank if self.one_in(3) else axis for axis in self.permuted(kept)]

    def permuted(self, items: Sequence[T]) -> list[T]:
        """A permutation of ``items``."""
        return list(self._draw(st.permutations(list(items))))

    # Types

    def dtype(self, type_name: str, only: Sequence[str] | None = None) -> str:
        """The element type drawn for a type constraint (the same one each time), or the one that a formal's type names."""
        if type_name.startswith("tensor("):
            return type_name[7:-1]
        if type_name not in self.types:
            allowed = [kind for kind in self.allowed(type_name) if only is None or kind in only]
            # The types that models use first: they are the simple ones to shrink to, and drawn twice as often.
            common = [kind for kind in ("float", "int64", "float16", "double", "int32", "bool", "uint8") if kind in allowed]
            self.types[type_name] = self.choose(common + allowed)
        return self.types[type_name]

    def allowed(self, type_name: str) -> list[str]:
        """The element types of a type constraint, but for strings and what is no tensor."""
        constraint = self.version.type_constraints.get(type_name, (type_name,))
        kinds = [kind[7:-1] for kind in constraint if kind.startswith("tensor(")]
        return [kind for kind in kinds if kind != "string"]

    def formal(self, name: str) -> Formal:
        """The formal input of that name."""
        return next(formal for formal in self.version.inputs if formal.name == name)

    def has_input(self, name: str) -> bool:
        """Whether this version has the input."""
        return any(formal.name == name for formal in self.version.inputs)

    def has_attribute(self, name: str) -> bool:
        """Whether this version has the attribute."""
        return name in self.version.attributes

    # Inputs

    def array(self, dtype: str, shape: Sequence[int], low: float | None = None, high: float | None = None) -> Array:
        """An array of ``dtype`` with drawn values, between ``low`` and ``high`` where they are given."""
        style = self.choose(("small", "small", "varied", "zeros", "large", "special" if self.special else "varied"))
        seed = self.integer(0, 2**16)
        return fill(numpy_dtype(dtype), tuple(shape), style if low is None and high is None else "within", seed, low, high)

    def words(self, shape: Sequence[int], options: Sequence[str]) -> Array:
        """An array of strings."""
        rng = np.random.default_rng(self.integer(0, 2**16))
        found = np.empty(tuple(shape), object)
        found.reshape(-1)[:] = rng.choice(np.array(list(options), object), found.size)
        return found

    def indices(self, dtype: str, shape: Sequence[int], size: int, *, negative: bool = True) -> Array:
        """Indices into a dim of ``size``, which is not 0."""
        rng = np.random.default_rng(self.integer(0, 2**16))
        found = rng.integers(-size if negative and self.flag() else 0, size, tuple(shape))
        return np.asarray(found).astype(numpy_dtype(dtype))

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        *,
        low: float | None = None,
        high: float | None = None,
        known: bool | None = None,
        only: Sequence[str] | None = None,
        fixed: Sequence[int] = (),
    ) -> Array:
        """Give the input ``name`` an array of ``shape`` in the type of its formal; ``fixed`` axes are not symbolic."""
        array = self.array(self.dtype(self.formal(name).type, only), shape, low, high)
        return self.give(name, array, known=known, fixed=fixed)

    def give(
        self,
        name: str,
        array: Array | None,
        *,
        known: bool | None = None,
        static: bool = False,
        static_last: bool = False,
        fixed: Sequence[int] = (),
    ) -> Array:
        """Give the input ``name`` this array; of a variadic input the next one. ``known`` None: once in eight.

        ``static``, ``static_last`` and ``fixed`` keep all dims, the last one, or some from being symbolic: a rank depends
        on them.
        """
        if array is None:
            self._inputs.setdefault(name, []).append(None)
            return np.zeros(())
        self._inputs.setdefault(name, []).append(
            self._tensor(array, known=known, static=static, fixed=[array.ndim - 1] if static_last else fixed)
        )
        return array

    def _tensor(self, array: Array, *, known: bool | None, static: bool = False, fixed: Sequence[int] = ()) -> Given:
        if known is None:
            known = self.one_in(8)
        index = self._count
        self._count += 1
        symbolic = [
            not (known or static or (self.broadcasts and size == 1) or axis in fixed)
            and (self.symbolic == "all" or (self.symbolic == "some" and self.flag()))
            for axis, size in enumerate(array.shape)
        ]
        return Given(array, named_dims(index, array.shape, symbolic), known)

    def more(self, name: str, array: Array, *, known: bool | None = None, static: bool = False) -> None:
        """Give the model a further input ``name``, which nodes around the node and its sub-graphs may read."""
        self._more[name] = self._tensor(array, known=known, static=static)

    def value(self, name: str, value: Any, type_: onnx.TypeProto, *, symbolic: bool = False) -> None:
        """Give the input ``name`` what is no tensor: the list of a sequence, a map, or an optional."""
        self._inputs.setdefault(name, []).append(Given(value, ("n",) if symbolic else (), type=type_))

    def link(self, name: str, value: str) -> None:
        """The input ``name`` reads ``value``, which a node before makes."""
        self._inputs.setdefault(name, []).append(value)

    def parameter(self, name: str, value: Any, *, dtype: str | None = None, optional: bool = False) -> None:
        """Give an attribute or an input, as this version has it; an input is constant or arrives at run time."""
        if value is None or (optional and self.flag()):
            return
        if self.has_attribute(name):
            self.attributes[name] = value
        elif self.has_input(name):
            kind = dtype or self.dtype(self.formal(name).type)
            self.give(name, np.asarray(value, numpy_dtype(kind)), known=self.flag() is False, static=True)

    def attribute(self, name: str, *options: Any) -> Any:
        """Leave the attribute out, or give it one of ``options``, where this version has it; gives the value or None."""
        if not self.has_attribute(name):
            return None
        spec = self.version.attributes[name]
        if not spec.required and self.flag():
            return None
        self.attributes[name] = self.choose(options)
        return self.attributes[name]

    # The case

    def case(self) -> Case:
        """What was drawn."""
        read: list[Given | str | None] = []
        for formal in self.version.inputs:
            read.extend(self._inputs.get(formal.name, [] if formal.kind == "variadic" else [None]))
        while read and read[-1] is None:
            read.pop()
        links = tuple((index, item) for index, item in enumerate(read) if isinstance(item, str))
        inputs = [None if isinstance(item, str) else item for item in read]
        outputs = self.outputs or (True,)
        first = next(iter(self.types.values()), "")
        arrays = [array for item in (*inputs, *self._more.values()) if item is not None for array in item.arrays()]
        if not first and arrays:
            first = onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(arrays[0].dtype)).lower()
        more = tuple(self._more.items())
        around = Surroundings(more, tuple(self.before), tuple(self.after), links, self.results, self.opset)
        version = self.version
        declared = tuple(
            (place, self.output_types[formal.name])
            for place, formal in enumerate(version.outputs)
            if formal.name in self.output_types
        )
        return Case(
            version.domain,
            version.op,
            version.since_version,
            tuple(inputs),
            dict(self.attributes),
            outputs,
            first,
            around,
            declared,
        )


class Sampled(Draw):
    """A draw without hypothesis: nothing to shrink, and a hundred times as fast."""

    def __init__(self, source: random.Random, version: OperatorVersion) -> None:
        self._source = source
        super().__init__(lambda _: None, version, special=False)

    def choose(self, options: Sequence[T]) -> T:
        """One of ``options``."""
        return self._source.choice(options)

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return self._source.randint(low, high)

    def flag(self) -> bool:
        """False or True."""
        return self._source.random() < 0.5

    def permuted(self, items: Sequence[T]) -> list[T]:
        """A permutation of ``items``."""
        return self._source.sample(items, len(items))
