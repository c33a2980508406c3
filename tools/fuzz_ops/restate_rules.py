"""The rules by which an old node is stated by a newer one, or one of today by an older one.

Each cites the sentence of the operator's page that it follows. The arrays of a case are at hand, so a rule may reshape them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tools.fuzz_ops.case import Array, Case
from tools.fuzz_ops.stated import Stated, array_of, arrays_of, at, changed, giving


def _aligned(case: Case) -> Stated | None:
    """Add-6: "The starting of the mutually equal shape is specified by the argument "axis", and if it is not set, suffix
    matching is assumed." """
    first, second = array_of(case, 0), array_of(case, 1)
    if first is None or second is None:
        return None
    axis = case.attributes.get("axis")
    if axis is not None:
        second = second.reshape(second.shape + (1,) * (first.ndim - axis % max(first.ndim, 1) - second.ndim))
    elif second.size == 1 and second.ndim > first.ndim:
        second = second.reshape(())
    return giving(changed(case, 7, drop=("axis", "broadcast")), [first, second])


def _gemm(case: Case) -> Stated:
    """Gemm-6: "If attribute broadcast is non-zero, input tensor C will be broadcasted to match the dimension
    requirement"; since 7 it always is."""
    return changed(case, 7, drop=("broadcast",))


def _slope(case: Case) -> Stated | None:
    """PRelu-6: "If `Slope` is of size 1, the value is shared across different channels"; else it has one for each."""
    data, slope = array_of(case, 0), array_of(case, 1)
    if data is None or slope is None:
        return None
    shape = (1,) * data.ndim if slope.size == 1 or data.ndim < 2 else (-1, *(1,) * (data.ndim - 2))
    return giving(changed(case, 7), [data, slope.reshape(shape)])


def _average(case: Case) -> Stated:
    """AveragePool-1: "The output of each pooling window is divided by the number of elements exclude pad.\""""
    return changed(case, 7, count_include_pad=0)


def _selu(case: Case) -> Stated:
    """Selu-1: "Coefficient of SELU default to 1.6732", "default to 1.0507"; since 6 they have more digits."""
    return changed(case, 6, **{"alpha": 1.6732, "gamma": 1.0507, **case.attributes})


def _normalization(case: Case) -> Stated | None:
    """BatchNormalization-6: "If set to nonzero, run spatial batch normalization in test mode"; one output is test mode
    since 7."""
    if not case.attributes.get("is_test") or case.outputs != (True,):
        return None
    return changed(case, 7, drop=("is_test",))


def _norm_order(case: Case) -> Stated:
    """LpPool-1: p is a float; an integer since 2."""
    return changed(case, 2, p=int(case.attributes.get("p", 2)))


def _concat(case: Case) -> Stated:
    """Concat-1: "Which axis to concat on. Default value is 1.\""""
    return changed(case, 4, **{"axis": 1, **case.attributes})


def _pad(case: Case) -> Stated:
    """Pad-1 has "paddings" for "pads"."""
    return changed(case, 2, drop=("paddings",), pads=case.attributes["paddings"])


def _split(case: Case) -> Stated | None:
    """Split-1 has the attribute "split" of version 2 too, and an input for it."""
    lengths = array_of(case, 1)
    if lengths is not None:
        return giving(changed(case, 2, split=lengths.astype(np.int64).tolist()), [array_of(case, 0)])
    return changed(case, 2)


def _tile(case: Case) -> Stated | None:
    """Tile-1: "Repeat the elements of a tensor along an axis.\""""
    data, tiles, axis = (array_of(case, index) for index in range(3))
    if data is None or tiles is None or axis is None:
        return None
    repeats = np.ones(data.ndim, np.int64)
    repeats[int(axis)] = int(tiles)
    return giving(changed(case, 6), [data, repeats])


def _upsample(case: Case) -> Stated:
    """Upsample-1: "The scale along height dimension", "along width dimension"."""
    scales = [1.0, 1.0, case.attributes["height_scale"], case.attributes["width_scale"]]
    return changed(case, 7, drop=("height_scale", "width_scale"), scales=scales)


def _cast(case: Case) -> Stated:
    """Cast-1: the type is named by a string; by DataType's number since 6."""
    return changed(case, 6, to=onnx.TensorProto.DataType.Value(str(case.attributes["to"]).upper()))


def _clip(case: Case) -> Stated | None:
    """Clip-6: "Minimum value, under which element is replaced by min"; the bounds are inputs since 11."""
    data = array_of(case, 0)
    if data is None:
        return None
    bounds = [np.asarray(case.attributes[name], data.dtype) if name in case.attributes else None for name in ("min", "max")]
    return giving(changed(case, 12, drop=("min", "max")), [data, *bounds])


def _recurrent(case: Case) -> Stated:
    """LSTM-1: "The sequence output for the hidden is optional if 0"; it always is since 7."""
    return changed(case, 7, drop=("output_sequence",))


def _time_first(case: Case) -> Stated | None:
    """RNN-14: "If 1 … X.shape = [batch_size, seq_length, input_size], Y.shape = [batch_size, seq_length,
    num_directions, hidden_size], initial_h.shape = Y_h.shape = [batch_size, num_directions, hidden_size]"."""
    if not case.attributes.get("layout"):
        return None
    arrays = arrays_of(case)
    for index in (0, 5, 6):
        if index < len(arrays) and (array := arrays[index]) is not None:
            arrays[index] = array.swapaxes(0, 1)
    orders = [order for order, wanted in zip(((2, 0, 1, 3), (1, 0, 2), (1, 0, 2)), case.outputs, strict=False) if wanted]
    # Without layout this is version 7's, but for types.
    stated = giving(changed(case, case.opset, layout=0), arrays)
    return replace(
        stated,
        how=f"{stated.how} of layout 0",
        finish=lambda results: [item.transpose(order) for item, order in zip(results, orders, strict=True)],
    )


def _shift(case: Case) -> Stated | None:
    """BitShift-11 does not say what a shift of all bits and more gives; else it is BitShift-28 for unsigned types."""
    data, amount = array_of(case, 0), array_of(case, 1)
    if data is None or amount is None or (amount.size and int(amount.max()) >= 8 * data.dtype.itemsize):
        return None
    return changed(case, 11)


def _mod(case: Case) -> Stated | None:
    """Mod-13: "fmod … 0, T is constrained to integer data types", "1 … floating point"; so far it is Mod-28."""
    data = array_of(case, 0)
    floats = data is not None and data.dtype.kind not in "iu"
    return changed(case, 13) if floats == bool(case.attributes.get("fmod", 0)) else None


def _space_to_depth(case: Case) -> Stated | None:
    """SpaceToDepth-28: "`DCR`, the default" is the order of SpaceToDepth-13."""
    return changed(case, 13, drop=("mode",)) if case.attributes.get("mode", "DCR") == "DCR" else None


def _image(case: Case) -> Stated | None:
    """Resize-11: "resized along each spatial dimension"; an axis of one element more changes nothing, and onnxruntime
    interpolates along the last two axes, not along the only one."""
    data, roi, scales, sizes = [*arrays_of(case), None, None, None][:4]
    if data is None or data.ndim != 1 or (roi is not None and roi.size):
        return None
    scales = None if scales is None or not scales.size else np.concatenate([np.ones(1, np.float32), scales])
    sizes = None if sizes is None else np.concatenate([np.ones(1, np.int64), sizes])
    stated = giving(changed(case, case.opset, drop=("axes",)), [data[None], np.zeros(0, np.float32), scales, sizes])
    given = tuple(item and replace(item, known=index > 0) for index, item in enumerate(stated.case.inputs))
    inner = replace(stated.case, inputs=given)
    return replace(stated, case=inner, how=f"{stated.how} of rank 2", finish=lambda results: [item[0] for item in results])


def _from_the_front(case: Case) -> Stated | None:
    """ReduceSum-13: "Accepted range is [-r, r-1]"; onnxruntime does not count from the back in tensors without elements."""
    data, axes = array_of(case, 0), case.attributes.get("axes", array_of(case, 1))
    if data is None or data.size or axes is None or not any(axis < 0 for axis in axes):
        return None
    front = [int(axis) % data.ndim for axis in axes]
    if "axes" in case.attributes:
        return changed(case, case.opset, axes=front)
    return giving(changed(case, case.opset), [data, np.array(front, np.int64)])


def _single(case: Case) -> Stated | None:
    """MeanVarianceNormalization-13: "(X-EX)/sqrt(E(X-EX)^2)" of single numbers is 0; onnxruntime rounds the difference of
    their equal squares below 0, and its root is NaN."""
    data = array_of(case, 0)
    if data is None or any(data.shape[axis] != 1 for axis in case.attributes.get("axes", (0, 2, 3))):
        return None
    stated = giving(Stated(replace(case, op="Sub", opset=14, attributes={}), "as Sub-14"), [data, data])
    return stated if np.isfinite(data.astype(np.float64)).all() else None


def _signed_bytes(case: Case) -> Stated | None:
    """Resize-18 says nothing of limits but the type's; onnxruntime puts int8 of an antialiased image into 0 to 255."""
    data = case.inputs[0]
    if data is None or data.array.dtype != np.int8 or not case.attributes.get("antialias"):
        return None
    wide = replace(case, inputs=(replace(data, array=data.array.astype(np.int32)), *case.inputs[1:]))
    return Stated(wide, f"{at(case.op, case.opset)} of int32")


def _exponentials(case: Case) -> Stated | None:
    """ReduceLogSumExp: "log sum exponent of the input tensor's elements"; onnxruntime cuts the exponentials of integers off
    before it sums them up."""
    data = case.inputs[0]
    if data is None or data.array.dtype.kind not in "iu" or not data.array.size:
        return None
    wide = replace(case, inputs=(replace(data, array=data.array.astype(np.float64)), *case.inputs[1:]))
    return Stated(wide, f"{at(case.op, case.opset)} of float64")


def _rescaled(case: Case) -> Stated | None:
    """QLinearConv-10: "When bias is present it must be quantized using scale = input scale * weight scale and zero point as
    0", so the sums that Conv gives without zero points, with the bias, times ``x_scale * w_scale / y_scale`` are the result;
    onnxruntime has no kernel for some pairs of types. Whole numbers are exact in float32 up to 2**24."""
    arrays = arrays_of(case)
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, zero = arrays[:8]
    if x is None or x_scale is None or w is None or w_scale is None or y_scale is None or zero is None:
        return None
    bias = arrays[8] if len(arrays) > 8 else None
    scale, limits = x_scale.astype(np.float64) * w_scale / y_scale, np.iinfo(zero.dtype)
    if w.size // max(w.shape[0], 1) * 255**2 >= 2**24:
        return None

    def whole(array: Array, zeros: Array | None, axes: int) -> Array:
        offset = np.zeros((), np.float32) if zeros is None else zeros.astype(np.float32)
        return array.astype(np.float32) - (offset.reshape(-1, *[1] * axes) if offset.size > 1 else offset.reshape(()))

    def finish(results: list[Any]) -> list[Any]:
        channels = (-1, *[1] * (results[0].ndim - 2))
        sums = results[0].astype(np.float64) + (0 if bias is None else bias.reshape(channels))
        found = np.rint(sums * (scale.reshape(channels) if scale.size > 1 else scale.reshape(()))) + int(zero.reshape(()))
        return [np.clip(found, limits.min, limits.max).astype(zero.dtype)]

    stated = Stated(replace(case, op="Conv", opset=11), at("Conv", 11), finish)
    return giving(stated, [whole(x, x_zero, 0), whole(w, w_zero, w.ndim - 1)])


def _global(case: Case) -> Stated | None:
    """GlobalMaxPool-1, GlobalAveragePool-1: "equivalent to MaxPool", "AveragePool", "with kernel size equal to the spatial
    dimension of input tensor"; onnxruntime's reductions also take tensors without elements."""
    data = array_of(case, 0)
    if data is None:
        return None
    op = {"GlobalMaxPool": "ReduceMax", "GlobalAveragePool": "ReduceMean"}[case.op]
    axes = list(range(2, data.ndim))
    return Stated(replace(case, op=op, opset=13, attributes={"axes": axes, "keepdims": 1}), f"as {op}-13")


_NEWEST = 10**6

RULES: tuple[tuple[str, int, int, Callable[[Case], Stated | None]], ...] = (
    ("Add|Sub|Mul|Div|Pow|And|Or|Xor|Equal|Greater|Less", 6, 1, _aligned),
    ("Gemm", 6, 1, _gemm),
    ("PRelu", 6, 1, _slope),
    ("AveragePool", 6, 1, _average),
    ("Selu", 5, 1, _selu),
    ("BatchNormalization", 6, 1, _normalization),
    ("LpPool|GlobalLpPool", 1, 1, _norm_order),
    ("Concat", 3, 1, _concat),
    ("Pad", 1, 1, _pad),
    ("Split", 1, 1, _split),
    ("Tile", 5, 1, _tile),
    ("Upsample", 6, 1, _upsample),
    ("Cast", 5, 1, _cast),
    ("Clip", 10, 1, _clip),
    ("RNN|GRU|LSTM", 6, 1, _recurrent),
    ("RNN|GRU|LSTM", _NEWEST, 14, _time_first),
    ("GlobalMaxPool|GlobalAveragePool", _NEWEST, 1, _global),
    ("Resize", _NEWEST, 11, _image),
    ("QLinearConv", _NEWEST, 10, _rescaled),
    ("BitShift", _NEWEST, 28, _shift),
    ("Mod", _NEWEST, 28, _mod),
    ("SpaceToDepth", _NEWEST, 28, _space_to_depth),
)
"""What operator, until and since which opset, and how it is stated."""

DETOURS: tuple[tuple[str, Callable[[Case], Stated | None]], ...] = (
    ("Reduce.*", _from_the_front),
    ("ReduceLogSumExp", _exponentials),
    ("MeanVarianceNormalization", _single),
    ("Resize", _signed_bytes),
)
"""Nodes of which onnxruntime gives something wrong as they stand: what operator, and how it is stated instead."""
