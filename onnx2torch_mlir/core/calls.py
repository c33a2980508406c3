"""Short names for the calls that converters make most: one line each over `ProgramBuilder.call`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value

Operand = Value | int | float | bool


class Calls(ABC):
    """Mixed into the builder; every method returns a new value and leaves its operands alone."""

    @abstractmethod
    def call(self, primitive: str, *args: Any, **kwargs: Any) -> Any:
        """Call a primitive."""

    @abstractmethod
    def known(self, contents: Any, dtype: torch.dtype = torch.int64) -> Value:
        """A value whose contents are known."""

    def unary(self, name: str, x: Value) -> Value:
        """``aten.<name>`` of one operand."""
        return self.call(f"aten.{name}.default", x)

    def binary(self, name: str, a: Operand, b: Operand, **kwargs: Any) -> Value:
        """``aten.<name>`` of two operands, of which ``b`` may be a Python number (the ``Scalar`` overload)."""
        mode = "_mode" if kwargs else ""
        if not isinstance(a, Value):
            assert isinstance(b, Value)
            a = self.known(torch.tensor(a, dtype=b.dtype))
        if isinstance(b, Value):
            if name in ("maximum", "minimum", "atan2", "logical_and", "logical_or", "logical_xor"):
                return self.call(f"aten.{name}.default", a, b)
            variant = "Tensor_Tensor" if name == "pow" else f"Tensor{mode}"
            return self.call(f"aten.{name}.{variant}", a, b, **kwargs)
        return self.binary(name, a, self.known(torch.tensor(b, dtype=a.dtype)), **kwargs)

    def add(self, a: Operand, b: Operand) -> Value:
        """Sum."""
        return self.binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        """Difference."""
        return self.binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        """Product."""
        return self.binary("mul", a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        """Quotient of floats."""
        return self.binary("div", a, b)

    def floor_div(self, a: Operand, b: Operand) -> Value:
        """Quotient rounded down."""
        return self.binary("div", a, b, rounding_mode="floor")

    def maximum(self, a: Operand, b: Operand) -> Value:
        """The larger operand; NaN wins."""
        return self.binary("maximum", a, b)

    def minimum(self, a: Operand, b: Operand) -> Value:
        """The smaller operand; NaN wins."""
        return self.binary("minimum", a, b)

    def where(self, condition: Value, a: Operand, b: Operand) -> Value:
        """``a`` where ``condition`` holds, else ``b``."""
        dtype = a.dtype if isinstance(a, Value) else b.dtype if isinstance(b, Value) else torch.float32
        branches = [item if isinstance(item, Value) else self.known(torch.tensor(item, dtype=dtype)) for item in (a, b)]
        return self.call("aten.where.self", condition, *branches)

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """``x`` in ``dtype``."""
        return x if x.dtype is dtype else self.call("aten._to_copy.default", x, dtype=dtype)

    def reshape(self, x: Value, size: Sequence[Dim]) -> Value:
        """``x`` with sizes ``size``, of which one may be -1."""
        sizes = [to_dim(item) for item in size]
        if any(item == -1 for item in sizes):
            rest = self.simplify(D.product(item for item in sizes if item != -1))
            whole = self.simplify(D.product(x.shape))
            inferred = D.exact_div(whole, rest) if rest != 0 else 0
            if inferred is None:
                inferred = D.floor_div(whole, D.maximum(rest, 1))
            sizes = [inferred if s == -1 else s for s in sizes]
        if len(sizes) == x.rank and all(D.known_equal(a, b) for a, b in zip(sizes, x.shape, strict=True)):
            return x
        return self.call("aten.view.default", x, sizes)

    def permute(self, x: Value, axes: Sequence[int]) -> Value:
        """The axes of ``x`` in the order ``axes``; of what ``x`` was permuted from, where it was: orders may cancel out."""
        axes = [axis % max(x.rank, 1) for axis in axes]
        if axes == list(range(x.rank)):
            return x
        if x.permuted is not None and x.builder is self:
            source, before = x.permuted
            return self.permute(source, [before[axis] for axis in axes])
        result: Value = self.call("aten.permute.default", x, axes)
        result.permuted = (x, tuple(axes))
        return result

    def transpose(self, x: Value, a: int, b: int) -> Value:
        """Two axes exchanged."""
        axes = list(range(x.rank))
        axes[a % x.rank], axes[b % x.rank] = axes[b % x.rank], axes[a % x.rank]
        return self.permute(x, axes)

    def expand(self, x: Value, size: Sequence[Dim]) -> Value:
        """``x`` repeated along its axes of size 1 (and new leading axes) to ``size``."""
        if len(size) == x.rank and all(D.known_equal(a, b) for a, b in zip(size, x.shape, strict=True)):
            return x
        return self.call("aten.expand.default", x, list(size))

    def unsqueeze(self, x: Value, axis: int) -> Value:
        """A new axis of size 1."""
        return self.call("aten.unsqueeze.default", x, axis)

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """Without ``axes``, which have size 1."""
        return self.call("aten.squeeze.dims", x, list(axes)) if axes else x

    def slice(self, x: Value, axis: int, start: Dim, end: Dim, step: int = 1) -> Value:
        """Elements ``start`` to ``end`` (0 … size, ``step`` > 0) along ``axis``."""
        size = x.shape[axis]
        if step == 1 and D.known_equal(start, 0) and D.known_equal(end, size):
            return x
        return self.call("aten.slice.Tensor", x, axis, start, end, step)

    def select(self, x: Value, axis: int, index: Dim) -> Value:
        """Element ``index`` along ``axis``, the axis dropped; taken before ``x`` is permuted, so that orders meet."""
        if x.permuted is not None and x.builder is self:
            source, axes = x.permuted
            taken = axes[axis % x.rank]
            rest = [item - (item > taken) for item in axes if item != taken]
            return self.permute(self.select(source, taken, index), rest)
        return self.call("aten.select.int", x, axis, index)

    def cat(self, values: Sequence[Value], axis: int) -> Value:
        """``values`` one after the other along ``axis``."""
        return values[0] if len(values) == 1 else self.call("aten.cat.default", list(values), axis)

    def pad(self, x: Value, low: Sequence[Dim], high: Sequence[Dim], value: float = 0) -> Value:
        """Constant padding, ``low`` and ``high`` per axis from the front; negative numbers crop."""
        if all(item == 0 for item in (*low, *high)):
            return x
        pads = [item for pair in reversed(list(zip(low, high, strict=True))) for item in pair]
        return self.call("aten.constant_pad_nd.default", x, pads, value)

    def sum(self, x: Value, axes: Sequence[int], keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
        """Sum along ``axes``, in the operand's dtype unless ``dtype`` is given; no axes, no change."""
        if not axes:
            return x
        return self.call("aten.sum.dim_IntList", x, list(axes), keepdim, dtype=dtype or x.dtype)

    def mean(self, x: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
        """Mean along ``axes``."""
        return self.call("aten.mean.dim", x, list(axes), keepdim) if axes else x

    def amax(self, x: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
        """Maximum along ``axes``."""
        return self.call("aten.amax.default", x, list(axes), keepdim) if axes else x

    def amin(self, x: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
        """Minimum along ``axes``."""
        return self.call("aten.amin.default", x, list(axes), keepdim) if axes else x

    def softmax(self, x: Value, axis: int) -> Value:
        """Softmax along ``axis``."""
        return self.call("aten._softmax.default", x, axis, False)

    def full(self, size: Sequence[Dim], number: float | int | bool, dtype: torch.dtype) -> Value:
        """A tensor filled with ``number``."""
        return self.call("aten.full.default", list(size), number, dtype=dtype)

    def arange(self, start: Dim, end: Dim, step: int = 1, dtype: torch.dtype = torch.int64) -> Value:
        """Integers from ``start`` to ``end``."""
        return self.call("aten.arange.start_step", start, end, step, dtype=dtype)

    def size_value(self, dim: Dim, dtype: torch.dtype = torch.int64) -> Value:
        """A size as a 0-d value, computed at run time if it is an expression."""
        if isinstance(dim, int):
            return self.known(torch.tensor(dim, dtype=dtype))
        if dtype.is_floating_point:
            return self.call("aten.scalar_tensor.default", dim, dtype=dtype)
        import numpy as np

        array = np.empty((), dtype=object)
        array[()] = sympy.sympify(dim)
        return self.known(array, dtype)

    def matmul(self, a: Value, b: Value) -> Value:
        """Matrix product of NumPy's rules: 1-D operands, broadcast batch axes.

        Source: ONNX MatMul, ``aten::matmul``.
        """
        if a.rank == 1:
            product = self.matmul(self.unsqueeze(a, 0), b)
            return self.squeeze(product, [product.rank - (1 if b.rank == 1 else 2)])
        if b.rank == 1:
            product = self.matmul(a, self.unsqueeze(b, 1))
            return self.squeeze(product, [product.rank - 1])
        if b.rank == 2:
            rows = D.product(a.shape[:-1])
            product = self.call("aten.mm.default", self.reshape(a, [rows, a.shape[-1]]), b)
            return self.reshape(product, [*a.shape[:-1], b.shape[-1]])
        batch = self.broadcast([a.shape[:-2], b.shape[:-2]])
        count = D.product(batch)
        left = self.reshape(self.expand(a, [*batch, *a.shape[-2:]]), [count, *a.shape[-2:]])
        right = self.reshape(self.expand(b, [*batch, *b.shape[-2:]]), [count, *b.shape[-2:]])
        product = self.call("aten.bmm.default", left, right)
        return self.reshape(product, [*batch, a.shape[-2], b.shape[-1]])

    @abstractmethod
    def simplify(self, dim: Dim) -> Dim:
        """``dim`` with what the program asserts put in."""

    @abstractmethod
    def broadcast(self, operands: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The broadcast of shapes."""
