"""If, Loop and Scan: bodies of a few nodes over what they are given and what they capture from outside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tools.fuzz_ops.draw import Draw, numpy_dtype
from tools.fuzz_ops.graphs import constant, element, graph, node, tensor_type

_KINDS = ("float", "int64", "double", "int32")
"""Types that every operator in a body takes, in all opsets."""


def _stand(d: Draw) -> str:
    """Take an opset that onnxruntime knows where the version is older; gives the type of the elements."""
    since = d.version.since_version
    if since < 11:
        d.opset = 10 if since > 8 or d.version.op != "Scan" else 8
    kind = d.choose(_KINDS)
    d.types["V"] = kind
    return kind


def _truth(d: Draw, name: str, *, likely: bool = False, ranks: int = 2) -> str:
    """The name of a condition: constant, at run time, or computed from the size of ``x``."""
    way = d.choose(("run time", "constant", "computed"))
    if way == "computed":
        d.before += [node(f"{name}_size = Size(x)"), constant(f"{name}_most", np.int64(d.integer(0, 9)))]
        d.before.append(node(f"{name} = Less({name}_size, {name}_most)"))
        return name
    value = np.array(True if likely and d.flag() else d.flag())
    d.more(name, value.reshape(d.choose(((), (), (1,))[: ranks + 1])), known=way == "constant", static=True)
    return name


def _branch(d: Draw, kind: str, count: int, depth: int, place: str) -> onnx.GraphProto:
    """A branch that gives ``count`` values made of the captured ``x`` and ``z``, once in a while by an If of its own."""
    nodes: list[onnx.NodeProto] = []
    names = []
    nested = depth == 0 and d.one_in(4)
    if nested:
        inner = {f"{side}_branch": _branch(d, kind, count, 1, f"{place}{side[0]}") for side in ("then", "else")}
        names = [f"{place}_{index}" for index in range(count)]
        nodes.append(node(f"{', '.join(names)} = If({_truth(d, f'p_{place}')})", **inner))
        return graph(nodes, [], [(name, tensor_type(kind, None)) for name in names])
    for index in range(count):
        name = f"{place}_{index}"
        text = d.choose(("Neg(x)", "Add(x, x)", "Concat(x, x)", "Identity(z)", "Mul(z, z)", "Concat(z, x)", "Constant()"))
        if text == "Constant()":
            nodes.append(constant(name, d.array(kind, (d.size(0, 3), 2))))
        else:
            nodes.append(node(f"{name} = {text}", **({"axis": 0} if "Concat" in text else {})))
        names.append(name)
    return graph(nodes, [], [(name, tensor_type(kind, None)) for name in names])


def if_(d: Draw) -> None:
    """If: branches whose values have other sizes, nested once; also of sequences since 13."""
    kind = _stand(d)
    count = d.integer(1, 3)
    for name in ("x", "z"):
        d.more(name, d.array(kind, (d.size(0, 5), 2)))
    d.link("cond", _truth(d, "p"))
    if d.version.since_version >= 13 and d.one_in(5):
        held = helper.make_sequence_type_proto(tensor_type(kind, None))
        for side in ("then", "else"):
            text = d.choose(("SequenceConstruct(x, x)", "SequenceConstruct(z)", "SequenceConstruct(z, x, x)"))
            d.attributes[f"{side}_branch"] = graph([node(f"{side}_0 = {text}")], [], [(f"{side}_0", held)])
        return
    d.attributes["then_branch"] = _branch(d, kind, count, 0, "t")
    d.attributes["else_branch"] = _branch(d, kind, count, 0, "e")
    d.outputs = (True,) * count


def loop(d: Draw) -> None:
    """Loop: trips by M, by a condition, or both; values that keep or grow their shape, and outputs of each trip."""
    kind = _stand(d)
    trips = d.choose((2, 1, 0, 7, None))
    if trips is None:
        d.give("M", None)
    else:
        rank = d.choose(((), (), (1,)))
        d.give("M", np.array(trips, np.int64).reshape(rank), known=d.flag(), static=True)
    conditional = d.flag()
    if conditional:
        d.link("cond", _truth(d, "p", likely=True, ranks=1))
    else:
        d.give("cond", None)
    # onnxruntime takes what is symbolic in an output of no trips for 0.
    d.more("x", d.array(kind, (d.size(0, 5), 2), -3, 3), static=conditional or trips == 0)
    nodes, going = _going(d, trips is not None)
    inputs = [("i", tensor_type("int64", [])), ("on", tensor_type("bool", []))]
    results = [("go", tensor_type("bool", []))]
    nodes += going
    carried = d.integer(0 if d.version.since_version >= 11 and conditional else 1, 2)
    for index in range(carried):
        name, made = f"a{index}", f"c{index}"
        start = d.array(kind, (d.size(0, 3), 2), -3, 3)
        d.give("v_initial", start)
        nodes += _turn(d, kind, name, made)
        inputs.append((name, tensor_type(kind, None)))
        results.append((made, tensor_type(kind, None)))
    listed = d.version.since_version >= 13 and d.one_in(4)
    if listed:
        kind_of_list = helper.make_sequence_type_proto(tensor_type(kind, None))
        d.before.append(node("s = SequenceEmpty()", dtype=element(kind)))
        d.link("v_initial", "s")
        nodes.append(node(f"kept = SequenceInsert(list, {d.choose(('x', *(('c0',) if carried else ())))})"))
        inputs.append(("list", kind_of_list))
        results.append(("kept", kind_of_list))
    rows = d.integer(0 if carried or listed else 1, 2)
    for index in range(rows):
        text = d.choose(("Identity(x)", "Neg(x)", "Identity(i)", "Mul(i, i)", "Cast(x)", *(("Size(c0)",) if carried else ())))
        held = "int64" if "i" in text.partition("(")[2] or "Size" in text else "float" if "Cast" in text else kind
        nodes.append(node(f"r{index} = {text}", **({"to": 1} if "Cast" in text else {})))
        results.append((f"r{index}", tensor_type(held, None)))
    d.attributes["body"] = graph(nodes, inputs, results)
    d.outputs = (True,) * (carried + listed + rows)


def _going(d: Draw, counted: bool) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Nodes that compute whether the loop goes on: as it was, always (if it is counted), or while i is small."""
    way = d.choose(("as before", "always", "while") if counted else ("while",))
    if way == "as before":
        return [], [node("go = Identity(on)")]
    if way == "always":
        return [], [constant("go", np.array(True))]
    return [constant("most", np.int64(d.integer(0, 5)))], [node("go = Less(i, most)")]


def _turn(d: Draw, kind: str, name: str, made: str) -> list[onnx.NodeProto]:
    """The nodes of one trip for one carried value; once in a while by an If or a Loop inside."""
    way = d.choose(("add", "grow", "same", "shrink", "number", "if", "loop"))
    if way == "grow":
        return [node(f"{made} = Concat({d.choose((f'{name}, x', f'x, {name}'))})", axis=0)]
    if way == "same":
        return [node(f"{made} = Identity({name})")]
    if way == "shrink":
        ends = [constant(f"{made}_{part}", np.array([value], np.int64)) for part, value in (("s", 1), ("e", 99), ("x", 0))]
        return [*ends, node(f"{made} = Slice({name}, {made}_s, {made}_e, {made}_x)")]
    if way == "if":
        sides = {
            f"{side}_branch": graph(
                [node(f"{made}_{side} = {text}", **({"axis": 0} if "Concat" in text else {}))],
                [],
                [(f"{made}_{side}", tensor_type(kind, None))],
            )
            for side, text in (("then", f"Concat({name}, x)" if d.flag() else f"Neg({name})"), ("else", f"Identity({name})"))
        }
        bound = constant(f"{made}_b", np.int64(d.integer(0, 3)))
        return [bound, node(f"{made}_p = Less(i, {made}_b)"), node(f"{made} = If({made}_p)", **sides)]
    if way == "loop":
        inner = graph(
            [node(f"{made}_g = Identity({made}_o)"), node(f"{made}_t = Concat({made}_s, x)", axis=0)],
            [
                (f"{made}_j", tensor_type("int64", [])),
                (f"{made}_o", tensor_type("bool", [])),
                (f"{made}_s", tensor_type(kind, None)),
            ],
            [(f"{made}_g", tensor_type("bool", [])), (f"{made}_t", tensor_type(kind, None))],
        )
        return [node(f"{made} = Loop(i, , {name})", body=inner)]
    number = [node(f"{made}_f = Cast(i)", to=element(kind))] if way == "number" else [constant(f"{made}_f", _one(kind))]
    return [*number, node(f"{made} = Add({name}, {made}_f)")]


def _one(kind: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.ones((), numpy_dtype(kind))


def scan(d: Draw) -> None:
    """Scan: states and inputs of any axis and direction; version 8 also has a batch and lengths."""
    kind = _stand(d)
    batched = d.version.since_version < 9
    length = d.size(1, 5)
    batch = [d.size(1, 3)] if batched else []
    width = d.size(1, 4)
    states, scanned, rows = d.integer(0, 2), d.integer(1, 2), d.integer(0, 2)
    if not states and not rows:
        rows = 1
    names = [formal.name for formal in d.version.inputs]
    if batched:
        lengths = d.indices("int64", (batch[0],), length, negative=False) + 1 if d.flag() else None
        d.give(names[0], lengths, static=True)
    axes: list[int] = []
    for _ in range(states):
        d.give(names[-1], d.array(kind, (*batch, width), -3, 3))
    for _ in range(scanned):
        axis = 0 if batched else d.integer(0, 1)
        axes.append(axis - 2 if not batched and d.version.since_version >= 11 and d.flag() else axis)
        d.give(names[-1], d.array(kind, [*batch, *((length, width) if axis == 0 else (width, length))], -3, 3))
    d.attributes["num_scan_inputs"] = scanned
    if batched:
        d.attribute("directions", [d.integer(0, 1) for _ in range(scanned)])
    else:
        if any(axes) or d.flag():
            d.attributes["scan_input_axes"] = axes
        d.attribute("scan_input_directions", [d.integer(0, 1) for _ in range(scanned)])
        if rows:
            low = -2 if d.version.since_version >= 11 else 0
            d.attribute("scan_output_axes", [d.integer(low, 1) for _ in range(rows)])
            d.attribute("scan_output_directions", [d.integer(0, 1) for _ in range(rows)])
    captured = d.flag()
    if captured:
        d.more("w", d.array(kind, (1,), -3, 3), static=True)
    nodes: list[onnx.NodeProto] = []
    inputs = [f"p{index}" for index in range(states)] + [f"u{index}" for index in range(scanned)]
    for index in range(states):
        nodes.append(node(f"q{index} = {_step(d, f'p{index}', inputs, captured)}"))
    made = [f"q{index}" for index in range(states)]
    for index in range(rows):
        nodes.append(node(f"h{index} = {_step(d, d.choose([*made, 'u0']), inputs, captured)}"))
        made.append(f"h{index}")
    body = tensor_type(kind, [width])
    d.attributes["body"] = graph(nodes, [(name, body) for name in inputs], [(name, body) for name in made])
    d.outputs = (True,) * (states + rows)


def _step(d: Draw, name: str, others: Sequence[str], captured: bool) -> str:
    other = "w" if captured and d.flag() else d.choose(others)
    return d.choose((f"Add({name}, {other})", f"Neg({name})", f"Sub({other}, {name})", f"Identity({name})"))


STRATEGIES = {"If": if_, "Loop": loop, "Scan": scan}
