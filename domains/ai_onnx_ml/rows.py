"""What the operators of this domain share: observations as the rows of a matrix, values per feature, class labels."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.lookup import pick


def as_rows(g: ProgramBuilder, x: Value) -> Value:
    """``x`` as [observations, features]: one of rank 1 is one observation.

    Raises:
        Refusal: O2M-C005 for another rank than 1 and 2.
    """
    if x.rank == 1:
        return g.reshape(x, [1, x.shape[0]])
    if x.rank != 2:
        raise refuse("O2M-C005", f"the observations have rank {x.rank}, not 1 or 2", case=f"rank {x.rank}")
    return x


def working_float(x: Value) -> torch.dtype:
    """The dtype in which onnxruntime computes with ``x``: float64 for float64, else float32."""
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def per_feature(g: ProgramBuilder, x: Value, numbers: Sequence[float | int], dtype: torch.dtype, name: str) -> Value:
    """``numbers``, one for all features of ``x`` or one for each, so that they broadcast over its last axis.

    Raises:
        Refusal: O2M-C005 where their count fits neither, O2M-C003 for one per feature beyond rank 2 (ONNX does not say
            which axis the features are).
    """
    if len(numbers) == 1:
        return g.scalar(numbers[0], dtype)
    if x.rank == 0:
        raise refuse("O2M-C005", f"{len(numbers)} values of {name} for a scalar", case=name)
    if x.rank > 2:
        raise refuse("O2M-C003", f"one {name} per feature of an operand of rank {x.rank}", case=f"rank {x.rank}")
    g.require_equal(x.shape[-1], len(numbers), f"count of {name} and of features")
    return g.known(torch.tensor(list(numbers), dtype=dtype))


def require_features(g: ProgramBuilder, x: Value, count: int) -> None:
    """Assert that the rows ``x`` have at least ``count`` features.

    Raises:
        Refusal: O2M-C005 where they are known to have fewer.
    """
    features = x.shape[1]
    text = f"the model uses {count} features, the observations have {g.table.describe(features)}"
    if isinstance(features, int):
        if features < count:
            raise refuse("O2M-C005", text)
        return
    g.require(sympy.Ge(features, count), text)


def integer_labels(ints: Sequence[int] | None, strings: Sequence[str] | None) -> list[int]:
    """The class labels, which are integers.

    Raises:
        Refusal: O2M-C003 where they are strings, O2M-C005 where there are none.
    """
    if strings:
        raise refuse("O2M-C003", "class labels that are strings have no place in a tensor program", case="classlabels_strings")
    if not ints:
        raise refuse("O2M-C005", "there are no class labels", case="classlabels")
    return list(ints)


def label_at(g: ProgramBuilder, labels: Sequence[int], index: Value) -> Value:
    """The labels at ``index``, as int64."""
    return pick(g, g.known(torch.tensor(list(labels), dtype=torch.int64)), index)
