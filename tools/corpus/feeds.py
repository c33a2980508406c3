"""What a subject is fed: a dtype, a shape in terms of the set of sizes, and a kind of values.

Sizes in a shape are numbers, names of the set of sizes, or expressions of them: ``normal("batch", 1, "64 * frames")``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
Size = int | str
Feed = Callable[[Sizes, np.random.Generator], Any]
"""A value for one input: an array, or a list of arrays for a sequence."""

_AT_ONCE = 1 << 16
"""Numbers that are drawn before they become what they are to be."""


@dataclass(frozen=True)
class Tensor:
    """An array of ``dtype`` and ``shape`` whose elements ``fill(rng, shape, sizes)`` gives."""

    dtype: str
    shape: tuple[Size, ...]
    fill: Callable[[np.random.Generator, tuple[int, ...], Sizes], Any]

    def __call__(self, sizes: Sizes, rng: np.random.Generator) -> Array:
        shape = tuple(size_of(dim, sizes) for dim in self.shape)
        made = np.asarray(self.fill(rng, shape, sizes))
        if made.shape == shape and made.dtype == self.dtype:
            return made
        return np.broadcast_to(made, shape).astype(object if self.dtype == "string" else self.dtype)


def normal(*shape: Size, mean: float | Size = 0.0, std: float = 1.0, dtype: str = "float32") -> Tensor:
    """Normally distributed numbers around ``mean``, a number or a size."""

    def fill(rng: np.random.Generator, dims: tuple[int, ...], sizes: Sizes) -> Array:
        # Some at a time: what is measured is the memory of programs, not of float64 inputs of theirs.
        made = np.empty(dims, dtype)
        flat = made.reshape(-1)
        for start in range(0, flat.size, _AT_ONCE):
            part = flat[start : start + _AT_ONCE]
            part[:] = rng.normal(_number(mean, sizes), std, part.size)
        return made

    return Tensor(dtype, shape, fill)


def uniform(*shape: Size, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Tensor:
    """Numbers drawn evenly from ``low`` up to ``high``; whole ones for an integer dtype."""
    return Tensor(dtype, shape, lambda rng, dims, sizes: rng.uniform(low, high, dims))


def tokens(*shape: Size, below: int, above: int = 0, dtype: str = "int64") -> Tensor:
    """Whole numbers from ``above`` up to but not ``below``: token ids, class ids, pixels."""
    return Tensor(dtype, shape, lambda rng, dims, sizes: rng.integers(above, below, dims))


def full(value: float | Size, *shape: Size, dtype: str = "float32") -> Tensor:
    """``value`` everywhere, a number or a size ("length"); without a shape a scalar, as a sampling rate is."""
    return Tensor(dtype, shape, lambda rng, dims, sizes: _number(value, sizes))


def these(*values: float, dtype: str = "float32") -> Tensor:
    """These numbers, in a vector."""
    return Tensor(dtype, (len(values),), lambda rng, dims, sizes: values)


def zeros(*shape: Size, dtype: str = "float32") -> Tensor:
    """Zeros, as of a state at the beginning."""
    return full(0, *shape, dtype=dtype)


def counting(*shape: Size, start: Size = 0, dtype: str = "int64") -> Tensor:
    """``start``, ``start + 1`` … along the last axis: positions."""
    return Tensor(dtype, shape, lambda rng, dims, sizes: size_of(start, sizes) + np.arange(dims[-1]))


def mask(*shape: Size, dtype: str = "int64") -> Tensor:
    """Along the last axis at least half of ones, then zeros; the first row is ones alone."""

    def fill(rng: np.random.Generator, dims: tuple[int, ...], sizes: Sizes) -> Array:
        lengths = rng.integers((dims[-1] + 1) // 2, dims[-1] + 1, dims[:-1])
        lengths.reshape(-1)[:1] = dims[-1]
        return np.arange(dims[-1]) < lengths[..., None]

    return Tensor(dtype, shape, fill)


def one_of(*shape: Size, values: tuple[Any, ...], dtype: str = "string") -> Tensor:
    """Each element one of ``values``: words of a category, say."""
    return Tensor(dtype, shape, lambda rng, dims, sizes: np.array(values, object)[rng.integers(0, len(values), dims)])


def waves(*shape: Size, rate: int = 16000, axis: int = -1, dtype: str = "float32") -> Tensor:
    """Sound: harmonics of a pitch that glides, in bursts, with a little noise; ``axis`` is time."""

    def fill(rng: np.random.Generator, dims: tuple[int, ...], sizes: Sizes) -> Array:
        time = np.arange(dims[axis]) / rate
        pitch = 110 + 60 * np.sin(2 * np.pi * 0.7 * time)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voice = sum(np.sin(k * phase) / k for k in range(1, 9)) * (np.sin(2 * np.pi * 2.5 * time) > -0.3)
        noise = rng.normal(0, 0.01, dims)
        sound: Array = np.moveaxis(0.2 * voice + np.moveaxis(noise, axis, -1), -1, axis)
        return sound

    return Tensor(dtype, shape, fill)


def picture(*shape: Size, layout: str = "NCHW", low: float = 0.0, high: float | Size = 1.0, dtype: str = "float32") -> Tensor:
    """Smooth shades with hard-edged boxes, from ``low`` to ``high``; ``layout`` names the axes."""

    def fill(rng: np.random.Generator, dims: tuple[int, ...], sizes: Sizes) -> Array:
        extent = dict(zip(layout, dims, strict=True))
        height, width = extent["H"], extent["W"]
        images, channels = extent.get("N", 1), extent.get("C", 1)
        y, x = np.mgrid[0:height, 0:width] / np.array([max(height, 1), max(width, 1)]).reshape(2, 1, 1)
        made = np.empty((images, channels, height, width))
        for image in made:
            fx, fy, shift = rng.uniform(0.5, 3, 3)
            image[:] = 0.5 + 0.3 * np.sin(2 * np.pi * (fx * x + fy * y) + shift)
            for _ in range(6):
                top, left = rng.integers(0, max(1, height)), rng.integers(0, max(1, width))
                bottom, right = top + rng.integers(1, height // 2 + 2), left + rng.integers(1, width // 2 + 2)
                image[:, top:bottom, left:right] = rng.uniform(0, 1, (channels, 1, 1))
        return low + (_number(high, sizes) - low) * np.clip(_laid_out(made, layout), 0, 1)

    return Tensor(dtype, shape, fill)


def writing(*shape: Size, layout: str = "NCHW", low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Tensor:
    """Dark words on a light ground, in lines as high as fit, from ``low`` to ``high``; ``layout`` names the axes."""

    def fill(rng: np.random.Generator, dims: tuple[int, ...], sizes: Sizes) -> Array:
        from PIL import Image, ImageDraw, ImageFont

        extent = dict(zip(layout, dims, strict=True))
        height, width = extent["H"], extent["W"]
        line = min(height, 48)
        words = ["Linalg", "kernel", "2026", "tensor", "MLIR", "shape", "graph", "4096", "export", "opset"]
        pages = []
        for _ in range(extent.get("N", 1)):
            page = Image.new("L", (width, height), int(rng.integers(215, 250)))
            draw = ImageDraw.Draw(page)
            for top in range(0, height - line + 1, line):
                text = " ".join(rng.permutation(words).tolist())
                draw.text((4, top + line // 6), text, fill=int(rng.integers(0, 60)), font=ImageFont.load_default(0.6 * line))
            pages.append(np.asarray(page, np.float64) / 255)
        named = np.broadcast_to(np.stack(pages)[:, None], (len(pages), extent.get("C", 1), height, width))
        return low + (high - low) * _laid_out(named, layout)

    return Tensor(dtype, shape, fill)


def _laid_out(images: Array, layout: str) -> Array:
    """Images NCHW with the axes of ``layout``; those that it lacks have size 1."""
    dropped = tuple(axis for axis, name in enumerate("NCHW") if name not in layout)
    kept = [name for name in "NCHW" if name in layout]
    return np.squeeze(images, dropped).transpose([kept.index(axis) for axis in layout])


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def _number(value: float | Size, sizes: Sizes) -> float:
    return size_of(value, sizes) if isinstance(value, str) else value


def size_of(size: Size, sizes: Sizes) -> int:
    """The number that ``size`` is, given the set of ``sizes``; KeyError for a name that it lacks."""

    def value(item: ast.expr) -> int:
        if isinstance(item, ast.Constant) and isinstance(item.value, int):
            return item.value
        if isinstance(item, ast.Name):
            return sizes[item.id]
        if isinstance(item, ast.BinOp) and type(item.op) in _OPERATORS:
            return _OPERATORS[type(item.op)](value(item.left), value(item.right))
        raise ValueError(f"{size!r} is no size: numbers and names with + - * // are")

    return size if isinstance(size, int) else value(ast.parse(size, mode="eval").body)
