"""Attention as onnxruntime fuses it: one program of open sizes each, eager and native, against onnxruntime's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import Array, agrees, eager, native_run, node_model, reference

RNG = np.random.default_rng(0)
B, S, L, N, H, P = 2, 3, 4, 2, 8, 5
"""Batch, steps, steps of keys, heads, size of a head, steps of the past."""


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def ints(*numbers: Any, dtype: type = np.int32) -> Array:
    return np.array(numbers, dtype)


def holds(op: str, *inputs: Array | None, outputs: int = 1, **attributes: Any) -> None:
    """The node with all sizes open gives what onnxruntime gives."""
    half = any(item is not None and item.dtype == np.float16 for item in inputs)
    tolerance = {"rtol": 1e-2, "atol": 4e-3} if half else {"rtol": 1e-4, "atol": 1e-5}
    agrees(op, list(inputs), opset=1, domain="com.microsoft", dynamic=True, outputs=outputs, **tolerance, **attributes)


def narrow(*inputs: Array | None) -> list[Array | None]:
    return [item.astype(np.float16) if item is not None and item.dtype == np.float32 else item for item in inputs]


PLACES = ints([0, 1, 2], [4, 5, 6], dtype=np.int64)
TABLES = [floats(10, 4), floats(10, 4)]
QUERY, KEY, VALUE = floats(B, S, N * H), floats(B, L, N * H), floats(B, L, N * 6)
OWN, OWN_VALUE = floats(B, S, N * H), floats(B, S, N * H)
PAST = [floats(B, N, P, H), floats(B, N, P, H)]
NO: list[Array | None] = [None]

ROTARY: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "whole heads": ([floats(B, S, 32), PLACES, *TABLES], {}),
    "first position": ([floats(B, S, 32), ints(1, dtype=np.int64), *TABLES], {"interleaved": 1}),
    "part of a head": ([floats(B, 4, S, 16), PLACES, *TABLES], {"num_heads": 4, "rotary_embedding_dim": 8}),
    "half precision": (narrow(floats(B, S, 32), PLACES, *TABLES), {"num_heads": 4}),
}


@pytest.mark.parametrize("case", ROTARY)
def test_rotary_embedding(case):
    inputs, attributes = ROTARY[case]
    holds("RotaryEmbedding", *inputs, **attributes)


@pytest.mark.parametrize(("layout", "sections"), [(0, [2, 1, 1]), (1, [2, 1, 1]), (1, [1, 3, 0])])
def test_rotary_embedding_of_three_positions(layout, sections):
    places = RNG.integers(0, 9, (3, B, S)).astype(np.int64)
    holds("MRotaryEmbedding", floats(B, S, 16), places, *TABLES, mrope_section=sections, mrope_layout=layout, num_heads=2)


MULTI_HEAD: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "biases": ([QUERY, KEY, VALUE, floats(2 * N * H + N * 6)], {"scale": 0.3}),
    "ends": ([QUERY, KEY, VALUE, None, ints(2, 3)], {}),
    "mask of keys": ([QUERY, KEY, VALUE, None, ints([1, 0, 1, 0], [0, 0, 0, 1])], {"mask_filter_value": -5.0}),
    "mask of queries and keys": ([QUERY, OWN, OWN_VALUE, None, np.tril(np.ones((B, S, S), np.int32))], {"unidirectional": 1}),
    "past": ([QUERY, OWN, OWN_VALUE, *NO * 3, *PAST], {"outputs": 3, "unidirectional": 1}),
    "bias of scores": ([QUERY, KEY, VALUE, *NO * 2, floats(B, 1, S, L)], {}),
    "keys with heads": ([QUERY, floats(B, N, L, H), floats(B, N, L, H), floats(3 * N * H)], {}),
    "more keys than queries": ([QUERY, KEY, VALUE], {"unidirectional": 1}),
    "half precision": (narrow(QUERY, KEY, VALUE), {}),
    "no keys": ([QUERY, KEY[:, :0], VALUE[:, :0]], {}),
}


@pytest.mark.parametrize("case", MULTI_HEAD)
def test_multi_head_attention(case):
    inputs, attributes = MULTI_HEAD[case]
    holds("MultiHeadAttention", *inputs, num_heads=N, **attributes)


BEAMS = ints([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])


@pytest.mark.parametrize("beams", [None, BEAMS])
@pytest.mark.parametrize("op", ["MultiHeadAttention", "DecoderMaskedMultiHeadAttention"])
def test_a_buffer_is_a_past_with_room_behind_it(op, beams):
    """onnxruntime reads the buffer from the present, which has to be the same memory; the same past without room is held."""
    query, key, value = floats(B, 1, N * H), floats(B, 1, N * H), floats(B, 1, N * H)
    filled = 2
    pasts = [past[:, :, :filled].copy() for past in PAST]
    if beams is not None:
        pasts = [np.stack([past[beams[0, row, :filled], :, range(filled)] for row in range(B)]).swapaxes(1, 2) for past in PAST]
    without = [query, key, value, *NO * 3, *pasts]
    output = reference(
        node_model("MultiHeadAttention", without, opset=1, domain="com.microsoft", outputs=3, num_heads=N),
        {f"in{index}": item for index, item in enumerate(without) if item is not None},
    )[0]
    presents = [past.copy() for past in PAST]
    for present, new in zip(presents, (key, value), strict=True):
        present[:, :, filled] = new.reshape(B, N, H)
    inputs: list[Array | None] = [query, key, value, *NO * 3, *PAST, ints(filled), beams]
    attributes: dict[str, Any] = {}
    if op.startswith("Decoder"):
        inputs = [query, key, value, *NO * 2, *PAST, ints(filled), ints(2) if beams is not None else None, beams]
        attributes["past_present_share_buffer"] = 1
    holds(op, *inputs, outputs=3, expected=[output, *presents], num_heads=N, **attributes)


@pytest.mark.parametrize("ranks", [3, 4])
def test_keys_of_an_encoder_get_no_bias(ranks):
    shape = (B, 1, N * H) if ranks == 3 else (B, N, L, H)
    bias = floats(3 * N * H)
    inputs = [floats(B, 1, N * H), floats(*shape), floats(*shape), *NO * 7, bias]
    holds("DecoderMaskedMultiHeadAttention", *inputs, num_heads=N, scale=0.3)


def test_scores_of_multi_head_attention():
    model = node_model(
        "MultiHeadAttention", [QUERY, KEY, VALUE, None, ints(2, 3)], opset=1, domain="com.microsoft", outputs=4, num_heads=N
    )
    for output in model.graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    from onnx2torch_mlir.model import read
    from onnx2torch_mlir.program import convert

    arrays = [QUERY, KEY, VALUE, ints(2, 3)]
    wanted = reference(model, dict(zip(("in0", "in1", "in2", "in4"), arrays, strict=True)))
    program = convert(read(model))
    for results in (eager(program, arrays), native_run(program, arrays)):
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)


INPUT, WEIGHTS, BIAS = floats(B, S, 6), floats(6, 3 * N * 4), floats(3 * N * 4)
LONG = floats(2, B, N, P, 4)
SELF: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "ends": ([INPUT, WEIGHTS, BIAS, ints(2, 3)], {"outputs": 2}),
    "ends and starts": ([INPUT, WEIGHTS, BIAS, ints(7, 8, 2, 1), LONG], {"outputs": 2, "unidirectional": 1}),
    "mask of keys": ([INPUT, WEIGHTS, BIAS, ints([1, 0, 1], [1, 1, 0])], {"mask_filter_value": -3.0}),
    "mask of queries and keys": ([INPUT, WEIGHTS, BIAS, np.tril(np.ones((B, S, S), np.int32))], {"scale": 0.7}),
    "bias of scores": ([INPUT, WEIGHTS, BIAS, None, None, floats(1, 1, S, S)], {}),
    "values of another size": ([INPUT, floats(6, 28), floats(28)], {"qkv_hidden_sizes": [8, 8, 12]}),
    "half precision": (narrow(INPUT, WEIGHTS, BIAS), {}),
}


@pytest.mark.parametrize("case", SELF)
def test_attention(case):
    inputs, attributes = SELF[case]
    holds("Attention", *inputs, num_heads=N, **attributes)


@pytest.mark.parametrize("past", [None, LONG])
def test_attention_of_eight_bits(past):
    x, w = RNG.integers(0, 255, (B, S, 6)).astype(np.uint8), RNG.integers(-40, 40, (6, 24)).astype(np.int8)
    scales = [np.array(0.002, np.float32), np.full(24, 0.002, np.float32)]
    points = [np.array(120, np.uint8), RNG.integers(-9, 9, 24).astype(np.int8)]
    holds("QAttention", x, w, BIAS, *scales, None, *points, past, num_heads=N, outputs=2 if past is not None else 1)


REFUSED: list[tuple[str, list[Array | None], dict[str, Any]]] = [
    ("MultiHeadAttention", [floats(B, S, N, 3, H)], {}),
    ("MultiHeadAttention", [QUERY, floats(B, L, N, 2, H)], {}),
    ("MultiHeadAttention", [QUERY, OWN, OWN_VALUE, *NO * 3, *PAST], {}),
    ("Attention", [INPUT, WEIGHTS, BIAS, np.ones((B, 1, 8, 8), np.int32)], {}),
    ("Attention", [INPUT, WEIGHTS, BIAS], {"do_rotary": 1}),
    ("Attention", [INPUT, WEIGHTS, BIAS, None, LONG], {}),
    ("Attention", [INPUT, WEIGHTS, BIAS, None, LONG, floats(B, N, S, S + P)], {"outputs": 2}),
    ("QAttention", [np.ones((B, S, 6), np.int8)], {}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), REFUSED)
def test_what_the_kernel_refuses(op, inputs, attributes):
    with pytest.raises(Refusal):
        holds(op, *inputs, num_heads=N, expected=[None], **attributes)
