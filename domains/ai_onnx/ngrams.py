"""TfIdfVectorizer over integers: how often the n-grams of a pool occur in each row.

An n-gram is recognised token by token: the tokens and every prefix have a number, and a prefix with one more token is
found by the number ``prefix * tokens + token`` among the known ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.lookup import look_up, sorted_table


@dataclass(frozen=True)
class Grams:
    """The n-grams of one length: their tokens, and the column of the result that counts each."""

    tokens: list[tuple[int, ...]]
    columns: list[int]


def tf_idf_vectorizer(
    g: ProgramBuilder,
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Value:
    """[rows, columns], or [columns] for a vector: counts of n-grams, or their presence (IDF), times ``weights``.

    Tokens of an n-gram may lie up to ``max_skip_count`` others apart, equally far; one of a single token counts once.
    ``weights`` belong to the n-grams of the pool, in its order.

    Source: ONNX TfIdfVectorizer.

    Raises:
        Refusal: O2M-C003 for a pool of strings and for n-grams of several weights in one column, O2M-C005 where the
            attributes do not fit together.
    """
    if pool_strings:
        raise refuse("O2M-C003", "a pool of strings has no place in a tensor program", case="pool_strings")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise refuse("O2M-C005", f"{mode!r} is not a mode: TF, IDF and TFIDF are", case="mode")
    if x.rank > 2:
        raise refuse("O2M-C005", f"the tokens have rank {x.rank}, not 1 or 2", case=f"rank {x.rank}")
    if not 1 <= min_gram_length <= max_gram_length <= len(ngram_counts) or max_skip_count < 0:
        raise refuse("O2M-C005", f"n-grams of {min_gram_length} to {max_gram_length} tokens", case="max_gram_length")
    if not ngram_indexes or min(ngram_indexes) < 0:
        raise refuse("O2M-C005", "ngram_indexes is empty or negative", case="ngram_indexes")
    columns = max(ngram_indexes) + 1
    if weights and len(weights) < len(ngram_indexes):
        raise refuse("O2M-C005", f"{len(weights)} weights for {len(ngram_indexes)} n-grams", case="weights")
    matrix = g.cast(x if x.rank == 2 else g.reshape(x, [1, D.product(x.shape)]), torch.int64)
    grams = _grams(pool_int64s or [], ngram_counts, ngram_indexes)
    tokens = sorted({token for length in grams.values() for gram in length.tokens for token in gram})
    numbered = look_up(g, matrix, torch.tensor(tokens, dtype=torch.int64), torch.arange(len(tokens)), -1)
    hits = []
    for length in range(min_gram_length, max_gram_length + 1):
        if length in grams:
            for distance in range(1, (max_skip_count if length > 1 else 0) + 2):
                hits.append(_hits(g, numbered, grams[length], tokens, distance, columns))
    counts = g.full([matrix.shape[0], columns + 1], 0.0, torch.float32)
    if hits:
        places = g.cat(hits, 1)
        ones = g.full(places.shape, 1.0, torch.float32)
        counts = g.call("aten.scatter_add.default", counts, 1, places, ones)
    result = g.slice(counts, 1, 0, columns)
    if mode == "IDF":
        result = g.cast(g.binary("gt", result, 0), torch.float32)
    if mode != "TF" and weights:
        result = g.mul(result, g.known(_by_column(weights, ngram_indexes, columns)))
    return result if x.rank == 2 else g.reshape(result, [columns])


def _grams(pool: Sequence[int], starts: Sequence[int], columns: Sequence[int]) -> dict[int, Grams]:
    """The n-grams of the pool by length.

    Raises:
        Refusal: O2M-C005 where the starts do not divide the pool into whole n-grams.
    """
    result = {}
    seen = 0
    for index, start in enumerate(starts):
        length = index + 1
        end = starts[index + 1] if length < len(starts) else len(pool)
        if not 0 <= start <= end <= len(pool) or (end - start) % length:
            raise refuse("O2M-C005", f"ngram_counts does not divide the pool into whole {length}-grams", case="ngram_counts")
        tokens = [tuple(pool[position : position + length]) for position in range(start, end, length)]
        if len(set(tokens)) != len(tokens):
            raise refuse("O2M-C005", f"the pool holds a {length}-gram twice", case="pool_int64s")
        own = columns[seen : seen + len(tokens)]
        if len(own) != len(tokens):
            raise refuse("O2M-C005", "ngram_indexes is shorter than the pool", case="ngram_indexes")
        seen += len(tokens)
        if tokens:
            result[length] = Grams(tokens, list(own))
    return result


def _by_column(weights: Sequence[float], indexes: Sequence[int], columns: int) -> torch.Tensor:
    """The weight of each column, which is that of its n-gram; 1 for a column without any."""
    found: dict[int, float] = {}
    for column, weight in zip(indexes, weights, strict=False):
        if found.setdefault(column, weight) != weight:
            raise refuse("O2M-C003", f"column {column} counts n-grams of different weights", case="weights")
    return torch.tensor([found.get(column, 1.0) for column in range(columns)], dtype=torch.float32)


def _hits(g: ProgramBuilder, numbered: Value, grams: Grams, tokens: Sequence[int], distance: int, missing: int) -> Value:
    """[rows, windows]: the column of the n-gram that starts in each place with tokens ``distance`` apart, or ``missing``."""
    number = {token: index for index, token in enumerate(tokens)}
    length = len(grams.tokens[0])
    size = numbered.shape[1]
    windows = D.maximum(0, to_dim(size - distance * (length - 1)))
    state = _window(g, numbered, 0, windows)
    prefixes = {gram[:1]: number[gram[0]] for gram in grams.tokens}
    for position in range(1, length):
        item = _window(g, numbered, position * distance, windows)
        known = g.call("aten.logical_and.default", g.binary("ge", state, 0), g.binary("ge", item, 0))
        joined = g.where(known, g.add(g.mul(state, len(tokens)), item), -1)
        longer = {gram[: position + 1]: index for index, gram in enumerate(grams.tokens)}
        keys = [prefixes[gram[:-1]] * len(tokens) + number[gram[-1]] for gram in longer]
        state = look_up(g, joined, *_table(keys, list(longer.values())), -1)
        prefixes = longer
    return look_up(g, state, *_table([prefixes[gram] for gram in grams.tokens], grams.columns), missing)


def _window(g: ProgramBuilder, numbered: Value, start: int, count: Dim) -> Value:
    begin = D.minimum(start, numbered.shape[1])
    return g.slice(numbered, 1, begin, to_dim(begin + count))


def _table(keys: Sequence[int], values: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return sorted_table(torch.tensor(keys, dtype=torch.int64), torch.tensor(values, dtype=torch.int64))
