"""The same node stated at another version, for references that do not know the version drawn.

Two versions whose pages are the same but for their types mean the same (`_kindred`). Where a page has changed, a rule
of `RULES` states an old node by a newer one, or one of today by an older one; each cites the page's sentence that it
follows. The arrays of a case are at hand, so a rule may reshape them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from onnx2torch_mlir.specs import DEFAULT_DOMAIN
from tools.fuzz_ops.case import Array, Case, Given, Surroundings

Finish = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Stated:
    """A case that means the same after ``finish`` has been applied to its results; ``how`` is "" for the case itself."""

    case: Case
    how: str = ""
    finish: Finish = list


def restated(case: Case) -> Iterator[Stated]:
    """The other ways to state ``case``; the node alone can be stated, without anything around it."""
    if case.around != Surroundings() or any(item is not None and item.type is not None for item in case.inputs):
        return
    ways = [Stated(case)]
    for op, until, since, rule in RULES:
        if case.domain == DEFAULT_DOMAIN and since <= case.opset <= until and re.fullmatch(op, case.op):
            changed = rule(case)
            if changed is not None:
                ways += [changed]
    for way in ways[1:]:
        yield way
    for way in ways:
        for version in _kindred(way.case.domain, way.case.op, way.case.opset):
            # An attribute that was only a hint of how to store results.
            attributes = {name: value for name, value in way.case.attributes.items() if name != "consumed_inputs"}
            yield replace(way, case=replace(way.case, opset=version, attributes=attributes), how=_at(way.case.op, version))


def _at(op: str, version: int) -> str:
    return f"as {op}-{version}"


@functools.cache
def _kindred(domain: str, op: str, opset: int) -> tuple[int, ...]:
    """The other versions that mean what the one at ``opset`` means, the nearest later ones first, then earlier ones."""
    name = "" if domain == DEFAULT_DOMAIN else domain
    schemas = sorted(_schemas().get((name, op), ()), key=lambda schema: schema.since_version)
    here = max((index for index, schema in enumerate(schemas) if schema.since_version <= opset), default=None)
    if here is None:
        return ()
    first = last = here
    while last + 1 < len(schemas) and _page(schemas[last]) == _page(schemas[last + 1]):
        last += 1
    while first and _page(schemas[first - 1]) == _page(schemas[first]):
        first -= 1
    order = [*range(here + 1, last + 1), *range(here - 1, first - 1, -1)]
    return tuple(schemas[index].since_version for index in order)


@functools.cache
def _schemas() -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def _page(schema: Any) -> tuple[Any, ...]:
    """What a version's page says but for types: its text, its inputs and outputs, its attributes with their defaults."""
    words = re.sub(r"\W+", " ", schema.doc or "").strip().lower()
    attributes = sorted(
        (name, str(item.default_value), item.required) for name, item in schema.attributes.items() if name != "consumed_inputs"
    )
    formals = [[(item.name, str(item.option), item.type_str) for item in side] for side in (schema.inputs, schema.outputs)]
    return words, attributes, formals


# The rules


def _with(case: Case, version: int, *, drop: Sequence[str] = (), **attributes: Any) -> Stated:
    """``case`` at ``version`` with some attributes dropped, others given."""
    kept = {name: value for name, value in case.attributes.items() if name not in ("consumed_inputs", *drop)}
    return Stated(replace(case, opset=version, attributes={**kept, **attributes}), _at(case.op, version))


def _array(case: Case, index: int) -> Array | None:
    item = case.inputs[index] if index < len(case.inputs) else None
    return None if item is None else np.asarray(item.array)


def _giving(stated: Stated, arrays: Sequence[Array | None]) -> Stated:
    """``stated`` with these inputs in place of its own."""
    given = tuple(None if array is None else Given(array, array.shape) for array in arrays)
    return replace(stated, case=replace(stated.case, inputs=given))


def _arrays(case: Case) -> list[Array | None]:
    return [_array(case, index) for index in range(len(case.inputs))]


def _aligned(case: Case) -> Stated | None:
    """Add-6: "The starting of the mutually equal shape is specified by the argument "axis", and if it is not set, suffix
    matching is assumed." """
    first, second = _array(case, 0), _array(case, 1)
    if first is None or second is None:
        return None
    axis = case.attributes.get("axis")
    if axis is not None:
        second = second.reshape(second.shape + (1,) * (first.ndim - axis % max(first.ndim, 1) - second.ndim))
    elif second.size == 1 and second.ndim > first.ndim:
        second = second.reshape(())
    return _giving(_with(case, 7, drop=("axis", "broadcast")), [first, second])


def _gemm(case: Case) -> Stated:
    """Gemm-6: "If attribute broadcast is non-zero, input tensor C will be broadcasted to match the dimension
    requirement"; since 7 it always is."""
    return _with(case, 7, drop=("broadcast",))


def _slope(case: Case) -> Stated | None:
    """PRelu-6: "If `Slope` is of size 1, the value is shared across different channels"; else it has one for each."""
    data, slope = _array(case, 0), _array(case, 1)
    if data is None or slope is None:
        return None
    shape = (1,) * data.ndim if slope.size == 1 or data.ndim < 2 else (-1, *(1,) * (data.ndim - 2))
    return _giving(_with(case, 7), [data, slope.reshape(shape)])


def _average(case: Case) -> Stated:
    """AveragePool-1: "The output of each pooling window is divided by the number of elements exclude pad.\""""
    return _with(case, 7, count_include_pad=0)


def _selu(case: Case) -> Stated:
    """Selu-1: "Coefficient of SELU default to 1.6732", "default to 1.0507"; since 6 they have more digits."""
    return _with(case, 6, **{"alpha": 1.6732, "gamma": 1.0507, **case.attributes})


def _normalization(case: Case) -> Stated | None:
    """BatchNormalization-6: "If set to nonzero, run spatial batch normalization in test mode"; one output is test mode
    since 7."""
    if not case.attributes.get("is_test") or case.outputs != (True,):
        return None
    return _with(case, 7, drop=("is_test",))


def _norm_order(case: Case) -> Stated:
    """LpPool-1: p is a float; an integer since 2."""
    return _with(case, 2, p=int(case.attributes.get("p", 2)))


def _concat(case: Case) -> Stated:
    """Concat-1: "Which axis to concat on. Default value is 1.\""""
    return _with(case, 4, **{"axis": 1, **case.attributes})


def _pad(case: Case) -> Stated:
    """Pad-1 has "paddings" for "pads"."""
    return _with(case, 2, drop=("paddings",), pads=case.attributes["paddings"])


def _split(case: Case) -> Stated | None:
    """Split-1 has the attribute "split" of version 2 too, and an input for it."""
    lengths = _array(case, 1)
    if lengths is not None:
        return _giving(_with(case, 2, split=lengths.astype(np.int64).tolist()), [_array(case, 0)])
    return _with(case, 2)


def _tile(case: Case) -> Stated | None:
    """Tile-1: "Repeat the elements of a tensor along an axis.\""""
    data, tiles, axis = (_array(case, index) for index in range(3))
    if data is None or tiles is None or axis is None:
        return None
    repeats = np.ones(data.ndim, np.int64)
    repeats[int(axis)] = int(tiles)
    return _giving(_with(case, 6), [data, repeats])


def _upsample(case: Case) -> Stated:
    """Upsample-1: "The scale along height dimension", "along width dimension"."""
    scales = [1.0, 1.0, case.attributes["height_scale"], case.attributes["width_scale"]]
    return _with(case, 7, drop=("height_scale", "width_scale"), scales=scales)


def _cast(case: Case) -> Stated:
    """Cast-1: the type is named by a string; by DataType's number since 6."""
    return _with(case, 6, to=onnx.TensorProto.DataType.Value(str(case.attributes["to"]).upper()))


def _clip(case: Case) -> Stated | None:
    """Clip-6: "Minimum value, under which element is replaced by min"; the bounds are inputs since 11."""
    data = _array(case, 0)
    if data is None:
        return None
    bounds = [np.asarray(case.attributes[name], data.dtype) if name in case.attributes else None for name in ("min", "max")]
    return _giving(_with(case, 12, drop=("min", "max")), [data, *bounds])


def _recurrent(case: Case) -> Stated:
    """LSTM-1: "The sequence output for the hidden is optional if 0"; it always is since 7."""
    return _with(case, 7, drop=("output_sequence",))


def _time_first(case: Case) -> Stated | None:
    """RNN-14: "If 1 … X.shape = [batch_size, seq_length, input_size], Y.shape = [batch_size, seq_length,
    num_directions, hidden_size], initial_h.shape = Y_h.shape = [batch_size, num_directions, hidden_size]"."""
    if not case.attributes.get("layout"):
        return None
    arrays = _arrays(case)
    for index in (0, 5, 6):
        if index < len(arrays) and (array := arrays[index]) is not None:
            arrays[index] = array.swapaxes(0, 1)
    orders = [order for order, wanted in zip(((2, 0, 1, 3), (1, 0, 2), (1, 0, 2)), case.outputs, strict=False) if wanted]
    # Without layout this is version 7's, but for types.
    stated = _giving(_with(case, case.opset, layout=0), arrays)
    return replace(
        stated,
        how=f"{stated.how} of layout 0",
        finish=lambda results: [item.transpose(order) for item, order in zip(results, orders, strict=True)],
    )


def _shift(case: Case) -> Stated | None:
    """BitShift-11 does not say what a shift of all bits and more gives; else it is BitShift-28 for unsigned types."""
    data, amount = _array(case, 0), _array(case, 1)
    if data is None or amount is None or (amount.size and int(amount.max()) >= 8 * data.dtype.itemsize):
        return None
    return _with(case, 11)


def _mod(case: Case) -> Stated | None:
    """Mod-13: "fmod … 0, T is constrained to integer data types", "1 … floating point"; so far it is Mod-28."""
    data = _array(case, 0)
    floats = data is not None and data.dtype.kind not in "iu"
    return _with(case, 13) if floats == bool(case.attributes.get("fmod", 0)) else None


def _space_to_depth(case: Case) -> Stated | None:
    """SpaceToDepth-28: "`DCR`, the default" is the order of SpaceToDepth-13."""
    return _with(case, 13, drop=("mode",)) if case.attributes.get("mode", "DCR") == "DCR" else None


def _image(case: Case) -> Stated | None:
    """Resize-11: "resized along each spatial dimension"; an axis of one element more changes nothing, and onnxruntime
    interpolates along the last two axes, not along the only one."""
    data, roi, scales, sizes = [*_arrays(case), None, None, None][:4]
    if data is None or data.ndim != 1 or (roi is not None and roi.size):
        return None
    scales = None if scales is None or not scales.size else np.concatenate([np.ones(1, np.float32), scales])
    sizes = None if sizes is None else np.concatenate([np.ones(1, np.int64), sizes])
    stated = _giving(_with(case, case.opset, drop=("axes",)), [data[None], np.zeros(0, np.float32), scales, sizes])
    given = tuple(item and replace(item, known=index > 0) for index, item in enumerate(stated.case.inputs))
    inner = replace(stated.case, inputs=given)
    return replace(stated, case=inner, how=f"{stated.how} of rank 2", finish=lambda results: [item[0] for item in results])


def _from_the_front(case: Case) -> Stated | None:
    """ReduceSum-13: "Accepted range is [-r, r-1]"; onnxruntime does not count from the back in tensors without elements."""
    data, axes = _array(case, 0), case.attributes.get("axes", _array(case, 1))
    if data is None or data.size or axes is None or not any(axis < 0 for axis in axes):
        return None
    front = [int(axis) % data.ndim for axis in axes]
    if "axes" in case.attributes:
        return _with(case, case.opset, axes=front)
    return _giving(_with(case, case.opset), [data, np.array(front, np.int64)])


def _single(case: Case) -> Stated | None:
    """MeanVarianceNormalization-13: "(X-EX)/sqrt(E(X-EX)^2)" of single numbers is 0; onnxruntime rounds the difference of
    their equal squares below 0, and its root is NaN."""
    data = _array(case, 0)
    if data is None or any(data.shape[axis] != 1 for axis in case.attributes.get("axes", (0, 2, 3))):
        return None
    stated = _giving(Stated(replace(case, op="Sub", opset=14, attributes={}), "as Sub-14"), [data, data])
    return stated if np.isfinite(data.astype(np.float64)).all() else None


def _signed_bytes(case: Case) -> Stated | None:
    """Resize-18 says nothing of limits but the type's; onnxruntime puts int8 of an antialiased image into 0 to 255."""
    data = case.inputs[0]
    if data is None or data.array.dtype != np.int8 or not case.attributes.get("antialias"):
        return None
    wide = replace(case, inputs=(replace(data, array=data.array.astype(np.int32)), *case.inputs[1:]))
    return Stated(wide, f"{_at(case.op, case.opset)} of int32")


def _exponentials(case: Case) -> Stated | None:
    """ReduceLogSumExp: "log sum exponent of the input tensor's elements"; onnxruntime cuts the exponentials of integers off
    before it sums them up."""
    data = case.inputs[0]
    if data is None or data.array.dtype.kind not in "iu" or not data.array.size:
        return None
    wide = replace(case, inputs=(replace(data, array=data.array.astype(np.float64)), *case.inputs[1:]))
    return Stated(wide, f"{_at(case.op, case.opset)} of float64")


def _global(case: Case) -> Stated | None:
    """GlobalMaxPool-1, GlobalAveragePool-1: "equivalent to MaxPool", "AveragePool", "with kernel size equal to the spatial
    dimension of input tensor"; onnxruntime's reductions also take tensors without elements."""
    data = _array(case, 0)
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


def detour(case: Case) -> Stated | None:
    """How to state ``case`` for onnxruntime, which is wrong about it as it stands; None where it is not."""
    found = (rule(case) for op, rule in DETOURS if case.domain == DEFAULT_DOMAIN and re.fullmatch(op, case.op))
    return next(filter(None, found), None)
