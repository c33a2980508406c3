"""GroupQueryAttention: first calls, further ones and single steps over caches of all kinds, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.domains.com_microsoft.test_attention import NO, floats, holds, ints, narrow
from tests.one_node import Array, eager, native_run, reference

N, K, H = 4, 2, 16
"""Heads of queries and of keys, and the size of a head."""
B, S, P = 2, 4, 6
"""Batch, steps of a first call, and room of the past."""
FIRST: list[Array | None] = [floats(B, S, N * H), floats(B, S, K * H), floats(B, S, K * H)]
NEXT: list[Array | None] = [floats(B, 1, N * H), floats(B, 1, K * H), floats(B, 1, K * H)]
ONE = [None if item is None else item[:1] for item in FIRST]
PAST: list[Array | None] = [floats(B, K, P, H), floats(B, K, P, H)]
ONE_PAST = [None if item is None else item[:1] for item in PAST]
TABLES: list[Array | None] = [floats(32, 8), floats(32, 8)]
FULL, PADDED = [ints(3, 3), np.array(S, np.int32)], [ints(3, 1), np.array(S, np.int32)]
IN_ROOM, BEHIND = [ints(3, 4), np.array(5, np.int32)], [ints(3, 6), np.array(7, np.int32)]

WINDOW = {"sliding_window_cache": 1, "local_window_size": 3}
"""Rows of the cache that hold no step onnxruntime leaves unwritten: here all hold one."""
SHORT = [floats(B, K, S, H), floats(B, K, S, H)]
FULL_WINDOW = [ints(9, 9), np.array(10, np.int32)]

CASES: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "first call, one batch shorter": ([*FIRST, None, None, *PADDED], {}),
    "first call into room": ([*FIRST, *PAST, *PADDED], {}),
    "step in room": ([*NEXT, *PAST, *IN_ROOM], {}),
    "step behind the past": ([*NEXT, *PAST, *BEHIND], {}),
    "several steps behind the past": ([*ONE, *ONE_PAST, ints(9), ints(10)], {}),
    "packed": ([floats(B, 1, (N + 2 * K) * H), None, None, *PAST, *IN_ROOM, *TABLES], {"do_rotary": 1}),
    "rotary positions": ([*FIRST, None, None, *PADDED, *TABLES], {"do_rotary": 1, "rotary_interleaved": 1}),
    "positions of a first call": (
        [*FIRST, None, None, *FULL, *TABLES, ints([2, 1, 7, 3], [5, 6, 7, 8], dtype=np.int64)],
        {"do_rotary": 1},
    ),
    "positions of a step": ([*NEXT, *PAST, *IN_ROOM, *TABLES, ints([9], [3], dtype=np.int64)], {"do_rotary": 1}),
    "bias of scores, cap": ([*NEXT, *PAST, *IN_ROOM, *NO * 3, floats(B, N, 1, 5)], {"softcap": 2.0, "scale": 0.2}),
    "sinks": ([*FIRST, None, None, *FULL, *NO * 4, floats(N)], {}),
    "smooth, window": ([*FIRST, None, None, *PADDED], {"smooth_softmax": 1, "local_window_size": 2}),
    "not causal": ([*NEXT, *PAST, *IN_ROOM], {"causal": 0}),
    "last step that a window has room for": ([*NEXT, *PAST, ints(5, 5), np.array(6, np.int32)], WINDOW),
    "first call into a window": ([*FIRST, *SHORT, *FULL], WINDOW),
    "steps evicted": ([*NEXT, *PAST, *FULL_WINDOW, *TABLES, None, floats(1, N, 1, 10)], {"do_rotary": 1, **WINDOW}),
    "several steps, others evicted": ([*ONE, *ONE_PAST, ints(13), ints(14), *NO * 3, floats(1, 1, S, 14)], WINDOW),
    "half precision": (narrow(*NEXT, *PAST, *IN_ROOM, *TABLES), {"do_rotary": 1}),
    "as many keys": ([FIRST[0], floats(B, S, N * H), floats(B, S, N * H), None, None, *FULL], {"kv_num_heads": N}),
}


@pytest.mark.parametrize("case", CASES)
def test_group_query_attention(case):
    inputs, attributes = CASES[case]
    holds("GroupQueryAttention", *inputs, outputs=3, **{"num_heads": N, "kv_num_heads": K, **attributes})


@pytest.mark.parametrize(("kind", "bits"), [("PER_TENSOR", 8), ("PER_CHANNEL", 4)])
def test_caches_of_few_bits(kind, bits):
    rng = np.random.default_rng(1)
    shape, dtype = ((B, K, P, H), np.int8) if bits == 8 else ((B, K, P, H // 2), np.uint8)
    past = [rng.integers(0, 255, shape).astype(np.uint8).view(dtype) for _ in range(2)]
    scale = (rng.random((1, K, 1, H) if kind == "PER_CHANNEL" else 1) * 0.5 + 0.01).astype(np.float32) / (1 << (bits - 4))
    inputs = [*NEXT, *past, *IN_ROOM, *TABLES, *NO * 3, scale, scale]
    kinds = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    holds("GroupQueryAttention", *inputs, outputs=3, num_heads=N, kv_num_heads=K, do_rotary=1, **kinds)


@pytest.mark.parametrize("mode", [1, 2])
def test_scores_and_weights(mode):
    inputs = [*FIRST, None, None, *FULL]
    holds("GroupQueryAttention", *inputs, outputs=4, num_heads=N, kv_num_heads=K, qk_output=mode, softcap=1.5, expected=None)


def test_a_past_without_a_present_is_refused():
    """onnxruntime then reads no past, without a word."""
    with pytest.raises(Refusal, match="present"):
        holds("GroupQueryAttention", *NEXT, *PAST, *IN_ROOM, num_heads=N, kv_num_heads=K, expected=[None])


DECODER = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
agraph (float[B, S, 64] q, float[B, S, 32] k, float[B, S, 32] v, float[B, 2, P, 16] past_k, float[B, 2, P, 16] past_v,
        int64[B, T] mask, float[32, 8] cos, float[32, 8] sin)
    => (float[B, S, 64] y, float[B, 2, R, 16] new_k, float[B, 2, R, 16] new_v) {
    one = Constant <value_ints = [1]> ()
    counts = ReduceSum <keepdims = 0> (mask, one)
    last = Sub(counts, one)
    lengths = Cast <to = 6> (last)
    shape = Shape(mask)
    place = Constant <value_int = 1> ()
    longest = Gather(shape, place)
    total = Cast <to = 6> (longest)
    y, new_k, new_v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
        (q, k, v, past_k, past_v, lengths, total, cos, sin)
}"""


def test_one_program_for_first_calls_and_steps():
    model = onnx.parser.parse_model(DECODER)
    program = convert(read(model))
    for batch, steps, past, total in [(2, 5, 0, 5), (2, 1, 5, 6), (1, 4, 6, 10), (3, 1, 8, 5), (1, 1, 0, 1), (2, 3, 7, 3)]:
        mask = np.ones((batch, total), np.int64)
        mask[1:, -1] = 0
        arrays = [floats(batch, steps, width) for width in (64, 32, 32)] + [floats(batch, 2, past, 16) for _ in range(2)]
        arrays += [mask, *(table for table in TABLES if table is not None)]
        wanted = reference(model, dict(zip((item.name for item in model.graph.input), arrays, strict=True)))
        for results in (eager(program, arrays), native_run(program, arrays)):
            for result, want in zip(results, wanted, strict=True):
                np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
