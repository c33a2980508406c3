"""What is proven of sizes holds for all numbers, and sizes that are formed in other ways have the values they should have."""

from __future__ import annotations

import itertools
import math
import random

import sympy
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.signs import SIGNED_FROM

N, K = (sympy.Symbol(f"u{index}", integer=True) for index in (0, 1))
S = sympy.Symbol(f"u{SIGNED_FROM}", integer=True)
POINTS = [
    dict(zip((N, K, S), point, strict=True)) for point in itertools.product((0, 1, 2, 5, 11), (0, 1, 3, 8), (-7, -1, 0, 4))
]


def value(dim: Dim, at: dict[sympy.Basic, int]) -> int:
    """The number that a size is, by Python's arithmetic."""
    if isinstance(dim, int) or dim.is_Integer:
        return int(dim)
    if isinstance(dim, sympy.Symbol):
        return at[dim]
    parts = [value(part, at) for part in dim.args]
    if isinstance(dim, sympy.Add):
        return sum(parts)
    if isinstance(dim, sympy.Mul):
        return math.prod(parts)
    if isinstance(dim, sympy.Pow):
        return int(parts[0] ** parts[1])
    if isinstance(dim, sympy.Min | sympy.Max):
        return min(parts) if isinstance(dim, sympy.Min) else max(parts)
    if isinstance(dim, FloorDiv):
        return parts[0] // parts[1]
    assert isinstance(dim, Mod | PythonMod), dim
    return parts[0] % parts[1]


def drawn(rng: random.Random, depth: int) -> tuple[Dim, list[int]]:
    """A size of up to ``depth`` operations, and its values at `POINTS`."""
    if depth == 0:
        leaf = rng.choice([N, N, K, K, S, rng.randint(-3, 9)])
        return leaf, [value(leaf, point) for point in POINTS]
    a, first = drawn(rng, depth - 1)
    b, second = drawn(rng, rng.randint(0, depth - 1))
    number = rng.choice([1, 2, 3, 4, 7])
    size, python = {
        "add": (lambda: D.to_dim(a + b), lambda x, y: x + y),
        "sub": (lambda: D.difference(a, b), lambda x, y: x - y),
        "mul": (lambda: D.to_dim(a * number), lambda x, y: x * number),
        "times": (lambda: D.product([a, b]), lambda x, y: x * y),
        "min": (lambda: D.minimum(a, b), min),
        "max": (lambda: D.maximum(a, b), max),
        "div": (lambda: D.floor_div(a, number), lambda x, y: x // number),
        "up": (lambda: D.ceil_div(a, number), lambda x, y: -(-x // number)),
        "mod": (lambda: D.modulo(a, number), lambda x, y: x % number),
        "slice": (lambda: D.slice_length(b, a, number), lambda x, y: max(0, -(-(x - y) // number))),
    }[rng.choice("add sub mul times min max div up mod slice".split())]
    return size(), list(map(python, first, second))


def test_every_operation_and_every_proof_holds_at_all_points() -> None:
    rng = random.Random(7)
    proven = 0
    for _ in range(200):
        a, first = drawn(rng, rng.randint(1, 3))
        b, second = drawn(rng, rng.randint(0, 2))
        assert [value(a, point) for point in POINTS] == first, a
        if D.is_nonnegative(a):
            proven += 1
            assert min(first) >= 0, a
        equal = D.known_equal(a, b)
        assert equal is None or all((x == y) is equal for x, y in zip(first, second, strict=True)), (a, b)
        quotient = D.exact_div(a, b)
        if quotient is not None:
            whole = [(value(quotient, at), x, y) for at, x, y in zip(POINTS, first, second, strict=True) if y != 0]
            assert all(q * y == x for q, x, y in whole), (a, b, quotient)
        if not isinstance(a, int):
            other = D.replaced(a, {N: K, K: sympy.Integer(2)})
            assert all(value(other, at) == value(a, {N: at[K], K: 2, S: at[S]}) for at in POINTS), a
    assert proven > 30


def test_names_of_parts_keep_the_value() -> None:
    rng = random.Random(11)
    for _ in range(100):
        size, numbers = drawn(rng, 4)
        if isinstance(size, int):
            continue
        names: dict[sympy.Basic, sympy.Symbol] = {}

        def name(part: sympy.Expr, names: dict[sympy.Basic, sympy.Symbol] = names) -> sympy.Symbol:
            number = len(names) + (10 if D.is_nonnegative(part) else SIGNED_FROM + 10)
            return names.setdefault(part, sympy.Symbol(f"u{number}", integer=True))

        smaller = D.in_parts(size, name)
        for at, number in zip(POINTS, numbers, strict=True):
            assert value(smaller, at | {own: value(part, at) for part, own in names.items()}) == number, size


def test_what_slices_and_windows_need() -> None:
    assert D.is_nonnegative(N - FloorDiv(N, 2))
    assert D.is_nonnegative(N - D.minimum(N, 5))
    assert D.is_nonnegative(N - D.modulo(N, 7))
    assert D.is_nonnegative(D.floor_div(N - 1, 2) + 1)
    assert not D.is_nonnegative(D.floor_div(N - 3, 2) + 1)
    assert not D.is_nonnegative(N * K - N)
    assert not D.is_nonnegative(S * S - 1)
    assert D.maximum(0, D.maximum(0, N - 1) - 1) == D.maximum(0, N - 2)
    assert D.minimum(D.minimum(N, 200), 100) == D.minimum(N, 100)
    assert D.slice_length(D.minimum(1, N), N, 1) == D.maximum(0, N - 1)
    assert D.modulo(7 * N + K, 7) == D.modulo(K, 7)
    assert D.known_equal(D.difference(N, D.maximum(0, N - 1)), D.minimum(N, 1))


def test_a_long_chain_does_not_fit() -> None:
    size: Dim = N
    for number in range(4):
        size = D.minimum(D.to_dim(D.floor_div(size + number, 2) + K), 90 - number)
    assert not D.fits(size)
    assert D.fits(D.product([D.floor_div(N, 7), D.floor_div(K, 7), N, K]))
