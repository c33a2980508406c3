"""The preview domains: steps of optimizers, gradients, and FlexAttention with bodies of its own."""

from __future__ import annotations

import numpy as np
import onnx

from tools.fuzz_ops.draw import Draw, numpy_dtype
from tools.fuzz_ops.graphs import constant, element, graph, node, tensor_type


def optimizer(d: Draw) -> None:
    """Adagrad, Adam, Momentum: one tensor or several, in the first step and in a later one."""
    kinds = {"Adagrad": 3, "Adam": 4, "Momentum": 3}[d.version.op]
    d.attribute("norm_coefficient", 0.1, 0.0)
    d.attribute("norm_coefficient_post", 0.01)
    d.attribute("epsilon", 1e-3)
    d.attribute("decay_factor", 0.2)
    d.attribute("alpha", 0.8, 0.5)
    d.attribute("beta", 0.9, 0.5)
    d.attribute("mode", "nesterov", "standard")
    d.give("R", d.array(d.dtype("T1"), (), 0.01, 0.5), known=d.flag(), static=True)
    d.give("T", np.array(d.choose((0, 1, 5)), np.int64), known=d.flag(), static=True)
    found = [d.shape(0, 3) for _ in range(d.integer(1, 3))]
    kind = d.dtype("T3")
    for _ in range(kinds):
        for shape in found:
            # Sums of squares are not negative.
            d.give("inputs", d.array(kind, shape, 0.1, 2))
    d.outputs = (True,) * (len(found) * (kinds - 1))


_SMOOTH = ("Tanh", "Sigmoid", "Exp", "Neg", "Softplus", "Identity", "Softmax", "Sqrt", "Log", "Reciprocal")


def gradient(d: Draw) -> None:
    """Gradient: of chains of products, sums, smooth functions and movements, to some of what they read."""
    kind = d.dtype("T2", ("float", "double"))
    d.opset = d.choose((21, 17, 13))
    rows, inner, columns = d.size(1, 4), d.size(1, 4), d.size(1, 4)
    shapes = ((rows, inner), (inner, columns), (columns,))
    count = d.integer(1, 3)
    roles = d.permuted(range(count))
    d.broadcasts = True
    for role in roles:
        d.give("Inputs", d.array(kind, shapes[role], 0.3, 1.5))
    names = [f"in{roles.index(role)}" for role in range(count)]
    d.before.append(node(f"v0 = MatMul({names[0]}, {names[1]})" if count > 1 else "v0 = Mul(in0, in0)"))
    last = "v0"
    if count > 2:
        d.before.append(node(f"v1 = {d.choose(('Add', 'Mul', 'Div'))}(v0, {names[2]})"))
        last = "v1"
    for index in range(d.integer(0, 3)):
        op = d.choose((*_SMOOTH, "Transpose", "Concat", "Mul"))
        text = f"{op}({last}, {last})" if op in ("Concat", "Mul") else f"{op}({last})"
        last = f"w{index}"
        d.before.append(node(f"{last} = {text}", **({"axis": 0} if op == "Concat" else {})))
    # Probabilities sum up to 1: the slopes of their mean are 0, and what is computed is nothing but rounding.
    sums = any(item.op_type == "Softmax" for item in d.before)
    if d.flag() and not sums:
        d.before.append(node(f"y = ReduceMean({last})", keepdims=0))
    else:
        d.before.append(node(f"y = Mul({last}, {last})"))
    kept = d.integer(1, count)
    d.attributes["xs"], d.attributes["y"] = [f"in{index}" for index in range(kept)], "y"
    if kept < count:
        d.attributes["zs"] = [f"in{index}" for index in range(kept, count)]
    d.outputs = (True,) * kept
    if d.flag():
        d.results = ("y", *(f"out{index}" for index in range(kept)))


def flex_attention(d: Draw) -> None:
    """FlexAttention: grouped heads, both bodies, every precision."""
    batch, groups, heads = d.size(1, 2), d.integer(1, 2), d.integer(1, 2)
    length, total, size, width = d.size(1, 5), d.size(1, 5), d.size(1, 4), d.size(1, 4)
    d.attribute("scale", 0.5)
    kind = d.dtype("T1")
    precision = "double" if kind == "double" else "float"
    if d.flag():
        # The last digits of probabilities in float16 would show in a wider result.
        precision = d.choose(("float", "double", *(("float16",) if kind == "float16" else ())))
        d.attributes["softmax_precision"] = element(precision)
    for name, shape in (
        ("Q", (batch, groups * heads, length, size)),
        ("K", (batch, heads, total, size)),
        ("V", (batch, heads, total, width)),
    ):
        d.tensor(name, shape, low=-2, high=2)
    for name in ("score_mod", "prob_mod"):
        if d.flag():
            d.attributes[name] = _body(d, precision, name)


def _body(d: Draw, precision: str, prefix: str) -> onnx.GraphProto:
    factor = np.asarray(d.choose((0.5, 2.0)), numpy_dtype(precision))
    text = d.choose((f"Mul(s, {prefix}_c)", f"Add(s, {prefix}_c)", "Tanh(s)", "Identity(s)"))
    body = [node(f"t = {text}")]
    if "_c" in text and d.flag():
        d.more(f"{prefix}_c", factor)
    elif "_c" in text:
        body.insert(0, constant(f"{prefix}_c", factor))
    dims: list[int | str | None] = ["B", "H", "L", "S"]
    return graph(body, [("s", tensor_type(precision, dims))], [("t", tensor_type(precision, dims))])


STRATEGIES = {"Adagrad": optimizer, "Adam": optimizer, "Momentum": optimizer, "Gradient": gradient}
"""Of the domain ai.onnx.preview.training."""

PREVIEW = {"FlexAttention": flex_attention}
"""Of the domain ai.onnx.preview."""
