"""Weights that are computed from others are made and packed some columns at a time: the same numbers in little memory."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from onnx2torch_mlir.engine import computed
from onnx2torch_mlir.engine.computed import Computed
from onnx2torch_mlir.engine.derived import evaluated, numbers_of
from onnx2torch_mlir.engine.derived_parts import part_of, shapes_of, work
from onnx2torch_mlir.engine.layout import CODES_HEADER, Packing
from onnx2torch_mlir.engine.packed_weights import packed

WIDTH = 8
WHOLE = 1 << 40
"""Numbers of which no weight has as many."""


def nibbles(columns, blocks, block=32):
    """Steps that make [steps, columns] of two codes to a byte, a scale for each block, and one zero point."""
    steps = blocks * block
    return [
        ["weight", 0],
        ["reshape", 0, [columns, steps // 2, 1]],
        ["weight", 1],
        ["nest", [1, 2], [[0, 1, -1], [2]], [columns, steps // 2, 2], [["arith.shrui", [0, 1], "i8", None]], 2, [0, 1, 2]],
        ["full", 15, "i8", []],
        ["nest", [3, 4], [[0, 1, 2], []], [columns, steps // 2, 2], [["arith.andi", [0, 1], "i8", None]], 2, [0, 1, 2]],
        ["reshape", 5, [columns, steps]],
        ["reshape", 6, [columns, blocks, block]],
        ["weight", 2],
        ["full", 8, "i32", [columns, blocks, 1]],
        [
            "nest",
            [7, 8, 9],
            [[0, 1, 2], [0, 1, -1], [0, 1, -1]],
            [columns, blocks, block],
            [
                ["arith.uitofp", [0], "f32", None],
                ["arith.sitofp", [2], "f32", None],
                ["arith.subf", [3, 4], "f32", None],
                ["arith.mulf", [5, 1], "f32", None],
            ],
            6,
            [0, 1, 2],
        ],
        ["reshape", 10, [columns, steps]],
        ["nest", [11], [[1, 0]], [steps, columns], [], 0, [0, 1]],
    ]


def nibble_weights(columns, blocks, block=32):
    rng = np.random.default_rng(columns)
    codes = rng.integers(0, 255, (columns, blocks, block // 2), np.uint8, endpoint=True)
    return [codes, np.array([0, 4], np.uint8), rng.standard_normal((columns, blocks, 1)).astype(np.float32)]


MUL = [["arith.mulf", [0, 1], "f32", None]]
STEPS = {
    "nibbles": nibbles(6, 2, 4),
    "all that moves": [
        ["weight", 0],
        ["slice", 0, [0, 1, 0], [6, 3, 2], [1, 2, 1]],
        ["flip", 1, [0, 2]],
        ["pad", 2, 7.0, [1, 0, 2], [0, 2, 0]],
        ["reshape", 3, [7, 20]],
        ["weight", 1],
        ["nest", [4, 5], [[1, 0], [-1, 0]], [20, 7], MUL, 2, [1, 0]],
        ["reshape", 6, [7, 5, 4]],
    ],
    "a reshape that mixes axes": [
        ["weight", 0],
        ["flip", 0, [1]],
        ["reshape", 1, [14, 9]],
        ["full", 2.0, "f32", []],
        ["nest", [2, 3], [[0, 1], []], [14, 9], MUL, 2, [0, 1]],
        ["reshape", 4, [7, 2, 9]],
    ],
    "a number": [["weight", 1], ["slice", 0, [0, 3], [1, 1], [1, 1]], ["reshape", 1, []]],
}


def weights_of(name):
    rng = np.random.default_rng(1)
    if name == "nibbles":
        return nibble_weights(6, 2, 4)
    return [rng.standard_normal((6, 7, 3)).astype(np.float32), rng.standard_normal((1, 20)).astype(np.float32)]


def cut(array, part):
    return array[tuple(slice(start, start + count) for start, count in part)]


def narrowed_to(part, steps, shapes, weights):
    """The steps that make a part, and the weights that they read."""
    narrowed, reads = part_of(steps, shapes, part)
    return narrowed, [cut(weights[number], ranges) for number, ranges in reads]


@pytest.mark.parametrize("name", STEPS)
def test_any_part_is_a_part_of_the_whole(name):
    steps, weights = STEPS[name], weights_of(name)
    whole = numbers_of(evaluated(steps, weights))
    shapes = shapes_of(steps, weights)
    assert shapes[-1] == whole.shape
    ranges = [{(0, n), (0, 1), (n - 1, 1), (1, n - 1), (n // 2, n - n // 2), (n // 3, 2), (1, 0)} for n in whole.shape]
    for part in itertools.product(*ranges):
        narrowed, read = narrowed_to(part, steps, shapes, weights)
        expected = cut(whole, part)
        assert shapes_of(narrowed, read)[-1] == expected.shape
        np.testing.assert_array_equal(numbers_of(evaluated(narrowed, read)), expected)


def test_a_part_takes_its_share_of_the_work():
    steps, weights = nibbles(64, 4), nibble_weights(64, 4)
    shapes = shapes_of(steps, weights)
    narrowed, read = narrowed_to(((0, 128), (32, 4)), steps, shapes, weights)
    assert work(narrowed, shapes_of(narrowed, read)) * 16 == work(steps, shapes)
    assert [array.size for array in read] == [weights[0].size // 16, 2, weights[2].size // 16]


def packing_of(shape, *, codes):
    """Rows are summed up, the last axis has the columns."""
    *segments, columns = ((n, math.prod(shape[axis + 1 :])) for axis, n in enumerate(shape))
    return Packing(0, 0, WIDTH, [], columns, segments, codes=codes)


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("name", ["nibbles", "all that moves", "a reshape that mixes axes"])
def test_packed_by_parts_is_the_same(name, codes, monkeypatch):
    steps, weights = STEPS[name], weights_of(name)
    shape = shapes_of(steps, weights)[-1]
    packing = packing_of(shape, codes=codes)
    found = {}
    for at_once in (WHOLE, 1, 20):
        monkeypatch.setattr(computed, "_AT_ONCE", at_once)
        found[at_once] = (packed(Computed(shape, steps, weights), packing), Computed(shape, steps, weights).numbers())
    for words, numbers in found.values():
        np.testing.assert_array_equal(words, found[WHOLE][0])
        np.testing.assert_array_equal(numbers, numbers_of(evaluated(steps, weights)))


def header(words):
    return words[:CODES_HEADER].view(np.int64).tolist()


@pytest.mark.parametrize(
    ("other", "bits"),
    [("more bits", 8), ("blocks", 4), ("zero", 4), ("fractions", 4), ("negative fractions", 32), ("steps", 32)],
)
def test_later_columns_have_another_form(other, bits, monkeypatch):
    """Columns 16 on do not have the form of those before."""
    steps, columns = 16, 40
    rng = np.random.default_rng(0)
    code = rng.integers(0, 15, (steps, columns)).astype(np.int8)
    zero, scale = np.full((steps, columns), 8, np.float32), np.ones((steps, columns), np.float32)
    if other == "more bits":
        code[3, 30] = 100
    if other == "blocks":
        scale[8:, 20:] = 2
    if other == "zero":
        zero[:, 39] = 3
    if other.endswith("fractions"):
        zero[:, 18:] = 2.5
    if other == "negative fractions":
        code[:] -= 8
    if other == "steps":
        scale[5:, 39] = 0.5
    operations = [["arith.sitofp", [0], "f32", None], ["arith.subf", [3, 1], "f32", None], ["arith.mulf", [4, 2], "f32", None]]
    made = [*(["weight", n] for n in range(3)), ["nest", [0, 1, 2], [[0, 1]] * 3, [steps, columns], operations, 5, [0, 1]]]
    packing = packing_of((steps, columns), codes=True)
    whole = packed(Computed((steps, columns), made, [code, zero, scale]), packing)
    monkeypatch.setattr(computed, "_AT_ONCE", 1)
    words = packed(Computed((steps, columns), made, [code, zero, scale]), packing)
    np.testing.assert_array_equal(words, whole)
    assert header(words)[0] == bits


def test_codes_are_packed_in_little_memory():
    """Of 4 million numbers not even a byte each is there at once, beside what they are packed into."""
    columns, blocks = 2048, 64
    weight = Computed((2048, columns), nibbles(columns, blocks), nibble_weights(columns, blocks))
    tracemalloc.start()
    words = packed(weight, packing_of(weight.shape, codes=True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert header(words)[:2] == [4, 32]
    # What the words lie in does not count among this.
    assert peak < math.prod(weight.shape) * 3 // 4


def test_who_wants_to_is_told_what_has_been_read(monkeypatch):
    """While the rest is still to be read, each piece of a weight that is one in memory; at the end, every weight."""
    monkeypatch.setattr(computed, "_AT_ONCE", 1)
    weights = nibble_weights(24, 2)
    places = {weight.ctypes.data: weight.nbytes for weight in weights}
    told = []
    weight = Computed((64, 24), nibbles(24, 2), weights, lambda *piece: told.append(piece))
    ends = []
    for start, _ in weight.parts(1, WIDTH):
        ends.append(start)
        assert len(told) == 2 * (len(ends) - 1)
    assert ends == [0, 8, 16]
    assert dict(told[-3:]) == places
    for number in (0, 2):
        start, size = weights[number].ctypes.data, weights[number].nbytes
        assert [piece for piece in told[:-3] if start <= piece[0] < start + size] == [
            (start + size // 3 * part, size // 3) for part in range(3)
        ]
