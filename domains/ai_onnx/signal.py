"""DFT, STFT and MelWeightMatrix."""

from __future__ import annotations

import math

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.families.fourier import COMPUTED, resized, transform_rows
from onnx2torch_mlir.families.indexing import axis_in


def dft_attribute(
    g: ProgramBuilder, x: Value, dft_length: Size | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    """DFT before opset 20, whose axis is an attribute. Source: ONNX DFT."""
    return dft(g, x, dft_length, g.scalar(axis, torch.int64), inverse=inverse, onesided=onesided)


def dft(
    g: ProgramBuilder,
    x: Value,
    dft_length: Size | None = None,
    axis: Value | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Value:
    """The discrete Fourier transform along ``axis`` of ``x``, whose last axis holds a real or a complex number.

    Source: ONNX DFT. Computed in f64.

    Raises:
        Refusal: O2M-C005 for an axis out of range, O2M-C006 for a length of 0.
    """
    if x.rank < 2:
        raise refuse("O2M-C006", f"DFT takes at least two axes, not {x.rank}", case=f"rank={x.rank}")
    known = [x.rank - 2] if axis is None else axis.dims()
    if known is not None and isinstance(known[0], int):
        position = axis_in(known[0], x.rank)
        if position == x.rank - 1:
            raise refuse("O2M-C005", "the last axis holds complex numbers and cannot be transformed", case="axis")
        before, after = D.product(x.shape[:position]), D.product(x.shape[position + 1 : -1])
        size, result_shape = x.shape[position], _Replaced(x.shape[:-1], position)
    else:
        assert axis is not None
        before, size, after, result_shape = _run_time_axis(g, x, axis)
    rows = g.transpose(g.reshape(g.cast(x, COMPUTED), [before, size, after, x.shape[-1]]), 1, 2)
    rows = g.reshape(rows, [to_dim(before * after), size, x.shape[-1]])
    if dft_length is None:
        length = to_dim(2 * (size - 1)) if inverse and onesided else size
    else:
        length = dft_length
    length = _length(g, length)
    taken = to_dim(D.floor_div(length, 2) + 1) if inverse and onesided else length
    rows = resized(g, rows, 1, taken)
    result = transform_rows(g, rows, length, inverse=bool(inverse), onesided=bool(onesided))
    count, parts = result.shape[1:]
    result = g.transpose(g.reshape(result, [before, after, count, parts]), 1, 2)
    return g.cast(g.reshape(result, [*result_shape(g, count), parts]), x.dtype)


def _length(g: ProgramBuilder, length: Dim) -> Dim:
    """``length`` as a size."""
    return g.as_size(length) if D.is_nonnegative(length) or D.has_signed(length) else g.opaque_size(length)


class _Replaced:
    """The sizes of the result: those of the operand with the one at ``axis`` replaced."""

    def __init__(self, shape: tuple[Dim, ...], axis: int | Value) -> None:
        self.shape, self.axis = shape, axis

    def __call__(self, g: ProgramBuilder, count: Dim) -> list[Dim]:
        if isinstance(self.axis, int):
            return [count if position == self.axis else size for position, size in enumerate(self.shape)]
        result: list[Dim] = []
        for position, size in enumerate(self.shape):
            here = g.binary("eq", self.axis, position)
            known_same = D.known_equal(size, count)
            result.append(size if known_same else g.item(g.where(here, g.size_value(count), g.size_value(size))))
        return result


def _run_time_axis(g: ProgramBuilder, x: Value, axis: Value) -> tuple[Dim, Dim, Dim, _Replaced]:
    """Number of rows before and after an axis that run time knows, and its size between them."""
    shape = x.shape[:-1]
    counted = g.cast(g.reshape(axis, []), torch.int64)
    counted = g.where(g.binary("lt", counted, 0), g.add(counted, x.rank), counted)
    products = [g.scalar(1, torch.int64) for _ in range(3)]
    for position, size in enumerate(shape):
        sides = (g.binary("gt", counted, position), g.binary("eq", counted, position), g.binary("lt", counted, position))
        products = [g.mul(product, g.where(side, g.size_value(size), 1)) for product, side in zip(products, sides, strict=True)]
    before, size, after = (g.item(product) for product in products)
    if all(D.known_equal(other, shape[0]) for other in shape):
        size = shape[0]
    return before, size, after, _Replaced(shape, counted)


def stft(
    g: ProgramBuilder,
    signal: Value,
    frame_step: Size,
    window: Value | None = None,
    frame_length: Size | None = None,
    *,
    onesided: int = 1,
) -> Value:
    """Transforms of the frames of ``signal`` [batch, length, 1 or 2]: [batch, frames, results, 2]. Source: ONNX STFT.

    A signal of two axes is a real one, as it is for onnxruntime (core/providers/cpu/signal/dft.cc) and as PyTorch exports it.

    Raises:
        Refusal: O2M-C006 where the shapes do not fit.
    """
    if signal.rank == 2:
        signal = g.unsqueeze(signal, 2)
    if signal.rank != 3:
        raise refuse("O2M-C006", f"STFT takes a signal of two or three axes, not {signal.rank}", case=f"rank={signal.rank}")
    batch, whole, parts = signal.shape
    if frame_length is not None:
        length = _length(g, frame_length)
        if window is not None:
            g.require_equal(window.shape[0], length, "length of the window and of a frame")
    else:
        length = whole if window is None else window.shape[0]
    step = _length(g, frame_step)
    if step == 0:
        raise refuse("O2M-C005", "the frame_step of an STFT is 0", case="frame_step=0")
    frames = to_dim(D.floor_div(to_dim(whole - length), step) + 1)
    frames = frames if D.is_nonnegative(frames) else g.opaque_size(frames)
    starts = g.unsqueeze(g.mul(g.arange(0, frames), g.size_value(step)), 1)
    places = g.reshape(g.add(starts, g.unsqueeze(g.arange(0, length), 0)), [to_dim(frames * length)])
    taken = g.call("aten.index_select.default", g.cast(signal, COMPUTED), 1, places)
    rows = g.reshape(taken, [to_dim(batch * frames), length, parts])
    if window is not None:
        rows = g.mul(rows, g.reshape(g.cast(window, COMPUTED), [1, length, 1]))
    result = transform_rows(g, rows, length, onesided=bool(onesided))
    return g.cast(g.reshape(result, [batch, frames, *result.shape[1:]]), signal.dtype)


def mel_weight_matrix(
    g: ProgramBuilder,
    num_mel_bins: Size,
    dft_length: Size,
    sample_rate: Value,
    lower_edge_hertz: Value,
    upper_edge_hertz: Value,
    *,
    output_datatype: int = 1,
) -> Value:
    """Triangles on the mel scale over the results of a one-sided transform: [dft_length // 2 + 1, num_mel_bins].

    Source: ONNX MelWeightMatrix and its reference evaluator; computed in f64 as onnxruntime does.
    """
    bands, length = _length(g, num_mel_bins), _length(g, dft_length)
    f64 = torch.float64
    lower, upper = (_mel(g, g.cast(g.reshape(edge, []), f64)) for edge in (lower_edge_hertz, upper_edge_hertz))
    edges = to_dim(bands + 2)
    step = g.div(g.sub(upper, lower), g.cast(g.size_value(edges), f64))
    mels = g.add(g.mul(g.cast(g.arange(0, edges), f64), step), lower)
    hertz = g.mul(g.unary("expm1", g.div(mels, MEL)), 700.0)
    rate = g.cast(g.reshape(sample_rate, []), f64)
    scaled = g.mul(hertz, g.cast(g.size_value(to_dim(length + 1)), f64))
    bins = g.unary("floor", g.div(scaled, rate))
    left, centre, right = (g.unsqueeze(g.slice(bins, 0, start, to_dim(start + bands)), 0) for start in range(3))
    rows = g.unsqueeze(g.cast(g.arange(0, to_dim(D.floor_div(length, 2) + 1)), f64), 1)
    rising = g.div(g.sub(rows, left), g.maximum(g.sub(centre, left), 1.0))
    falling = g.div(g.sub(right, rows), g.maximum(g.sub(right, centre), 1.0))
    peak = g.where(g.binary("eq", rows, centre), g.scalar(1.0, f64), g.maximum(g.minimum(rising, falling), 0.0))
    return g.cast(peak, torch_dtype(output_datatype))


MEL = 2595 / math.log(10)
"""2595 / ln 10: mels per natural logarithm of the frequency."""


def _mel(g: ProgramBuilder, hertz: Value) -> Value:
    return g.mul(g.unary("log1p", g.div(hertz, 700.0)), MEL)
