"""Random numbers made of integer arithmetic: the i-th number of a stream is a hash of i and of the stream's key.

The generator is "squares" (Widynski, arXiv:2004.06278), counter-based and without state: five rounds of squaring on 64
bits. A program gives the same numbers at every run. The key of a node comes from its ``seed`` where it has one (so two
nodes of one seed draw the same), else from its name and its place among the random nodes of the program (so two nodes
draw independently). In the body of a loop the counter starts anew at a hash of the trip numbers, so each trip draws anew.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value

LOW_HALF = 0xFFFFFFFF
_MANTISSA = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def stream_key(g: ProgramBuilder, seed: float | None) -> int:
    """The key of the node being converted, for ``seed`` where there is one."""
    if seed is not None and not math.isnan(seed):
        return _key(f"seed {float(seed)!r}")
    return _key(f"{g.origin} {next(g.streams)}")


def _key(text: str) -> int:
    """A key as the generator wants it: an odd number whose two halves have eight different hexadecimal digits each."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=32).digest(), "little")
    key = 0
    for _ in range(2):
        digits = list(range(1, 16))
        for _ in range(8):
            number, choice = divmod(number, len(digits))
            key = key << 4 | digits.pop(choice)
    key |= 1
    return key - (1 << 64) if key >> 63 else key


def bits(g: ProgramBuilder, shape: Sequence[Dim], key: int, *, part: int = 0, parts: int = 1) -> Value:
    """64 random bits for each element of ``shape``, as int64; ``part`` of ``parts`` independent draws."""
    base = g.scalar(0, torch.int64)
    for trip in g.trips:
        base = squares(g, g.add(base, g.cast(g.reshape(trip, []), torch.int64)), key)
    counter = g.add(g.mul(g.arange(0, D.product(shape)), parts), g.add(base, part))
    return g.reshape(squares(g, counter, key), shape)


def squares(g: ProgramBuilder, counter: Value, key: int) -> Value:
    """The hash of ``counter`` (int64): multiplication wraps around."""

    def turned(x: Value) -> Value:
        return g.binary("bitwise_or", g.binary("bitwise_left_shift", x, 32), _shifted(g, x, 32))

    y = x = g.mul(counter, key)
    z = g.add(y, key)
    for addend in (y, z, y):
        x = turned(g.add(g.mul(x, x), addend))
    last = g.add(g.mul(x, x), z)
    x = turned(last)
    return g.binary("bitwise_xor", last, _shifted(g, g.add(g.mul(x, x), y), 32))


def _shifted(g: ProgramBuilder, x: Value, places: int) -> Value:
    """``x`` shifted right with zeros from the left."""
    return g.binary("bitwise_and", g.binary("bitwise_right_shift", x, places), (1 << (64 - places)) - 1)


def uniform(g: ProgramBuilder, shape: Sequence[Dim], dtype: torch.dtype, key: int) -> Value:
    """Numbers of [0, 1), multiples of the distance of numbers below 1 in ``dtype``."""
    mantissa = _MANTISSA[dtype]
    wide = torch.float64 if mantissa > 24 else torch.float32
    whole = g.cast(_shifted(g, bits(g, shape, key), 64 - mantissa), wide)
    return g.cast(g.mul(whole, 2.0**-mantissa), dtype)


def normal(g: ProgramBuilder, shape: Sequence[Dim], dtype: torch.dtype, key: int) -> Value:
    """Numbers of the normal distribution of mean 0 and deviation 1; 16-bit ones are drawn in f32.

    Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
    """
    if dtype is torch.float64:
        first, second = (_shifted(g, bits(g, shape, key, part=part, parts=2), 11) for part in (0, 1))
        width, wide = 53, torch.float64
    else:
        both = bits(g, shape, key)
        first, second = _shifted(g, both, 32), g.binary("bitwise_and", both, LOW_HALF)
        width, wide = 32, torch.float32
    positive = g.mul(g.cast(g.add(first, 1), wide), 2.0**-width)
    radius = g.unary("sqrt", g.mul(g.unary("log", positive), -2.0))
    angle = g.mul(g.cast(second, wide), math.tau * 2.0**-width)
    return g.cast(g.mul(radius, g.unary("cos", angle)), dtype)


def chance(g: ProgramBuilder, shape: Sequence[Dim], dtype: torch.dtype, key: int) -> Value:
    """Uniform numbers to compare probabilities of ``dtype`` with: at least of f32, whatever that is."""
    return uniform(g, shape, torch.float64 if dtype is torch.float64 else torch.float32, key)
