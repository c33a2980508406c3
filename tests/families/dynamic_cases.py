"""One case for each operator whose result has sizes: its inputs as a function of a size ``n``.

The dims that vary with ``n`` become symbols of the model, and dims that are equal at every ``n`` one and the same symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Maker = Callable[[int], list[Array | None]]


@dataclass(frozen=True)
class Case:
    """``make(n)`` gives the inputs; those at ``known`` are initializers, and have to be the same at every ``n``."""

    op: str
    make: Maker
    opset: int = 21
    known: tuple[int, ...] = ()
    outputs: int = 1
    domain: str = ""
    rtol: float = 1e-4
    atol: float = 1e-5
    attributes: dict[str, Any] = field(default_factory=dict)


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return np.abs(floats(*shape)) + 0.25


def units(*shape: int) -> Array:
    return np.tanh(floats(*shape)) * 0.95


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def whole(*shape: int, below: int = 7, dtype: Any = np.int64) -> Array:
    return np.random.default_rng(sum(shape) + len(shape)).integers(0, below, shape).astype(dtype)


def bools(*shape: int) -> Array:
    return whole(*shape, below=2).astype(bool)


def case(op: str, make: Maker, opset: int = 21, known: tuple[int, ...] = (), outputs: int = 1, **attributes: Any) -> Case:
    return Case(op, make, opset, known, outputs, attributes=attributes)


UNARY = """
    Abs Asinh Atan Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN
    LeakyRelu LogSoftmax Mish Neg Reciprocal Relu Round Selu Shape Shrink Sigmoid Sign Sin Size Softmax Softplus Softsign Sinh
    Cosh Tan Tanh ThresholdedRelu LpNormalization""".split()
BINARY = "Add Sub Mul Div PRelu Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mean Sum".split()
REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split()


def _elementwise() -> list[Case]:
    cases = [case(op, lambda n: [floats(n, 3)], 24 if op == "Swish" else 21) for op in UNARY]
    cases += [case(op, lambda n: [units(n, 3)]) for op in ("Acos", "Asin", "Atanh")]
    cases += [case(op, lambda n: [positive(n, 3)]) for op in ("Log", "Sqrt")]
    cases += [
        case("Acosh", lambda n: [positive(n, 3) + 1]),
        case("Swish", lambda n: [floats(n, 3)], 24),
        case("Not", lambda n: [bools(n, 3)]),
        case("BitwiseNot", lambda n: [whole(n, 3)]),
        case("Cast", lambda n: [floats(n, 3) * 9], to=7),
        case("CastLike", lambda n: [floats(n, 3) * 9, whole(1)]),
        case("BitCast", lambda n: [floats(n, 3)], 26, to=6),
        case("Clip", lambda n: [floats(n, 3), np.float32(-0.5), np.float32(0.5)]),
        case("Dropout", lambda n: [floats(n, 3)]),
        case("Pow", lambda n: [positive(n, 3), floats(3)]),
        case("Mod", lambda n: [whole(n, 3), whole(3) + 1]),
        case("Where", lambda n: [bools(n, 1), floats(n, 3), floats(3)]),
        case("BitShift", lambda n: [whole(n, 3, dtype=np.uint32), whole(3, dtype=np.uint32)], direction="LEFT"),
    ]
    cases += [case(op, lambda n: [floats(n, 3), floats(3)]) for op in BINARY]
    cases += [case(op, lambda n: [bools(n, 3), bools(n, 1)]) for op in ("And", "Or", "Xor")]
    cases += [case(op, lambda n: [whole(n, 3), whole(3)]) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")]
    return cases


def _reductions() -> list[Case]:
    cases = [case(op, lambda n: [floats(2, n, 3), ints(1)], known=(1,)) for op in REDUCTIONS]
    return [
        *cases,
        case("ReduceLogSum", lambda n: [positive(2, n, 3), ints(1)], known=(1,)),
        case("ArgMax", lambda n: [floats(2, n)], axis=1),
        case("ArgMin", lambda n: [floats(2, n)], axis=1),
        case("CumSum", lambda n: [floats(2, n), np.array(1)], known=(1,)),
        case("CumProd", lambda n: [floats(2, n), np.array(1)], 26, known=(1,)),
        case("TopK", lambda n: [floats(n, 5), ints(2)], known=(1,), outputs=2),
        case("Unique", lambda n: [whole(n)], outputs=4),
        case("NonZero", lambda n: [floats(n, 2)]),
        case("MeanVarianceNormalization", lambda n: [floats(n, 2, 3, 4)]),
    ]


def _movement() -> list[Case]:
    return [
        case("Concat", lambda n: [floats(n, 3), floats(2, 3)], axis=0),
        case("Split", lambda n: [floats(n, 6)], opset=18, outputs=2, axis=1, num_outputs=2),
        case("Reshape", lambda n: [floats(n, 2, 3), ints(0, -1)], known=(1,)),
        case("Flatten", lambda n: [floats(2, n, 3)], axis=2),
        case("Transpose", lambda n: [floats(2, n, 3)], perm=[2, 0, 1]),
        case("Squeeze", lambda n: [floats(n, 1, 3), ints(1)], known=(1,)),
        case("Unsqueeze", lambda n: [floats(n, 3), ints(1)], known=(1,)),
        case("Expand", lambda n: [floats(n, 1), ints(1, 4)], known=(1,)),
        case("Tile", lambda n: [floats(n, 3), ints(2, 1)], known=(1,)),
        case("Slice", lambda n: [floats(n, 4), ints(0, -3), ints(3, 9)], known=(1, 2)),
        case("Pad", lambda n: [floats(n, 3), ints(1, 0, 2, 1)], known=(1,), mode="constant"),
        case("CenterCropPad", lambda n: [floats(n, 5), ints(3, 3)], known=(1,)),
        case("Trilu", lambda n: [floats(n, 4)]),
        case("DepthToSpace", lambda n: [floats(n, 8, 2, 3)], blocksize=2),
        case("SpaceToDepth", lambda n: [floats(n, 2, 4, 2)], blocksize=2),
        case("ReverseSequence", lambda n: [floats(4, n), whole(n, below=4) + 1], batch_axis=1, time_axis=0),
        case("Gather", lambda n: [floats(n, 3), ints(0, -1)], axis=0),
        case("GatherElements", lambda n: [floats(n, 3), whole(n, 2, below=3)], axis=1),
        case("GatherND", lambda n: [floats(n, 3), whole(4, 1, below=1)]),
        case("Scatter", lambda n: [floats(n, 3), whole(n, 1, below=3), floats(n, 1)], opset=9, axis=1),
        case("ScatterElements", lambda n: [floats(n, 3), whole(n, 1, below=3), floats(n, 1)], axis=1),
        case("ScatterND", lambda n: [floats(n, 3), ints(0)[:, None], floats(1, 3)]),
        case("TensorScatter", lambda n: [floats(n, 4, 3), floats(n, 2, 3), whole(n, below=2)], opset=24, axis=1),
        case("Compress", lambda n: [floats(n, 3), np.array([True, False, True])], axis=1),
        case("OneHot", lambda n: [whole(n, below=4), np.array(4), np.array([0, 1], np.float32)], known=(1,)),
        case("EyeLike", lambda n: [floats(n, 4)]),
        case("ConstantOfShape", lambda n: [ints(n, 3)]),
        case("Range", lambda n: [np.array(0), np.array(2 * n), np.array(2)]),
        case("Einsum", lambda n: [floats(2, n, 3), floats(2, 3, 4)], equation="bij,bjk->bik"),
        case("Det", lambda n: [floats(n, 3, 3)]),
    ]


def _contractions() -> list[Case]:
    f = np.float32
    scale, zero = f(0.05), np.uint8(3)
    u8 = np.uint8
    return [
        case("MatMul", lambda n: [floats(2, n, 3), floats(3, 4)]),
        case("Gemm", lambda n: [floats(n, 3), floats(4, 3), floats(4)], transB=1),
        case("MatMulInteger", lambda n: [whole(n, 3, dtype=u8), whole(3, 4, dtype=u8)]),
        case("QLinearMatMul", lambda n: [whole(n, 3, dtype=u8), scale, zero, whole(3, 4, dtype=u8), scale, zero, f(0.1), zero]),
        case("QuantizeLinear", lambda n: [floats(n, 3), scale, zero]),
        case("DequantizeLinear", lambda n: [whole(n, 3, dtype=u8), scale, zero]),
        case("DynamicQuantizeLinear", lambda n: [floats(n, 3)], outputs=3),
        case("Conv", lambda n: [floats(2, 3, n + 2, 5), floats(4, 3, 3, 3)], pads=[1, 1, 1, 1]),
        case("ConvTranspose", lambda n: [floats(1, 3, n, 4), floats(3, 2, 3, 3)], strides=[2, 2]),
        case("ConvInteger", lambda n: [whole(1, 2, n + 1, 4, dtype=u8), whole(3, 2, 2, 2, dtype=u8)]),
        case(
            "QLinearConv",
            lambda n: [whole(n, 2, 4, 4, dtype=u8), scale, zero, whole(3, 2, 2, 2, dtype=u8), scale, zero, f(0.1), zero],
        ),
        case("DeformConv", lambda n: [floats(n, 1, 4, 4), floats(2, 1, 2, 2), floats(n, 8, 3, 3)], opset=22),
        case("Col2Im", lambda n: [floats(n, 4, 9), ints(4, 4), ints(2, 2)], known=(1, 2)),
        case("Attention", lambda n: [floats(2, 2, n, 4), floats(2, 2, n, 4), floats(2, 2, n, 4)], opset=23),
        case("RotaryEmbedding", lambda n: [floats(2, 2, n, 4), floats(9, 2), floats(9, 2), whole(2, n)], opset=23),
        case("SwiGLU", lambda n: [floats(n, 4), floats(n, 4)], opset=28),
        case("CausalConvWithState", lambda n: [floats(2, 3, n), floats(3, 1, 2)], opset=27, outputs=2),
        case(
            "LinearAttention",
            lambda n: [floats(2, n, 8), floats(2, n, 8), floats(2, n, 6)],
            opset=27,
            outputs=2,
            q_num_heads=2,
            kv_num_heads=2,
            update_rule="linear",
        ),
        case("DFT", lambda n: [floats(n, 6, 1), None, np.array(1)], opset=20, known=(2,)),
        case("STFT", lambda n: [floats(1, 4 * n + 4, 1), np.array(4), positive(8)], opset=17, known=(1,)),
        case(
            "MelWeightMatrix",
            lambda n: [np.array(n + 2), np.array(16), np.array(8192), np.float32(0), np.float32(4096)],
            opset=17,
        ),
        case(
            "TfIdfVectorizer",
            lambda n: [whole(n, 6, below=4, dtype=np.int32)],
            opset=9,
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 2],
            ngram_indexes=[0, 1, 2],
            pool_int64s=[1, 2, 1, 3],
        ),
        case("LSTM", lambda n: [floats(3, n, 2), floats(1, 8, 2), floats(1, 8, 2)], outputs=3, hidden_size=2),
        case("GRU", lambda n: [floats(n, 2, 2), floats(1, 6, 2), floats(1, 6, 2)], outputs=2, hidden_size=2),
        case("RNN", lambda n: [floats(n, 2, 2), floats(1, 2, 2), floats(1, 2, 2)], outputs=2, hidden_size=2),
    ]


def _windows() -> list[Case]:
    cases = [case(op, lambda n: [floats(n, 2, n + 2, 5)]) for op in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")]
    cases += [case(op, lambda n: [floats(1, 2, n + 3, 5)], kernel_shape=[2, 2]) for op in ("AveragePool", "LpPool", "MaxPool")]
    rois = np.array([[0, 0, 0, 3, 3]], np.float32)
    return [
        *cases,
        case(
            "MaxUnpool",
            lambda n: [
                floats(n, 1, 2, 2),
                np.tile(ints(0, 3, 9, 14).reshape(1, 1, 2, 2), (n, 1, 1, 1)) + np.arange(n).reshape(-1, 1, 1, 1) * 16,
            ],
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        case("MaxRoiPool", lambda n: [floats(1, n, 5, 5), rois], pooled_shape=[2, 2]),
        case("RoiAlign", lambda n: [floats(1, n, 5, 5), rois[:, 1:], ints(0)], output_height=2, output_width=2),
        case("LRN", lambda n: [floats(n, 3, 2, 2)], size=3),
        case("Resize", lambda n: [floats(1, 1, n, 3), None, np.array([1, 1, 2, 2], np.float32)], known=(2,), mode="linear"),
        case("Upsample", lambda n: [floats(1, 1, n, 3), np.array([1, 1, 2, 2], np.float32)], opset=9, known=(1,)),
        case("GridSample", lambda n: [floats(n, 1, 4, 4), units(n, 2, 3, 2)]),
        case("AffineGrid", lambda n: [floats(n, 2, 3), ints(n, 1, 3, 4)]),
        case("BatchNormalization", lambda n: [floats(n, 3, 2), floats(3), floats(3), floats(3), positive(3)]),
        case("InstanceNormalization", lambda n: [floats(n, 3, 4), floats(3), floats(3)]),
        case("LayerNormalization", lambda n: [floats(n, 4), floats(4), floats(4)]),
        case("RMSNormalization", lambda n: [floats(n, 4), floats(4)], opset=23),
        case("GroupNormalization", lambda n: [floats(n, 4, 3), floats(4), floats(4)], num_groups=2),
        case("NonMaxSuppression", lambda n: [positive(1, n, 4), positive(1, 1, n), np.array(2), np.float32(0.5)]),
        case("NegativeLogLikelihoodLoss", lambda n: [floats(n, 4), whole(n, below=4)]),
        case("SoftmaxCrossEntropyLoss", lambda n: [floats(n, 4), whole(n, below=4)]),
        case("BlackmanWindow", lambda n: [np.array(n + 3)]),
        case("HammingWindow", lambda n: [np.array(n + 3)]),
        case("HannWindow", lambda n: [np.array(n + 3)]),
    ]


CASES = [*_elementwise(), *_reductions(), *_movement(), *_contractions(), *_windows()]

ELSEWHERE = {
    **dict.fromkeys(("If", "Loop", "Scan"), "families/test_control_flow.py"),
    **dict.fromkeys(
        (
            "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength"
            " SequenceMap SplitToSequence"
        ).split(),
        "families/test_sequences.py",
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), "families/test_optionals.py"),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike"), "families/test_random.py"),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "ImageDecoder"), "hosting"),
}
"""Operators whose sizes vary in tests of their own, and where these are."""

STATIC = {
    "Constant": "its attribute says the shape",
    "RandomNormal": "its attribute says the shape",
    "RandomUniform": "its attribute says the shape",
}
"""Operators whose results have no size that could vary, and why."""
