"""A value of the program being built: its type, its node, and what is known of its contents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
import torch
import torch.fx

from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder

SymbolicArray = np.ndarray[Any, np.dtype[np.object_]]
"""Contents with symbolic sizes in them: a NumPy object array of `int` and sympy expressions."""

MOST_SIZES = 1 << 16
"""Integers of a constant that are read one by one; a longer one is a weight."""


class Value:
    """A tensor of the program: a node of the graph, or contents that become a node when something needs one.

    ``shape`` holds numbers and sympy expressions. ``contents`` is a `torch.Tensor` of the value's own dtype, or a NumPy
    object array of ints and sympy expressions for integers computed from sizes, or None where nothing is known. ``element``
    names an element type of less than a byte (`core.narrow`) that ``dtype`` holds; it is empty where the dtype says all.
    ``permuted`` is the value that this one is in another order of axes, and that order: `Calls` puts orders together.
    """

    __slots__ = ("_contents", "_load", "_node", "builder", "contiguous", "dtype", "element", "name", "permuted", "shape")

    def __init__(
        self,
        builder: ProgramBuilder,
        dtype: torch.dtype,
        shape: tuple[Dim, ...],
        *,
        node: torch.fx.Node | None = None,
        contents: torch.Tensor | SymbolicArray | None = None,
        load: Callable[[], torch.Tensor] | None = None,
        name: str = "",
    ) -> None:
        self.builder = builder
        self.dtype = dtype
        self.shape = shape
        self.name = name
        self.element = ""
        self.contiguous = True
        self.permuted: tuple[Value, tuple[int, ...]] | None = None
        self._node = node
        self._contents = contents
        self._load = load

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def node(self) -> torch.fx.Node:
        """The value's node, made on first use where only contents are known."""
        if self._node is None:
            self._node = self.builder.materialize(self)
        return self._node

    @property
    def is_known(self) -> bool:
        """Whether the contents are known, or can be read because they are a constant of the model."""
        return self._contents is not None or self._load is not None

    @property
    def is_computed(self) -> bool:
        """Whether the contents were computed while the program was built, and nothing has to be read to have them."""
        return self._contents is not None and self._load is None

    @property
    def contents(self) -> torch.Tensor | SymbolicArray | None:
        """What is known; reads a constant of the model on first use."""
        if self._contents is None and self._load is not None:
            self._contents = self._load()
        return self._contents

    @property
    def tensor(self) -> torch.Tensor | None:
        """The contents if they are all numbers, as a tensor of this dtype and shape."""
        contents = self.contents
        return contents if isinstance(contents, torch.Tensor) else None

    def dims(self) -> list[Dim] | None:
        """The contents, flattened, as sizes: for an integer value whose contents are known and are no weight.

        None for more than `MOST_SIZES` of them: so many are not read.
        """
        if self.dtype.is_floating_point or self.dtype.is_complex or not self._is_list:
            return None
        contents = self.contents
        if contents is None:
            return None
        if isinstance(contents, torch.Tensor):
            return [int(item) for item in contents.reshape(-1).tolist()]
        return [to_dim(item) for item in contents.reshape(-1).tolist()]

    @property
    def _is_list(self) -> bool:
        sizes = [int(size) for size in self.shape if isinstance(size, int | sympy.Integer)]
        return len(sizes) == self.rank and math.prod(sizes) <= MOST_SIZES

    def known(self) -> Any:
        """The contents as nested Python lists (or a number for rank 0), or None where not all are numbers."""
        tensor = self.tensor
        return None if tensor is None else tensor.tolist()

    def symbolic(self) -> SymbolicArray | None:
        """The contents as an object array of ints and expressions, or None."""
        contents = self.contents
        if contents is None or isinstance(contents, np.ndarray):
            return contents
        result = np.empty(tuple(contents.shape), dtype=object)
        result[...] = np.array(contents.tolist(), dtype=object).reshape(result.shape)
        return result

    def tagged(self, element: str) -> Value:
        """The same tensor with another ``element``: what it holds is read as that type from here on."""
        return self if element == self.element else Retagged(self, element)

    def __repr__(self) -> str:
        dtype = self.element or str(self.dtype).removeprefix("torch.")
        return f"Value({self.name or '?'}: {dtype}{list(self.shape)})"


class Retagged(Value):
    """Another view of a value: the same node and contents, another ``element``."""

    __slots__ = ("_source",)

    def __init__(self, source: Value, element: str) -> None:
        super().__init__(source.builder, source.dtype, source.shape, name=source.name)
        self.element = element
        self.contiguous = source.contiguous
        self._source = source

    @property
    def node(self) -> torch.fx.Node:
        """The source's node."""
        return self._source.node

    @property
    def is_known(self) -> bool:
        """Whether the source is known."""
        return self._source.is_known

    @property
    def contents(self) -> torch.Tensor | SymbolicArray | None:
        """The source's contents."""
        return self._source.contents


def simplify_contents(array: SymbolicArray, dtype: torch.dtype) -> torch.Tensor | SymbolicArray:
    """``array`` as a tensor if no expression is left in it."""
    flat: Sequence[Any] = [to_dim(item) if isinstance(item, sympy.Expr | int) else item for item in array.reshape(-1)]
    if any(isinstance(item, sympy.Basic) and item.free_symbols for item in flat):
        return array
    kind: type = bool if dtype is torch.bool else float if dtype.is_floating_point else int
    numbers = [kind(item) for item in flat]
    return torch.tensor(numbers, dtype=dtype).reshape(array.shape)
