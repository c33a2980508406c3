"""DFT, STFT and MelWeightMatrix against NumPy's transforms and ONNX's reference evaluator.

Of each kind of case, those with symbolic sizes run natively too; the suite has fixed ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import Array, agrees, eager, native_run

RANDOM = np.random.default_rng(17)


def pairs(x: Array, dtype: Any = np.float32) -> Array:
    """Complex numbers as a last axis of two real ones."""
    return np.stack([x.real, x.imag], -1).astype(dtype)


def signal(shape: tuple[int, ...], parts: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal((*shape, parts)).astype(dtype)


def numbers(x: Array) -> Array:
    wide = x.astype(np.float64)
    return wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]


def scalar(number: int, dtype: Any = np.int64) -> Array:
    return np.array(number, dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
def test_axis_as_attribute(dynamic: bool, parts: int, inverse: int) -> None:
    x = signal((2, 6, 3), parts)
    for axis in (1, 2, 0, -2):
        want = (np.fft.ifft if inverse else np.fft.fft)(numbers(x), axis=axis + 1 if axis < 0 else axis)
        agrees("DFT", [x], opset=17, dynamic=dynamic, expected=[pairs(want)], axis=axis, inverse=inverse, atol=1e-5,
               native=dynamic)  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("known", [(1, 2), (1,), (2,), ()])
@pytest.mark.parametrize("length", [4, 6, 9, 1])
def test_length_and_axis_as_inputs(dynamic: bool, known: tuple[int, ...], length: int) -> None:
    x = signal((2, 6, 3), 2)
    for axis in (1, -2):
        want = pairs(np.fft.fft(numbers(x), n=length, axis=axis if axis > 0 else axis + 1))
        inputs = [x, scalar(length), scalar(axis)]
        native = dynamic and axis == 1 and length != 1
        agrees("DFT", inputs, opset=20, known=known, dynamic=dynamic, expected=[want], atol=1e-5, native=native)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("known", [(1, 2), ()])
def test_the_axis_is_the_last_but_one_unless_given(dynamic: bool, axis: int | None, known: tuple[int, ...]) -> None:
    x = signal((3, 5), 1)
    want = pairs(np.fft.rfft(numbers(x), axis=-1 if axis is None else axis))
    inputs = [x, None, None if axis is None else scalar(axis)]
    agrees("DFT", inputs, opset=20, known=known, dynamic=dynamic, expected=[want], onesided=1, atol=1e-5, native=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("length", [None, 4, 7, 8, 11])
@pytest.mark.parametrize("known", [True, False])
def test_inverse_of_a_one_sided_spectrum_is_real(dynamic: bool, length: int | None, known: bool) -> None:
    x = signal((2, 5), 2)
    want = np.fft.irfft(numbers(x), n=length, axis=1)[..., None].astype(np.float32)
    inputs = [x, None if length is None else scalar(length, np.int32)]
    for opset in (17, 20):
        agrees("DFT", inputs, opset=opset, known=[1] if known else [], dynamic=dynamic, expected=[want],
               inverse=1, onesided=1, atol=1e-5, native=dynamic and opset == 20)  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 64, 96, 120, 127, 128, 210, 521, 1000, 1024, 1058])
def test_lengths_are_factorised(length: int) -> None:
    """Small, composite, prime and power-of-two lengths; 521 is prime and a convolution, 1058 is 2 * 23 * 23."""
    x = signal((2, length), 2, np.float64)
    for inverse in (0, 1):
        want = (np.fft.ifft if inverse else np.fft.fft)(numbers(x), axis=1)
        agrees("DFT", [x], opset=20, expected=[pairs(want, np.float64)], inverse=inverse, rtol=1e-9, atol=1e-10,
               native=inverse == 0)  # fmt: skip


def test_a_long_transform_is_as_accurate_as_a_short_one() -> None:
    x = signal((1, 4096), 1)
    want = np.fft.rfft(numbers(x), axis=1)
    program = agrees("DFT", [x], opset=20, expected=[pairs(want)], onesided=1, rtol=1e-5, atol=1e-4)
    largest = max(tensor.numel() for tensor in program.exported.state_dict.values())
    assert largest <= 4096, "a matrix of the whole length has been made"


def test_real_numbers_of_a_real_signals_spectrum_are_real() -> None:
    x = signal((3, 20), 1)
    program = agrees("DFT", [x], opset=20, expected=[pairs(np.fft.rfft(numbers(x), axis=1))], onesided=1, atol=1e-5)
    for (spectrum,) in (eager(program, [x]), native_run(program, [x])):
        assert not spectrum[:, [0, 10], 1].any(), "the rounding of pi decides the phase"


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_types(dtype: Any) -> None:
    x = signal((2, 8), 1, dtype)
    want = pairs(np.fft.fft(numbers(x), axis=1), dtype)
    agrees("DFT", [x], opset=20, dynamic=True, expected=[want], rtol=2e-3, atol=1e-3)


def test_empty_batch() -> None:
    agrees("DFT", [np.zeros((0, 4, 1), np.float32)], opset=20, dynamic=True, expected=[np.zeros((0, 4, 2), np.float32)])


def test_the_last_axis_is_no_axis() -> None:
    with pytest.raises(Refusal, match="complex"):
        agrees("DFT", [signal((2, 4), 2), None, scalar(2)], opset=20, known=[2], expected=[None])
    with pytest.raises(Refusal, match="length 0"):
        agrees("DFT", [signal((2, 4), 2), scalar(0)], opset=20, known=[1], expected=[None])


def frames_of(x: Array, step: int, window: Array, onesided: int) -> Array:
    count, length = (x.shape[1] - len(window)) // step + 1, len(window)
    wide = numbers(x)
    frames = np.stack([wide[:, i * step : i * step + length] for i in range(count)], 1) * window.astype(np.float64)
    result = np.fft.fft(frames, axis=-1)
    return pairs(result[..., : length // 2 + 1] if onesided else result, x.dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("known", [(1, 2, 3), (1,), (3,), ()])
@pytest.mark.parametrize(("parts", "onesided"), [(1, 1), (1, 0), (2, 0)])
def test_stft(dynamic: bool, known: tuple[int, ...], parts: int, onesided: int) -> None:
    x = signal((2, 21), parts)
    window = np.hanning(8).astype(np.float32)
    ones = np.ones(8, np.float32)
    for inputs, weights in (
        ([x, scalar(3), window], window),
        ([x, scalar(3), None, scalar(8)], ones),
        ([x, scalar(4, np.int32), window, scalar(8, np.int32)], window),
    ):
        want = frames_of(x, int(inputs[1]), weights, onesided)  # type: ignore[arg-type]
        agrees("STFT", inputs, opset=17, known=known, dynamic=dynamic, expected=[want], onesided=onesided, atol=1e-5,
               native=(dynamic and inputs[2] is not window) or known == ())  # fmt: skip


def test_stft_of_a_real_signal_without_an_axis_for_it() -> None:
    x, window = signal((2, 21), 1), np.hanning(8).astype(np.float32)
    want = frames_of(x, 3, window, 1)
    agrees("STFT", [x[..., 0], scalar(3), window], opset=17, known=(1,), dynamic=True, expected=[want], atol=1e-5)


def test_stft_of_one_frame() -> None:
    x = signal((2, 8), 1, np.float64)
    want = frames_of(x, 5, np.ones(8), 1)
    agrees("STFT", [x, scalar(5)], opset=17, dynamic=True, expected=[want])


@pytest.mark.parametrize("known", [(0, 1, 2, 3, 4), (0, 1), ()])
@pytest.mark.parametrize(("bands", "length", "rate"), [(8, 16, 8192), (3, 64, 16000), (40, 512, 16000), (1, 10, 100)])
def test_mel_weight_matrix(known: tuple[int, ...], bands: int, length: int, rate: int) -> None:
    inputs = [scalar(bands), scalar(length), scalar(rate), np.array(0, np.float32), np.array(rate / 2, np.float32)]
    agrees("MelWeightMatrix", inputs, opset=17, known=known)


@pytest.mark.parametrize("output", [1, 10, 11, 2, 7])
def test_mel_weight_matrix_types(output: int) -> None:
    inputs = [scalar(8), scalar(16), scalar(8192), np.array(0, np.float32), np.array(8192 / 2, np.float32)]
    agrees("MelWeightMatrix", inputs, opset=17, output_datatype=output, rtol=1e-3)
