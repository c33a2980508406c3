"""Discrete Fourier transforms made of matrix products: complex numbers are pairs of values, a real and an imaginary part.

A transform of a known length is factorised (Cooley and Tukey's general radix) down to factors of which a matrix is
multiplied; a large prime factor becomes a convolution (Bluestein). A length that only run time knows takes one matrix
that is built when the program runs. Angles are reduced in integers first, so that long transforms stay accurate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

DIRECT = 64
"""Transforms up to this length are one matrix product."""
PRIME = 512
"""Prime lengths up to this are one matrix product too; longer ones are convolutions."""


@dataclass(frozen=True)
class Pair:
    """Complex numbers; no imaginary part means that it is zero."""

    real: Value
    imaginary: Value | None


@dataclass
class Transform:
    """Transforms [rows, n] along the last axis: ``y[k] = sum of x[j] * exp(sign * 2 pi i j k / n)``, not scaled.

    Matrices are shared between the steps of one transform.
    """

    g: ProgramBuilder
    dtype: torch.dtype
    sign: int
    _matrices: dict[tuple[str, int, int], tuple[Value, Value]] = field(default_factory=dict)

    def __call__(self, x: Pair, n: Dim, count: Dim | None = None) -> Pair:
        """The first ``count`` (all unless given) of the ``n`` results of each row."""
        count = n if count is None else count
        if not isinstance(n, int) or not isinstance(count, int):
            return self._times(x, *self._run_time_matrix(n, count))
        factor = _factor(n)
        if n <= DIRECT or (factor == n and n <= PRIME):
            return self._times(x, *self._matrix(n, count))
        whole = self._bluestein(x, n) if factor == n else self._split(x, factor, n // factor)
        return self._each(whole, lambda part: self.g.slice(part, 1, 0, count))

    def _split(self, x: Pair, a: int, b: int) -> Pair:
        """n = a * b: transforms of length a, a rotation, transforms of length b."""
        columns = self._view(x, [-1, a, b], swap=True)
        inner = self(self._view(columns, [-1, a]), a)
        rotated = self.multiply(self._view(inner, [-1, b, a]), self._twiddles(a, b))
        outer = self(self._view(self._view(rotated, [-1, b, a], swap=True), [-1, b]), b)
        return self._view(self._view(outer, [-1, a, b], swap=True), [-1, a * b])

    def _bluestein(self, x: Pair, n: int) -> Pair:
        """A transform of any length as a convolution, of a length that is a power of two.

        Source: Bluestein, "A linear filtering approach to the computation of discrete Fourier transform" (1970).
        """
        length = 1 << (2 * n - 2).bit_length()
        squares = torch.arange(n, dtype=torch.int64) ** 2 % (2 * n)
        chirp = torch.polar(torch.ones(n, dtype=torch.float64), squares.to(torch.float64) * (self.sign * torch.pi / n))
        kernel = torch.zeros(length, dtype=torch.complex128)
        kernel[:n] = chirp.conj()
        kernel[length - n + 1 :] = chirp.conj()[1:].flip(0)
        spectrum = torch.fft.fft(kernel) / length
        there, back = Transform(self.g, self.dtype, -1), Transform(self.g, self.dtype, 1)
        own = (self._known(chirp.real), self._known(chirp.imag))
        padded = self._each(self.multiply(x, own), lambda part: self.g.pad(part, [0, 0], [0, length - n]))
        transformed = there(padded, length)
        filtered = self.multiply(transformed, (self._known(spectrum.real), self._known(spectrum.imag)))
        result = back(filtered, length, n)
        return self.multiply(result, own)

    def multiply(self, x: Pair, factors: tuple[Value, Value]) -> Pair:
        """Elementwise product with complex ``factors``, which broadcast."""
        g, (c, s) = self.g, factors
        if x.imaginary is None:
            return Pair(g.mul(x.real, c), g.mul(x.real, s))
        real = g.sub(g.mul(x.real, c), g.mul(x.imaginary, s))
        return Pair(real, g.add(g.mul(x.real, s), g.mul(x.imaginary, c)))

    def _times(self, x: Pair, c: Value, s: Value) -> Pair:
        g = self.g
        if x.imaginary is None:
            return Pair(g.matmul(x.real, c), g.matmul(x.real, s))
        real = g.sub(g.matmul(x.real, c), g.matmul(x.imaginary, s))
        return Pair(real, g.add(g.matmul(x.real, s), g.matmul(x.imaginary, c)))

    def _view(self, x: Pair, size: list[int], swap: bool = False) -> Pair:
        def view(part: Value) -> Value:
            part = self.g.reshape(part, size)
            return self.g.transpose(part, 1, 2) if swap else part

        return self._each(x, view)

    @staticmethod
    def _each(x: Pair, step: Callable[[Value], Value]) -> Pair:
        return Pair(step(x.real), None if x.imaginary is None else step(x.imaginary))

    def _known(self, numbers: torch.Tensor) -> Value:
        return self.g.known(numbers.to(self.dtype).contiguous())

    def _matrix(self, n: int, count: int) -> tuple[Value, Value]:
        return self._powers("matrix", n, n, count)

    def _twiddles(self, a: int, b: int) -> tuple[Value, Value]:
        return self._powers("twiddles", a * b, b, a)

    def _powers(self, kind: str, n: int, rows: int, columns: int) -> tuple[Value, Value]:
        """The n-th root of unity to the power of row times column: cosines and sines [rows, columns]."""
        key = (f"{kind} {n}", rows, columns)
        if key not in self._matrices:
            power = torch.outer(torch.arange(rows), torch.arange(columns)) % n
            angle = power.to(torch.float64) * (2 * torch.pi * self.sign / n)
            self._matrices[key] = (self._known(_exact(angle.cos())), self._known(_exact(angle.sin())))
        return self._matrices[key]

    def _run_time_matrix(self, n: Dim, count: Dim) -> tuple[Value, Value]:
        g = self.g
        product = g.mul(g.unsqueeze(g.arange(0, n), 1), g.unsqueeze(g.arange(0, count), 0))
        length = g.size_value(n)
        power = g.binary("remainder", product, length)
        beyond = g.binary("gt", g.mul(power, 2), length)
        centred = g.where(beyond, g.sub(power, length), power)
        turns = g.div(g.cast(centred, self.dtype), g.cast(length, self.dtype))
        angle = g.mul(turns, 2 * torch.pi * self.sign)
        return g.unary("cos", angle), g.unary("sin", angle)


def _exact(numbers: torch.Tensor) -> torch.Tensor:
    """Cosines or sines of fractions of a turn (float64), where pi's rounding has left something of 0 without it.

    What it leaves decides the phase of a spectrum's real numbers: that of -1 and 1e-16 is half a turn, that of -1 and -1e-16
    the opposite one.
    """
    return torch.where(numbers.abs() < 1e-12, 0.0, numbers)


def _factor(n: int) -> int:
    """The largest factor of ``n`` up to its square root or `DIRECT`, whichever is smaller, else its smallest one."""
    limit = min(int(n**0.5) + 1, DIRECT)
    fitting = [factor for factor in range(2, limit + 1) if n % factor == 0 and factor < n]
    if fitting:
        return fitting[-1]
    return next((factor for factor in range(2, int(n**0.5) + 1) if n % factor == 0), n)


COMPUTED = torch.float64
"""What transforms are computed in: results that cancel to almost nothing are then right in f32 too, as NumPy's are."""


def resized(g: ProgramBuilder, x: Value, axis: int, size: Dim) -> Value:
    """``x`` cropped or zero-padded at the end of ``axis`` to ``size``."""
    own = x.shape[axis]
    if D.known_equal(own, size):
        return x
    kept = D.minimum(own, size)
    x = g.slice(x, axis, 0, kept)
    missing: list[Dim] = [0] * x.rank
    missing[axis] = to_dim(size - kept)
    x = g.pad(x, [0] * x.rank, missing)
    return g.reshape(x, [*x.shape[:axis], size, *x.shape[axis + 1 :]])


def transform_rows(
    g: ProgramBuilder, x: Value, n: Dim, *, inverse: bool = False, onesided: bool = False
) -> Value:
    """The transform of ``x`` [rows, n, 1 or 2] of f64: [rows, n, 2].

    A forward transform gives, ``onesided``, the first ``n // 2 + 1`` results; an inverse one takes that many and gives
    real numbers [rows, n, 1].

    Raises:
        Refusal: O2M-C006 for a length of 0.
    """
    if n == 0:
        raise refuse("O2M-C006", "a Fourier transform of length 0", case="dft_length=0")
    dtype = x.dtype
    half = to_dim(D.floor_div(n, 2) + 1)
    pair = _pair(g, x)
    transform = Transform(g, dtype, 1 if inverse else -1)
    if not inverse:
        result = transform(pair, n, half if onesided else n)
        return _joined(g, result)
    if onesided:
        pair = _mirrored(g, pair, n)
    result = transform(pair, n)
    scale = g.div(g.scalar(1.0, dtype), g.cast(g.size_value(n), dtype))
    scaled = Pair(g.mul(result.real, scale), None if result.imaginary is None else g.mul(result.imaginary, scale))
    return g.unsqueeze(scaled.real, 2) if onesided else _joined(g, scaled)


def _pair(g: ProgramBuilder, x: Value) -> Pair:
    """The parts of [rows, n, 1 or 2]; a last axis of a size unknown now is padded to 2."""
    parts = x.shape[2]
    if isinstance(parts, int) and parts not in (1, 2):
        raise refuse("O2M-C006", f"the last axis has size {parts}, not 1 (real) or 2 (complex)", case=f"size={parts}")
    if parts == 1:
        return Pair(g.select(x, 2, 0), None)
    x = resized(g, x, 2, 2)
    return Pair(g.select(x, 2, 0), g.select(x, 2, 1))


def _joined(g: ProgramBuilder, x: Pair) -> Value:
    imaginary = g.sub(x.real, x.real) if x.imaginary is None else x.imaginary
    return g.cat([g.unsqueeze(x.real, 2), g.unsqueeze(imaginary, 2)], 2)


def _mirrored(g: ProgramBuilder, x: Pair, n: Dim) -> Pair:
    """The whole spectrum of a real signal from its first ``n // 2 + 1`` numbers."""
    repeated = D.floor_div(to_dim(n - 1), 2)

    def tail(part: Value) -> Value:
        inner = g.slice(part, 1, 1, to_dim(1 + repeated))
        flipped: Value = g.call("aten.flip.default", inner, [1])
        return flipped

    real = g.cat([x.real, tail(x.real)], 1)
    imaginary = None if x.imaginary is None else g.cat([x.imaginary, g.unary("neg", tail(x.imaginary))], 1)
    rows = x.real.shape[0]
    return Pair(g.reshape(real, [rows, n]), None if imaginary is None else g.reshape(imaginary, [rows, n]))
