"""Linear and sparse attention, and what generation of text does beside a model, against onnxruntime's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.domains.com_microsoft.test_attention import floats, holds, ints, narrow
from tests.one_node import Array

B, T = 2, 5
QUERY, KEY, VALUE = floats(B, T, 12), floats(B, T, 6) / 2, floats(B, T, 8)
DECAY, BETA = -abs(floats(B, T, 2)), abs(floats(B, T, 2))
FOUR_TWO = {"q_num_heads": 4, "kv_num_heads": 2}
CONVOLUTION: list[Array | None] = [floats(3, 1, 4), floats(3)]

CASES: dict[str, tuple[str, list[Array | None], dict[str, Any]]] = {
    "all gates": ("LinearAttention", [QUERY, KEY, VALUE, floats(B, 2, 3, 4), DECAY, BETA], FOUR_TWO),
    "gates that the rule ignores": (
        "LinearAttention",
        [QUERY, KEY, VALUE, None, DECAY, BETA],
        {**FOUR_TWO, "update_rule": "linear"},
    ),
    "more heads of keys": (
        "LinearAttention",
        [floats(B, T, 6), floats(B, T, 12), floats(B, T, 16)],
        {"q_num_heads": 2, "kv_num_heads": 4, "update_rule": "linear"},
    ),
    "gates": ("LinearAttentionGate", [floats(B, T, 3) * 40, floats(3), floats(3), floats(B, T, 3)], {}),
    "gates in half precision": (
        "LinearAttentionGate",
        [*narrow(floats(B, T, 3)), floats(3), floats(3), *narrow(floats(B, T, 3))],
        {},
    ),
    "dilated": ("CausalConvWithState", [floats(B, 3, T), *CONVOLUTION, floats(B, 3, 6)], {"dilation": 2, "activation": "silu"}),
    "channels last": (
        "CausalConvWithState",
        [floats(B, T, 3, 2), floats(6, 1, 4), floats(6), floats(B, 6, 3, 2)],
        {"channels_last": 1, "dilation": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_linear_attention(case):
    op, inputs, attributes = CASES[case]
    holds(op, *inputs, outputs=2, **attributes)


WORDS = ints([1, 2, 3, 1, 2], [4, 4, 4, 4, 4], dtype=np.int64)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_repeated_words_get_no_score(size):
    holds("NGramRepeatBlock", WORDS, floats(2, 6), ngram_size=size)


@pytest.mark.parametrize("costs", [floats(7, 5), floats(1, 3, 4), np.zeros((4, 6), np.float32), floats(1, 5)])
def test_cheapest_path(costs):
    holds("DynamicTimeWarping", costs)


@pytest.mark.parametrize("steps", [1, 40])
def test_sparse_attention_sees_some_blocks(steps):
    """onnxruntime wants buffers that it writes in place, so a formula is held instead."""
    heads, kv_heads, size, room, block, total = 4, 2, 16, 64, 16, 40
    layouts = [[[0], [0, 1], [1, 2], [1, 2, 3]], [[0], [0, 1], [0, 1, 2], [0, 2, 3]]]
    rows = np.array([np.cumsum([0, *map(len, layout)]) for layout in layouts], np.int32)
    columns = np.full((2, 9), -1, np.int32)
    for row, layout in zip(columns, layouts, strict=True):
        row[: sum(map(len, layout))] = [number for numbers in layout for number in numbers]
    query, key, value = (floats(B, steps, width * size) for width in (heads, kv_heads, kv_heads))
    caches = [floats(B, kv_heads, room, size) for _ in range(2)]
    presents = [cache.copy() for cache in caches]
    for present, new in zip(presents, (key, value), strict=True):
        present[:, :, total - steps : total] = new.reshape(B, steps, kv_heads, size).swapaxes(1, 2)
    output = np.zeros((B, steps, heads, size), np.float32)
    for batch, step, head in np.ndindex(B, steps, heads):
        place = total - steps + step
        seen = [p for p in range(place + 1) if p // block in layouts[head % 2][place // block]]
        keys, values = (present[batch, head // 2, seen] for present in presents)
        powers = np.exp(keys @ query[batch, step].reshape(heads, size)[head] / 4)
        output[batch, step, head] = powers / powers.sum() @ values
    inputs = [query, key, value, *caches, rows, columns, ints(total), ints(total, total)]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "sparse_block_size": block}
    expected = [output.reshape(B, steps, heads * size), *presents]
    holds("SparseAttention", *inputs, outputs=3, expected=expected, **attributes)
