"""Sequences and optionals: given to the model or built in it, of elements of one shape or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tools.fuzz_ops.case import Array
from tools.fuzz_ops.draw import Draw, numpy_dtype
from tools.fuzz_ops.graphs import element, graph, node, tensor_type


def element_kind(d: Draw, constraint: str = "S") -> str:
    """The type of the elements of a sequence that ``constraint`` allows."""
    held = d.version.type_constraints[constraint]
    kinds = [kind.removeprefix("seq(tensor(").removesuffix("))") for kind in held if kind.startswith("seq(tensor(")]
    kinds = [kind for kind in kinds if kind != "string" and not kind.startswith("complex")]
    if constraint not in d.types:
        d.types[constraint] = d.choose([kind for kind in ("float", "int64", "double", "bool") if kind in kinds] + kinds)
    return d.types[constraint]


def shapes(d: Draw, count: int, low: int = 0, high: int = 3) -> list[tuple[int, ...]]:
    """Shapes of one rank: all the same, or each another."""
    first = d.shape(low, high)
    alike = d.flag()
    return [first if alike else tuple(d.size(0, 5) for _ in first) for _ in range(count)]


def sequence_type(d: Draw, kind: str, items: Sequence[Sequence[int]], rank: int) -> onnx.TypeProto:
    """The type of a sequence: sizes that its elements share are numbers, or names if dims are symbolic."""
    dims: list[int | str | None] = []
    for axis in range(rank):
        sizes = {shape[axis] for shape in items}
        dims.append(f"s{axis}" if len(sizes) != 1 or d.symbolic != "no" else sizes.pop())
    if any(len(shape) != rank for shape in items):
        return helper.make_sequence_type_proto(tensor_type(kind, None))
    return helper.make_sequence_type_proto(tensor_type(kind, dims))


def give_sequence(d: Draw, name: str, kind: str, items: Sequence[tuple[int, ...]], rank: int) -> list[Array]:
    """Give the input ``name`` a sequence of arrays: as an input of the model, or put together by nodes before."""
    arrays = [d.array(kind, shape) for shape in items]
    way = d.choose(("given", "constructed", "inserted"))
    made = f"{name}_made"
    if way == "given":
        kinds = sequence_type(d, kind, items, rank)
        d.value(name, arrays, kinds, symbolic=d.symbolic != "no" or len(set(items)) > 1)
        return arrays
    parts = [f"{name}_part{index}" for index in range(len(arrays))]
    for part, array in zip(parts, arrays, strict=True):
        d.more(part, array)
    if way == "constructed" and parts:
        d.before.append(node(f"{made} = SequenceConstruct({', '.join(parts)})"))
    else:
        d.before.append(node(f"{name}_0 = SequenceEmpty()", dtype=element(kind)))
        for index, part in enumerate(parts):
            d.before.append(node(f"{name}_{index + 1} = SequenceInsert({name}_{index}, {part})"))
        made = f"{name}_{len(parts)}"
    d.link(name, made)
    return arrays


def position(d: Draw, name: str, count: int, *, optional: bool = False, beyond: int = 0) -> None:
    """A position in ``count`` elements (or behind the last, ``beyond`` 1), of either sign, constant or at run time."""
    if optional and d.flag():
        return
    where = d.integer(-count, count - 1 + beyond)
    d.give(name, np.asarray(where, numpy_dtype(d.dtype("I"))), known=d.flag(), static=True)


def _given(d: Draw, *, least: int = 0, low: int = 0, name: str = "input_sequence") -> list[Array]:
    count = d.integer(least, 4)
    kind = element_kind(d, d.formal(name).type)
    found = shapes(d, max(count, 1), low)
    return give_sequence(d, name, kind, found[:count], len(found[0]))


def at(d: Draw) -> None:
    """SequenceAt."""
    position(d, "position", len(_given(d, least=1)))


def erase(d: Draw) -> None:
    """SequenceErase: at a position, or the last."""
    position(d, "position", len(_given(d, least=1)), optional=True)


def insert(d: Draw) -> None:
    """SequenceInsert: at a position, or behind the last."""
    arrays = _given(d)
    rank = arrays[0].ndim if arrays else d.integer(0, 3)
    kind = element_kind(d)
    d.give("tensor", d.array(kind, [d.size(0, 5) for _ in range(rank)]))
    position(d, "position", len(arrays), optional=True, beyond=1)


def length(d: Draw) -> None:
    """SequenceLength."""
    _given(d)


def empty(d: Draw) -> None:
    """SequenceEmpty, its length, and what is inserted into it."""
    kinds = [kind.removeprefix("seq(tensor(").removesuffix("))") for kind in d.version.type_constraints["S"]]
    kind = d.choose([kind for kind in kinds if kind != "string" and not kind.startswith("complex")])
    if kind != "float" or d.flag():
        d.attributes["dtype"] = element(kind)
    if d.flag():
        d.after.append(node("filled = SequenceInsert(out0, item)"))
        d.more("item", d.array(kind, d.shape(0, 3)))
        d.results = ("filled",)
    else:
        d.after.append(node("n = SequenceLength(out0)"))
        d.results = ("n",)


def construct(d: Draw) -> None:
    """SequenceConstruct, as it is and with an element taken out again."""
    kind = d.dtype("T", [kind for kind in d.allowed("T") if not kind.startswith("complex")])
    found = shapes(d, d.integer(1, 4))
    for shape in found:
        d.give("inputs", d.array(kind, shape))
    if d.flag():
        d.after.append(node("item = SequenceAt(out0, where)"))
        d.more("where", np.array(d.integer(-len(found), len(found) - 1)), static=True)
        d.results = ("out0", "item")


def split(d: Draw) -> None:
    """SplitToSequence: singly, into equal parts with a rest, or into given sizes."""
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape))
    d.attribute("axis", axis)
    axis = d.attributes.get("axis", 0)
    d.attribute("keepdims", 0, 1)
    kind = numpy_dtype(d.dtype("I"))
    d.dtype("T", [kind for kind in d.allowed("T") if not kind.startswith("complex")])
    way = d.choose(("singly", "parts", "sizes"))
    if way == "sizes":
        sizes = [d.size(0, 4) for _ in range(d.integer(1, 4))]
        shape[axis] = sum(sizes)
    d.tensor("input", shape)
    if way == "sizes":
        d.give("split", np.array(sizes, kind), known=d.flag())
    elif way == "parts":
        d.give("split", np.array(d.integer(1, 4), kind), known=d.flag())


def concat(d: Draw) -> None:
    """ConcatFromSequence: along an axis, or along a new one."""
    kind = element_kind(d)
    new = d.attribute("new_axis", 1, 0) or 0
    shape = d.shape(0 if new else 1, 3)
    axis = d.axis(len(shape) + new)
    d.attributes["axis"] = axis
    count = d.integer(1, 4)
    items = [
        tuple(size if new or index != axis % len(shape) else d.size(0, 4) for index, size in enumerate(shape))
        for _ in range(count)
    ]
    give_sequence(d, "input_sequence", kind, items, len(shape))


def sequence_map(d: Draw) -> None:
    """SequenceMap: over a sequence, beside others and tensors that stay, with values captured from outside."""
    kind = "float"
    items = shapes(d, d.integer(0, 4) or 1, 1)
    count = d.choose((len(items), len(items), 0))
    give_sequence(d, "input_sequence", kind, items[:count], len(items[0]))
    formals = ["x"]
    more = d.choose(("", "sequence", "tensor", "captured"))
    if more == "sequence":
        give_sequence(d, "additional_inputs", kind, items[:count], len(items[0]))
    elif more == "tensor":
        d.give("additional_inputs", d.array(kind, (1,)), static=True)
    elif more == "captured":
        d.more("b", d.array(kind, (1,)), static=True)
    if more in ("sequence", "tensor"):
        formals.append("b")
    first = d.choose(("y = Neg(x)", "y = Shape(x)", "y = Concat(x, x)", "y = ReduceMax(x)"))
    if more and d.flag():
        first = "y = Add(x, b)"
    attributes = {"Concat": {"axis": 0}, "ReduceMax": {"keepdims": 0}}.get(first.split()[2].partition("(")[0], {})
    nodes, names = [node(first, **attributes)], ["y"]
    if d.flag():
        nodes.append(node("z = Identity(b)" if more else "z = Exp(x)"))
        names.append("z")
    outputs = [(name, tensor_type("int64" if "Shape" in first and name == "y" else kind, None)) for name in names]
    d.attributes["body"] = graph(nodes, [(name, tensor_type(kind, None)) for name in formals], outputs)
    d.outputs = (True,) * len(names)


def _content(d: Draw, kinds: Sequence[str]) -> tuple[Any, onnx.TypeProto, str]:
    """A tensor or the list of a sequence, with its type and the type of its elements."""
    kind = d.choose(kinds)
    if d.flag():
        found = shapes(d, d.integer(0, 3) or 1)
        count = d.choose((len(found), 0))
        kept = found[:count]
        return [d.array(kind, shape) for shape in kept], sequence_type(d, kind, kept, len(found[0])), kind
    shape = d.shape(0, 3)
    dims: list[int | str | None] = [f"o{axis}" if d.symbolic != "no" else size for axis, size in enumerate(shape)]
    return d.array(kind, shape), tensor_type(kind, dims), kind


def _kinds(d: Draw, constraint: str) -> list[str]:
    found = [kind.split("tensor(")[-1].rstrip(")") for kind in d.version.type_constraints[constraint]]
    kinds = [kind for kind in dict.fromkeys(found) if kind != "string" and not kind.startswith(("complex", "float6"))]
    return [kind for kind in ("float", "int64", "bool") if kind in kinds] + kinds


def _put(d: Draw, name: str, value: Any, type_: onnx.TypeProto) -> None:
    d.value(name, value, type_, symbolic=d.symbolic != "no")


def optional(d: Draw) -> None:
    """Optional: with a tensor, a sequence, or nothing, and what is asked of it."""
    value, inside, _ = _content(d, _kinds(d, "V"))
    present = d.flag()
    if present:
        _put(d, "input", value, inside)
    else:
        d.attributes["type"] = inside
    if d.flag():
        d.after.append(node("has = OptionalHasElement(out0)"))
        d.results = ("has",)
        if present and d.flag():
            d.after.append(node("inner = OptionalGetElement(out0)"))
            d.results = ("has", "inner")


def get_element(d: Draw) -> None:
    """OptionalGetElement: of an optional, since 18 also of a tensor or a sequence itself."""
    value, inside, _ = _content(d, _kinds(d, "O"))
    bare = d.version.since_version >= 18 and d.flag()
    _put(d, "input", value, inside if bare else helper.make_optional_type_proto(inside))


def has_element(d: Draw) -> None:
    """OptionalHasElement: of an optional with or without a value, since 18 also of what is none, or of nothing."""
    value, inside, _ = _content(d, _kinds(d, "O"))
    way = d.choose(("optional", "absent", *(("bare", "nothing") if d.version.since_version >= 18 else ())))
    if way != "nothing":
        wrapped = inside if way == "bare" else helper.make_optional_type_proto(inside)
        _put(d, "input", None if way == "absent" else value, wrapped)


STRATEGIES = {
    "SequenceAt": at,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SequenceEmpty": empty,
    "SequenceConstruct": construct,
    "SplitToSequence": split,
    "ConcatFromSequence": concat,
    "SequenceMap": sequence_map,
    "Optional": optional,
    "OptionalGetElement": get_element,
    "OptionalHasElement": has_element,
}
