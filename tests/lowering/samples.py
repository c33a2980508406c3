"""Sample calls of every primitive: what the test matrix runs, by dtype, static and dynamic.

A tensor argument is an `X`: its shape may hold the names of dynamic dims (``"a"``, ``"b"``), which are the same symbols
in every argument of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

F = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
S = (torch.int8, torch.int16, torch.int32, torch.int64)
U = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
B = (torch.bool,)
F8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
I64 = (torch.int64,)
F32 = (torch.float32,)
ALL = F + S + U + B
PLAIN = F + S + (torch.uint8,)

A = "a"
N = "b"
ABN = (A, 4, N)


@dataclass(frozen=True)
class X:
    """A tensor argument; ``dtype`` None stands for the cell's.

    ``values``: "normal" (with special values for floats), "tame" (no NaN or infinity), "positive", "unit" (in -1 … 1),
    "small" (0 … 3), "index:n" (whole numbers below n), "wrap:n" (from -n to n - 1), "distinct:n" (no two equal
    along dim 0).
    """

    shape: tuple[int | str, ...] = ABN
    values: str = "normal"
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Sample:
    """One call: arguments, keywords, and the dtypes of the cells."""

    args: tuple[Any, ...]
    dtypes: Sequence[torch.dtype]
    kwargs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] | None = None
    tolerance: float | None = None


def unary(dtypes: Sequence[torch.dtype], values: str = "normal") -> list[Sample]:
    return [Sample((X(values=values),), dtypes), Sample((X((), values),), dtypes[:1])]


def binary(dtypes: Sequence[torch.dtype], first: str = "normal", second: str = "normal") -> list[Sample]:
    return [
        Sample((X(values=first), X(values=second)), dtypes),
        Sample((X(values=first), X((1, N), second)), dtypes[:1]),
        Sample((X((A, 1, 1), first), X((4, N), second)), dtypes[:1]),
    ]


def scalar(dtypes: Sequence[torch.dtype], number: Any, values: str = "normal") -> list[Sample]:
    return [Sample((X(values=values), number), dtypes)]


def index(count: int, shape: tuple[int | str, ...], values: str = "index") -> X:
    return X(shape, f"{values}:{count}", torch.int64)


_FLOAT_UNARY = {
    "ceil": "normal", "floor": "normal", "round": "normal", "trunc": "normal", "sqrt": "normal", "rsqrt": "positive",
    "reciprocal": "normal", "exp": "normal", "exp2": "normal", "expm1": "normal", "log": "normal", "log1p": "normal",
    "log2": "normal", "log10": "normal", "sin": "tame", "cos": "tame", "tan": "unit", "asin": "unit", "acos": "unit",
    "atan": "normal", "sinh": "tame", "cosh": "tame", "tanh": "normal", "asinh": "tame", "acosh": "positive",
    "atanh": "unit", "erf": "normal", "sigmoid": "normal", "gelu": "tame",
}  # fmt: skip

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_SOFT = [Sample((X(values="tame"), d, False), F) for d in (0, 1, 2)]
_DIMS = ([0, 2], [1])
_IMAGE = (A, 6, N, 7)
_POOL = [
    Sample((X(_IMAGE, "tame"), [3, 3], [2, 2], [1, 1]), F),
    Sample((X(_IMAGE, "tame"), [3, 2], [1, 2], [0, 1]), F32),
]
_SOURCE = (X(values="tame"), 1, index(4, (A, 3, N)), X((A, 3, N), "tame"))

SAMPLES: dict[str, list[Sample]] = {
    **{name: unary(F, values) for name, values in _FLOAT_UNARY.items()},
    "abs": unary(F + S),
    "neg": unary(F + S),
    "sign": unary(F + S + (torch.uint8,), "tame"),
    "relu": unary(F + S),
    "logical_not": unary(ALL),
    "bitwise_not": unary(S + U + B),
    "isnan": unary(F + I64),
    "isinf": unary(F + I64),
    "add.Tensor": [*binary(ALL), Sample((X(), X()), (torch.float32, torch.int32), {"alpha": 3})],
    "sub.Tensor": [*binary(F + S + U), Sample((X(), X()), (torch.float32, torch.int32), {"alpha": 2})],
    "mul.Tensor": binary(ALL),
    "div.Tensor": [*binary(F), Sample((X(values="tame"), X(values="positive")), S)],
    "div.Tensor_mode": [
        Sample((X(values="tame"), X(values="positive")), (*F, *S, torch.uint8), {"rounding_mode": mode})
        for mode in ("floor", "trunc")
    ],
    "fmod.Tensor": binary((*F, *S, torch.uint8), "tame", "positive"),
    "remainder.Tensor": binary((*F, *S, torch.uint8), "tame", "positive"),
    "pow.Tensor_Tensor": [*binary(F, "positive", "unit"), *binary((*S, torch.uint8), "normal", "small")],
    "maximum": binary(ALL),
    "minimum": binary(ALL),
    "atan2": binary(F),
    **{f"{name}.Tensor": binary(ALL) for name in _COMPARE},
    **{f"{name}.Scalar": [*scalar(PLAIN, 1), *scalar(F32, 0.5), *scalar(I64, 0.5)] for name in _COMPARE},
    **{f"logical_{name}": binary(ALL) for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Tensor": binary(S + U + B) for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Scalar": scalar(S, 5) for name in ("and", "or", "xor")},
    "bitwise_left_shift.Tensor": binary((*S, torch.uint8), "normal", "small"),
    "bitwise_right_shift.Tensor": binary((*S, torch.uint8), "normal", "small"),
    "add.Scalar": [*scalar(PLAIN, 2), *scalar(F, 0.5), Sample((X((3, 4)), 0.5), I64)],
    "sub.Scalar": [*scalar(PLAIN, 2), *scalar(F, 0.5), Sample((X((3, 4)), 0.5), I64)],
    "mul.Scalar": [*scalar(PLAIN, 3), *scalar(F + I64, 0.5)],
    "div.Scalar": [*scalar(F, 3), *scalar(F + I64, 0.7)],
    "div.Scalar_mode": [Sample((X(values="tame"), 3), F + S, {"rounding_mode": m}) for m in ("floor", "trunc")],
    "fmod.Scalar": scalar(F + S, 3, "tame"),
    "remainder.Scalar": [*scalar(F + S, 3, "tame"), *scalar(S, -3)],
    "pow.Tensor_Scalar": [
        *scalar(PLAIN, 2), *scalar(PLAIN, 3, "small"), *scalar(F, 0.5, "tame"), *scalar(F, -1.0),
        *scalar(F, -0.5, "positive"),
        *scalar(F32, 1.7, "positive"), *scalar(F32, -2, "positive"), *scalar(S, 5, "small"),
    ],
    "pow.Scalar": [Sample((2.5, X(values="unit")), F), Sample((2, X(values="small")), I64)],
    "where.self": [
        Sample((X(values="small", dtype=torch.bool), X(), X()), ALL + F8),
        Sample((X((N,), dtype=torch.bool), X((A, 1, 1)), X((4, N))), F32),
    ],
    "clamp": [
        Sample((X(), -0.5, 0.75), F), Sample((X(), None, 1), F + S), Sample((X(), 0), F + S),
        Sample((X(), 2, 0), I64),
    ],
    "clamp.Tensor": [Sample((X(), X(), X()), F + S), Sample((X(), None, X((N,))), F32)],
    "_to_copy": [
        *(Sample((X(values="tame"),), ALL, {"dtype": to}) for to in ALL),
        *(Sample((X(values="tame"),), (torch.float32, torch.float16), {"dtype": to}) for to in F8),
        *(Sample((X(values="tame"),), F8, {"dtype": to}) for to in (torch.float32, torch.bfloat16)),
        *(Sample((X(),), F32, {"dtype": to}) for to in (*F, torch.bool, torch.float8_e5m2, torch.float8_e4m3fn)),
    ],
    "clone": unary(ALL + F8),
    "sum.dim_IntList": [
        *(Sample((X(values="unit"), d, k), (*PLAIN, torch.bool)) for d in _DIMS for k in (False, True)),
        Sample((X(values="unit"), None), F32),
        Sample((X(values="unit"), [1]), F32, {"dtype": torch.float64}),
    ],
    "mean.dim": [*(Sample((X(values="tame"), d, True), F) for d in _DIMS), Sample((X(values="tame"), None), F32)],
    "amax": [*(Sample((X(), d, True), (*ALL,)) for d in _DIMS), Sample((X(),), F32)],
    "amin": [*(Sample((X(), d), (*ALL,)) for d in _DIMS), Sample((X(),), F32)],
    "prod.dim_int": [Sample((X(values="unit"), 1), F + S), Sample((X(values="unit"), 2, True), F32)],
    "any.dims": [*(Sample((X(values="small"), d), (*PLAIN, torch.bool)) for d in _DIMS), Sample((X(), None), B)],
    "all.dims": [*(Sample((X(values="small"), d, True), (*PLAIN, torch.bool)) for d in _DIMS), Sample((X(), None), B)],
    "argmax": [Sample((X(),), PLAIN), *(Sample((X(), d, True), PLAIN) for d in (0, 1)), Sample((X((3,)),), F32)],
    "argmin": [Sample((X(),), PLAIN), *(Sample((X(), d), PLAIN) for d in (1, 2))],
    "var.correction": [
        Sample((X(values="tame"), [0, 2]), F, {"correction": 1}),
        Sample((X(values="tame"), [1]), F, {"correction": 0, "keepdim": True}),
        Sample((X(values="tame"),), F32, {"correction": 1.5}),
    ],
    "_softmax": _SOFT,
    "_log_softmax": _SOFT,
    "native_layer_norm": [
        Sample((X((A, N, 6), "tame"), [6], X((6,), "tame"), X((6,), "tame"), 1e-5), F),
        Sample((X((A, 3, 4), "tame"), [3, 4], None, None, 1e-3), F32),
    ],
    "cumsum": [Sample((X(values="unit"), d), PLAIN) for d in (0, 1, -1)],
    "cumprod": [Sample((X(values="unit"), d), PLAIN) for d in (0, 2)],
    "sort.stable": [
        Sample((X(),), PLAIN, {"stable": True, "dim": d, "descending": e})
        for d, e in ((2, False), (0, True), (1, False))
    ] + [Sample((X((3, 131), "small"),), F32, {"stable": True, "dim": 1, "descending": True})],
    "topk": [
        Sample((X((A, 31), "tame"), 5), F, {}, (0,)), Sample((X((31, A, 2), "distinct:31"), 3, 0, False), F + I64),
    ],
    "mm": [Sample((X((A, 6), "tame"), X((6, N), "tame")), (*F, *S)),
           Sample((X((3, A), "tame"), X((A, N), "tame")), F32)],
    "bmm": [Sample((X((A, 5, N), "tame"), X((A, N, 3), "tame")), F + S)],
    "convolution": [
        Sample((X(_IMAGE, "tame"), X((4, 6, 3, 3), "tame"), X((4,), "tame"), [2, 1], [1, 1], [1, 1], False, [0, 0], 1),
               F),
        Sample((X(_IMAGE, "tame"), X((4, 3, 2, 3), "tame"), None, [1, 2], [1, 0], [2, 1], False, [0, 0], 2), F32),
        Sample((X(_IMAGE, "tame"), X((6, 1, 3, 3), "tame"), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 6), F32),
        Sample((X(_IMAGE, "tame"), X((12, 1, 3, 3), "tame"), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 6), F32),
        Sample((X(_IMAGE, "tame"), X((6, 4, 3, 3), "tame"), X((4,), "tame"), [2, 2], [1, 0], [1, 1], True, [1, 0], 1),
               (torch.float32, torch.float64)),
        Sample((X((2, 6, 5, 4), "tame"), X((6, 2, 3, 2), "tame"), None, [3, 2], [1, 2], [2, 1], True, [1, 0], 2), F32),
        Sample((X((A, 3, N), "tame"), X((5, 3, 3), "tame"), None, [1], [2], [2], False, [0], 1), F32),
        Sample((X((A, 2, 5, N, 6), "tame"), X((3, 2, 2, 2, 2), "tame"), None, [1, 2, 1], [1, 0, 1], [1, 1, 2], False,
                [0, 0, 0], 1), F32),
    ],
    "max_pool2d_with_indices": [
        *_POOL,
        Sample((X((2, 3, 9, 8), "tame"), [3, 2], [2, 2], [1, 1], [2, 1], True), F + I64),
        Sample((X(_IMAGE), [2, 2]), F32, {}, (0,)),
    ],
    "max_pool3d_with_indices": [Sample((X((2, 3, 6, 7, 5), "tame"), [2, 3, 2], [2, 1, 2], [1, 1, 0]), F)],
    "avg_pool2d": [
        *_POOL,
        Sample((X((2, 3, 9, 8), "tame"), [3, 2], [2, 3], [1, 0], True), F32),
        Sample((X(_IMAGE, "tame"), [3, 3], [2, 2], [1, 1], False, False), F32),
        Sample((X((2, 3, 9, 8), "tame"), [3, 3], [2, 2], [1, 1], True, True, 5), F32),
    ],
    "avg_pool3d": [
        Sample((X((2, 3, 6, 7, 5), "tame"), [2, 3, 2], [2, 1, 2], [1, 1, 0], True, c), F) for c in (True, False)
    ],
    "permute": [Sample((X(), [2, 0, 1]), ALL + F8), Sample((X(), [0, -1, 1]), F32)],
    "expand": [Sample((X((A, 1, N)), [-1, 3, -1]), ALL + F8), Sample((X((1,)), [2, 5]), F32),
               Sample((X(()), [3]), F32)],
    "unsqueeze": [Sample((X(), d), ALL) for d in (0, 2, -1)],
    "squeeze.dims": [Sample((X((1, A, 1, N)), [0, 2]), ALL), Sample((X((1, 1)), [0, 1]), F32)],
    "slice.Tensor": [
        Sample((X(), 0, 1, 2**63 - 1), ALL), Sample((X(), 2, -3, 2**63 - 1, 2), F32), Sample((X(), 1, 1, -1, 1), F32),
        Sample((X(), 0, 0, 2), F32), Sample((X(), 2, 5, 2), F32), Sample((X(), -1, None, None, 3), F32),
    ],
    "select.int": [Sample((X(), 1, 2), ALL), Sample((X(), 1, -1), F32), Sample((X((5, N)), 0, -5), F32)],
    "cat": [
        Sample(([X(), X((A, 2, N))], 1), ALL), Sample(([X(), X(), X((3, 4, N))], 0), F32),
        Sample(([X((0,)), X()], 2), F32), Sample(([X(), X((A, 1, N), dtype=torch.float32)], 1), F + I64),
    ],
    "constant_pad_nd": [
        Sample((X((3, 4, 5)), [1, 2, 0, 3], 1), ALL), Sample((X((3, 4, 5)), [-1, 2, 1, -2, 0, 1], 0.5), F),
        Sample((X((3, 4, 5)), [-1, -2], 0), F32), Sample((X((3, 4)), [0, 0], 0), F32),
    ],
    "flip": [Sample((X(), [0, 2]), ALL), Sample((X(), [-2]), F32)],
    "index_select": [
        Sample((X(), 1, index(4, (N,))), ALL), Sample((X((5, A)), 0, index(5, (A,))), F32),
        Sample((X((5, A)), 0, X((A,), "index:5", torch.int32)), F32),
    ],
    "gather": [Sample((X(), 1, index(4, (A, 7, N))), ALL), Sample((X((5, 3)), 0, index(5, (2, 2))), F32)],
    "index.Tensor": [
        Sample((X(), [None, index(4, (N,), "wrap")]), ALL), Sample((X(), [None, index(4, (2, 1)), None]), F32),
        Sample((X((5, 4, A)), [index(5, (N, 1), "wrap"), index(4, (3,))]), F32),
        Sample((X((5, A, 4)), [index(5, (2,)), None, index(4, (2,))]), F32), Sample((X((5, A)), [index(5, ())]), F32),
    ],
    "scatter.src": [Sample((X((9, 2), "tame"), 0, index(9, (5, 2), "distinct"), X((5, 2), "tame")), ALL)],
    "scatter_add": [Sample(_SOURCE, F + S)],
    "scatter_reduce.two": [
        Sample((*_SOURCE, how), F + S, {"include_self": keep})
        for how in ("sum", "prod", "amax", "amin", "mean") for keep in (True, False)
    ],
    "index_put": [
        Sample((X((9, A)), [index(9, (5,), "distinct")], X((5, A))), ALL),
        Sample((X(values="unit"), [None, index(4, (3,))], X((A, 3, N), "unit"), True), F + S),
        Sample((X((4, A, 5)), [index(4, (3,), "distinct"), None, index(5, (3,))], X((1, A))), F32),
    ],
    "full": [Sample(([3, 4], 2), ALL, {"dtype": None}), Sample(([], 2.5), F, {"dtype": None})],
    "arange.start_step": [
        Sample((1, 20, 3), (*S, torch.uint8, *F), {"dtype": None}), Sample((5, -3, -2), I64, {"dtype": None}),
        Sample((0.0, 1.0, 0.3), F32, {"dtype": None}),
    ],
    "scalar_tensor": [Sample((3,), ALL, {"dtype": None})],
    "nonzero": [Sample((X(values="small"),), ALL), Sample((X((N,), "small"),), F32)],
}  # fmt: skip
"""Samples by primitive, its name without namespace and without ``.default``."""
