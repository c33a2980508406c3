"""Fourier transforms and the mel scale."""

from __future__ import annotations

import numpy as np
import onnx

from tools.fuzz_ops.draw import Draw, numpy_dtype


def dft(d: Draw) -> None:
    """DFT: real and complex, both ways, one-sided, cut or filled up to a length, along any axis but the last."""
    inverse = d.attribute("inverse", 1, 0) or 0
    onesided = d.attribute("onesided", 1, 0) or 0
    parts = d.choose((1, 2))
    if onesided:
        # One-sided are transforms of real numbers; what they give is transformed back into real ones.
        parts = 2 if inverse else 1
    shape = (*d.shape(1, 3, smallest=1), parts)
    axis = d.integer(0, len(shape) - 2)
    axis = axis - len(shape) if d.flag() else axis
    if d.has_attribute("axis") and (axis != 1 or d.flag()):
        d.attributes["axis"] = axis
    d.give("input", d.array(d.dtype("T1"), shape, -4, 4), static_last=True)
    if d.flag():
        d.parameter("dft_length", d.integer(1, 17))
    elif d.has_input("axis"):
        d.give("dft_length", None)
    if d.has_input("axis") and (axis != -2 or d.flag()):
        d.parameter("axis", axis)


def stft(d: Draw) -> None:
    """STFT: frames of a given length, of the window's, or of both; real and complex signals."""
    parts = d.choose((1, 2))
    length = d.integer(1, 9)
    onesided = d.attribute("onesided", 0, 1)
    if onesided in (None, 1):
        parts = 1
    window = d.flag()
    d.give("signal", d.array(d.dtype("T1"), (d.size(1, 3), length + d.integer(0, 12), parts), -4, 4), static_last=True)
    d.parameter("frame_step", d.integer(1, 5))
    if window:
        d.tensor("window", (length,), low=0, high=1)
    else:
        d.give("window", None)
    if not window or d.flag():
        d.parameter("frame_length", length)


def mel_weights(d: Draw) -> None:
    """MelWeightMatrix: few and many bins, in any type of the result."""
    kinds = list(d.allowed(d.version.outputs[0].type))
    if d.flag():
        d.attributes["output_datatype"] = int(onnx.TensorProto.DataType.Value(d.choose(kinds).upper()))
    d.dtype("T1")
    edges = numpy_dtype(d.dtype("T2"))
    for name, value in (
        ("num_mel_bins", d.integer(1, 9)),
        ("dft_length", d.choose((16, 17, 64, 5))),
        ("sample_rate", d.choose((8192, 1000))),
    ):
        d.parameter(name, value)
    lower = d.choose((0.0, 20.0, 100.0))
    for name, number in (("lower_edge_hertz", lower), ("upper_edge_hertz", lower + d.choose((400.0, 300.0)))):
        d.give(name, np.asarray(number, edges), known=d.flag(), static=True)


STRATEGIES = {"DFT": dft, "STFT": stft, "MelWeightMatrix": mel_weights}
