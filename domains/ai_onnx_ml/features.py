"""Preparation of features: picked, joined, scaled, normalized, imputed, made binary or one-hot."""

from __future__ import annotations

import math

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.ai_onnx_ml.rows import as_rows, per_feature, working_float
from onnx2torch_mlir.families.indexing import wrapped

LARGEST = 2**63 - 1


def array_feature_extractor(g: ProgramBuilder, x: Value, y: Value) -> Value:
    """The elements ``y`` along the last axis; a vector gives one row. Source: ONNX ArrayFeatureExtractor.

    Raises:
        Refusal: O2M-C005 for a scalar.
    """
    if x.rank == 0:
        raise refuse("O2M-C005", "a scalar has no features", case="rank 0")
    if x.rank == 1:
        x = g.reshape(x, [1, x.shape[0]])
    index = g.reshape(y, [D.product(y.shape)])
    return g.call("aten.index_select.default", x, x.rank - 1, wrapped(g, index, x.shape[-1]))


def binarizer(g: ProgramBuilder, x: Value, *, threshold: float = 0.0) -> Value:
    """1 where the element is above ``threshold``, else 0, in the operand's dtype. Source: ONNX Binarizer."""
    if x.dtype.is_floating_point:
        return g.cast(g.binary("gt", x, threshold), x.dtype)
    if math.isnan(threshold) or threshold >= torch.iinfo(x.dtype).max:
        return g.full(x.shape, 0, x.dtype)
    if threshold < torch.iinfo(x.dtype).min:
        return g.full(x.shape, 1, x.dtype)
    return g.cast(g.binary("gt", x, math.floor(threshold)), x.dtype)


def feature_vectorizer(g: ProgramBuilder, *inputs: Value, inputdimensions: list[int] | None = None) -> Value:
    """The operands side by side in float32, each cut or filled with zeros to its size. Source: ONNX FeatureVectorizer.

    Raises:
        Refusal: O2M-C005 where the sizes given are not as many as the operands.
    """
    if inputdimensions is not None and len(inputdimensions) != len(inputs):
        raise refuse("O2M-C005", f"{len(inputdimensions)} sizes for {len(inputs)} inputs", case="inputdimensions")
    columns: list[Value] = []
    for index, x in enumerate(inputs):
        if x.rank == 0:
            raise refuse("O2M-C005", "a scalar has no features", case="rank 0")
        batch = 1 if x.rank == 1 else x.shape[0]
        width = x.shape[0] if x.rank == 1 else D.product(x.shape[1:])
        matrix = g.reshape(g.cast(x, torch.float32), [batch, width])
        if inputdimensions is not None:
            wanted = inputdimensions[index]
            kept = D.minimum(width, wanted)
            matrix = g.pad(g.slice(matrix, 1, 0, kept), [0, 0], [0, D.maximum(0, wanted - width)])
            matrix = g.reshape(matrix, [batch, wanted])
        if columns:
            g.require_equal(matrix.shape[0], columns[0].shape[0], "observations of the features joined")
        columns.append(matrix)
    return g.cat(columns, 1)


def imputer(
    g: ProgramBuilder,
    x: Value,
    *,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    """Other values in place of one, which may be NaN. Source: ONNX Imputer.

    Raises:
        Refusal: O2M-C005 where there is no value of the operand's kind.
    """
    floating = x.dtype.is_floating_point
    imputed = imputed_value_floats if floating else imputed_value_int64s
    if not imputed:
        name = "imputed_value_floats" if floating else "imputed_value_int64s"
        raise refuse("O2M-C005", f"{name} is missing for an operand of {str(x.dtype).removeprefix('torch.')}", case=name)
    replaced = replaced_value_float if floating else replaced_value_int64
    matches = g.unary("isnan", x) if math.isnan(replaced) else g.binary("eq", x, replaced)
    return g.where(matches, per_feature(g, x, imputed, x.dtype, "imputed value"), x)


def normalizer(g: ProgramBuilder, x: Value, *, norm: str = "MAX") -> Value:
    """Every row divided by its maximum, the sum of its magnitudes or its Euclidean length; rows of norm 0 stay.

    As in onnxruntime: MAX takes the largest element, not the largest magnitude, and L2 takes the root of each quotient.

    Source: ONNX Normalizer.

    Raises:
        Refusal: O2M-C005 for another norm or rank.
    """
    matrix = as_rows(g, x)
    wide = g.cast(matrix, torch.float32)
    if norm == "MAX":
        size = g.amax(g.pad(wide, [0, 0], [0, 1], float(torch.finfo(torch.float32).min)), [1], keepdim=True)
        result = g.div(wide, size)
    elif norm == "L1":
        size = g.sum(g.cast(g.unary("abs", matrix), torch.float32), [1], keepdim=True)
        result = g.div(wide, size)
    elif norm == "L2":
        squares = g.cast(g.mul(matrix, matrix), torch.float32)
        size = g.sum(squares, [1], keepdim=True)
        root = g.unary("sqrt", g.div(squares, size))
        result = g.where(g.binary("lt", wide, 0), g.unary("neg", root), root)
    else:
        raise refuse("O2M-C005", f"{norm!r} is not a norm: MAX, L1 and L2 are", case="norm")
    return g.reshape(g.where(g.binary("ne", size, 0), result, wide), x.shape)


def one_hot_encoder(
    g: ProgramBuilder,
    x: Value,
    *,
    cats_int64s: list[int] | None = None,
    cats_strings: list[str] | None = None,
    zeros: int = 1,
) -> Value:
    """A new last axis with 1.0 at the category of each element (truncated to an integer), of equal ones at the last.

    Without ``zeros`` an element of no category fails when the program runs.

    Source: ONNX OneHotEncoder.

    Raises:
        Refusal: O2M-C003 for categories that are strings, O2M-C005 where there are none.
    """
    if cats_strings:
        raise refuse("O2M-C003", "categories that are strings have no place in a tensor program", case="cats_strings")
    if not cats_int64s:
        raise refuse("O2M-C005", "there are no categories", case="cats_int64s")
    last = {category: index for index, category in enumerate(cats_int64s)}
    live = [last[category] == index for index, category in enumerate(cats_int64s)]
    whole = g.cast(x, torch.int64)
    hits = g.binary("eq", g.unsqueeze(whole, x.rank), g.known(torch.tensor(cats_int64s, dtype=torch.int64)))
    if not all(live):
        hits = g.call("aten.logical_and.default", hits, g.known(torch.tensor(live)))
    if x.dtype.is_floating_point:
        in_range = g.binary("lt", g.unary("abs", x), float(LARGEST))
        hits = g.call("aten.logical_and.default", hits, g.unsqueeze(in_range, x.rank))
    if not zeros:
        none = g.unary("logical_not", g.call("aten.any.dims", hits, [x.rank], False))
        count = g.sum(g.cast(g.reshape(none, [D.product(x.shape)]), torch.int64), [0])
        unknown = g.item(count)
        g.require(sympy.Eq(sympy.sympify(unknown), 0), f"{g.origin}: an element belongs to no category and zeros is 0")
    return g.cast(hits, torch.float32)


def scaler(g: ProgramBuilder, x: Value, *, offset: list[float] | None = None, scale: list[float] | None = None) -> Value:
    """``(x - offset) * scale``, each one number or one per feature; float64 is computed as such. Source: ONNX Scaler."""
    dtype = working_float(x)
    moved = g.sub(g.cast(x, dtype), per_feature(g, x, offset or [0.0], dtype, "offset"))
    return g.cast(g.mul(moved, per_feature(g, x, scale or [1.0], dtype, "scale")), torch.float32)
