"""Operators on tokens and their hashes, against onnxruntime's kernels: every number exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import onnx2torch_mlir as o2m
from tests.one_node import agrees

RNG = np.random.default_rng(4)
EXACT = {"domain": "com.microsoft", "opset": 1, "rtol": 0, "atol": 0}


def int32s(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_murmur_hash3(dtype: str) -> None:
    if dtype.startswith("float"):
        x = RNG.standard_normal((3, 5)).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        x = RNG.integers(limits.min, limits.max, (3, 5), dtype=dtype)
    agrees("MurmurHash3", [x], seed=7, dynamic=True, **EXACT)
    agrees("MurmurHash3", [x], positive=0, native=False, **EXACT)


IDS = np.array([[3, 9, 7, 1, 7, 2], [5, 7, 5, 8, 6, 4]])
PAST, OFFSETS = np.array([[1, 2, 3], [4, 7, 6]]), np.array([0, 100, 200, 300, 400, 500])
MULTIPLIERS, SIZES = np.array([2654435761, 40503, 97, 1013]), np.array([11, 13, 17, 19, 23, 29])
SEGMENTS = np.array([[0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 6, 6]], np.int32)
PACKED, BOUNDS = np.array([3, 9, 7, 1, 7, 2, 5, 7, 5]), int32s(0, 2, 3, 9)
PACKED_PAST = np.array([[1, 2, 3], [4, 7, 6], [7, 8, 9]])
PACKED_SEGMENTS, PAST_SEGMENTS = int32s(0, 0, 4, 1, 1, 1, 2, 2, 2), int32s(0, 0, 0, 1, 4, 4, 1, 1, 1).reshape(3, 3)
END = np.array(7)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("inputs", "reset", "native"),
    [
        ([], 0, True),
        ([PAST, OFFSETS], 0, False),
        ([PAST, OFFSETS, END], 0, False),
        ([PAST, OFFSETS, END, SEGMENTS], 1, True),
        ([None, OFFSETS, END, SEGMENTS], 1, False),
        ([None, None, END], 1, False),
        ([None, None, None, SEGMENTS], 1, False),
    ],
)
def test_ngram_hash_mapping(inputs: Any, reset: int, native: bool, dtype: str) -> None:
    attributes = {"max_ngram_size": 4, "n_head_per_ngram": 2, "pad_id": 3, "reset_on_eos": reset}
    arrays = [IDS, MULTIPLIERS, SIZES, *inputs]
    given = [item if item is None or item.dtype == np.int32 else item.astype(dtype) for item in arrays]
    agrees("NGramHashMapping", given, outputs=2, native=native and dtype == "int64", **EXACT, **attributes)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes", "native"),
    [
        ([], 2, {}, False),
        ([PACKED_PAST, OFFSETS], 2, {}, False),
        ([PACKED_PAST, OFFSETS, END, PACKED_SEGMENTS, PAST_SEGMENTS], 3, {"reset_on_eos": 1}, True),
        ([PACKED_PAST, OFFSETS, END, PACKED_SEGMENTS], 3, {"reset_on_eos": 1}, False),
        ([None, None, END, PACKED_SEGMENTS], 3, {}, False),
        ([PACKED_PAST, None, END, PACKED_SEGMENTS, None, int32s(1, 2, 3)], 4, {"state_update_capacity": 4}, False),
        ([PACKED_PAST, None, END, PACKED_SEGMENTS, None, int32s(1, 9, -2)], 4, {"state_update_capacity": 2}, False),
    ],
)
def test_varlen_ngram_hash_mapping(inputs: Any, outputs: int, attributes: Any, native: bool, dtype: str) -> None:
    attributes = {"max_ngram_size": 4, "n_head_per_ngram": 2, "pad_id": 3, **attributes}
    arrays = [PACKED, MULTIPLIERS, SIZES, BOUNDS, *inputs]
    given = [item if item is None or item.dtype == np.int32 else item.astype(dtype) for item in arrays]
    options = {"outputs": outputs, "native": native and dtype == "int64"}
    agrees("VarlenNGramHashMapping", given, **EXACT, **options, **attributes)


SOURCE = np.array([5, 6, 7, 8, 9, 7, 8, 3])


@pytest.mark.parametrize("sizes", [(1, 3), (2, 2), (1, 5)])
@pytest.mark.parametrize(
    ("current", "start", "predicted"),
    [
        ([1, 2], 0, None),
        ([1, 7], 0, None),
        ([7, 8], 0, None),
        ([2, 9, 7, 8], 0, None),
        ([4, 3], 0, None),
        ([], 0, None),
        ([1], 3, [8, 9, 7, 1, 2, 3]),
        ([1], 8, [5]),
        ([1, 2], 0, [5, 6, 7, 8, 9, 7, 8, 3, 4]),
    ],
)
def test_bifurcation_detector(current: Any, start: int, predicted: Any, sizes: tuple[int, int]) -> None:
    inputs = [SOURCE, np.array(current, np.int64), np.array(start), None if predicted is None else np.array(predicted)]
    native = sizes == (1, 3) and start == 3
    agrees(
        "BifurcationDetector",
        inputs,
        outputs=2,
        dynamic=native,
        native=native,
        min_ngram_size=sizes[0],
        max_ngram_size=sizes[1],
        **EXACT,
    )


def test_strings_run_on_the_host() -> None:
    """Tokenizer, and hashes of strings; what follows them is native."""
    text = """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1, "ai.onnx.ml" : 2]>
        agraph (string[N] x) => (float s, uint32[N] hashes) {
            words = com.microsoft.Tokenizer <mark = 1, mincharnum = 1, pad_value = "#", separators = [" "]> (x)
            codes = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b", "#"], values_int64s = [1, 2, 3]> (words)
            numbers = Cast <to = 1> (codes)
            s = ReduceSum <keepdims = 0> (numbers)
            hashes = com.microsoft.MurmurHash3 (x)
        }"""
    model = onnx.parser.parse_model(text)
    x = np.array(["a b", "b c a d"], object)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    program = o2m.convert(model)
    assert {finding.node.op_type for finding in program.report.findings if finding.node} >= {"Tokenizer", "MurmurHash3"}
    for ours, theirs in zip(o2m.compile(program).run([x]), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(ours, theirs)
