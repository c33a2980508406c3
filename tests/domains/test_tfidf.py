"""TfIdfVectorizer over integers against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import agrees

POOL = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 8, 6, 7]
ROWS = np.array([[1, 5, 3, 8, 6, 7], [8, 6, 7, 5, 6, 8]])
INPUTS = [ROWS, ROWS.astype(np.int32), ROWS[1], ROWS[:, :1], ROWS[:, :0]]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("shortest", "longest", "skipped"), [(1, 1, 0), (2, 2, 0), (2, 2, 5), (1, 3, 1)])
def test_counts(mode: str, shortest: int, longest: int, skipped: int) -> None:
    attributes: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": shortest,
        "max_gram_length": longest,
        "max_skip_count": skipped,
        "ngram_counts": [0, 4, 10],
        "ngram_indexes": [1, 0, 2, 3, 4, 5, 6, 7],
        "pool_int64s": POOL,
        "weights": [0.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    }
    for position, data in enumerate(INPUTS):
        agrees("TfIdfVectorizer", [data], opset=9, dynamic=bool(position % 2), **attributes)
    agrees("TfIdfVectorizer", [ROWS], opset=21, dynamic=True, **attributes)


def test_weights_are_those_of_the_n_grams() -> None:
    pool: dict[str, Any] = {"ngram_counts": [0, 1], "ngram_indexes": [2, 0, 1], "pool_int64s": [7, 7, 8, 8, 7]}
    lengths = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0}
    agrees("TfIdfVectorizer", [np.array([8, 7, 8, 8])], opset=9, mode="TFIDF", weights=[10.0, 20.0, 30.0], **pool, **lengths)
