"""How far the reference is from itself: what a difference means in a model that is sensitive to the last place.

Where a number is rounded to an integer or compared with another (dynamic quantization, ArgMax), a difference in the last place
of what comes before may become one of a whole step; and in a deep network errors of the last place add up. How much of that a
model has is measured, not guessed: onnxruntime runs it again with all its graph optimizations, which add up in another order,
and with the results of sums, products of matrices and transcendental functions moved by two units in the last place, as another
order of adding up would. What is exact (inputs, weights, single additions, roundings) is not moved. The `Spread` of an output
is the largest of these changes.

A difference within the spread tells nothing about our numbers: they are as close to the reference as it is to itself. A wrong
node whose effect is smaller than that is not seen in the outputs; explicit limits (`Limits`) leave the spread out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from onnx2torch_mlir.hosting import OnnxruntimeSession
from onnx2torch_mlir.hosting.inference import inferred_types
from onnx2torch_mlir.hosting.sessions import Source
from onnx2torch_mlir.model import Kind, LoadedModel, extract
from onnx2torch_mlir.specs import default_ledger
from onnx2torch_mlir.verification.comparison import Comparison, compare_values

MOVES = 12
"""At most so many runs with results moved, each number in another direction each time: a single tie falls the other way in one
run of some."""

STEPS = {ir.DataType.FLOAT: 2.0**-22, ir.DataType.DOUBLE: 2.0**-51, ir.DataType.FLOAT16: 2.0**-10}
"""Two units in the last place, relative, of the types whose results are moved; of bfloat16, onnxruntime has no Mul."""

OFTEN = 2.0**20
"""Numbers x are moved by cos(`OFTEN` x + seed) of their `STEPS`: neighbours by other shares. A factor for all of a result
would move the scale of a quantization along, and round nothing differently."""

LARGEST = 2.0**40
"""Beyond that, all numbers of a sign are moved by the same share."""

EXACT = frozenset(
    "Identity Reshape Transpose Squeeze Unsqueeze Flatten Slice Split Concat Gather GatherElements GatherND ScatterElements"
    " ScatterND Scatter Expand Tile Pad Cast CastLike Relu Max Min Abs Neg Clip Floor Ceil Round Sign Where Dropout Constant"
    " ConstantOfShape MaxPool GlobalMaxPool ReduceMax ReduceMin Range EyeLike OneHot DepthToSpace SpaceToDepth Trilu"
    " ReverseSequence TopK Compress Unique NonZero Add Sub Mul Div Sqrt LeakyRelu PRelu ThresholdedRelu HardSigmoid Upsample"
    " QuantizeLinear DequantizeLinear DynamicQuantizeLinear MatMulInteger ConvInteger QLinearConv QLinearMatMul MaxUnpool"
    " If Loop Scan BitShift Shrink Col2Im Hardmax Mod".split()
)
"""Operators without a sum or a function of several terms: their results are the same wherever their inputs are."""


@dataclass(frozen=True)
class Spread:
    """The largest change of an output: ``size`` of a number, and ``count`` of numbers beyond the tolerance."""

    size: float = 0.0
    count: int = 0

    def holds(self, found: Comparison) -> bool:
        """Whether the difference ``found`` is at most twice as large; of whole numbers, at most four times as many."""
        if found.problem != "numbers" or found.not_finite or not found.max_abs <= 2 * self.size:
            return False
        return found.rtol > 0 or found.wrong <= 4 * self.count


def as_close(
    source: Source, loaded: LoadedModel, feeds: Mapping[str, Any], theirs: Sequence[Any], outputs: Sequence[Comparison]
) -> tuple[Comparison, ...]:
    """``outputs``, where those that are as close to the reference's ``theirs`` as it is to itself agree.

    ``source`` is the model as onnxruntime takes it, ``loaded`` the same one as read.
    """
    if not any(item.problem == "numbers" and not item.not_finite for item in outputs):
        return tuple(outputs)
    names = [value.name for value in loaded.outputs]
    spreads: dict[str, Spread] = {}
    for other in others(source, loaded, feeds):
        for name, a, b in zip(names, other, theirs, strict=True):
            for found in compare_values(name, a, b):
                before = spreads.get(found.name, Spread())
                spreads[found.name] = Spread(max(before.size, found.max_abs), max(before.count, found.wrong))
        outputs = [_within(item, spreads.get(item.name, Spread())) for item in outputs]
        if all(item.agrees for item in outputs):
            break
    return tuple(outputs)


def _within(found: Comparison, spread: Spread) -> Comparison:
    return replace(found, problem="", spread=spread.size) if spread.holds(found) else found


def others(source: Source, loaded: LoadedModel, feeds: Mapping[str, Any]) -> Iterator[list[Any]]:
    """The outputs of the reference when it computes otherwise: optimized, and with results moved."""
    # Nothing is to be learnt from a session that onnxruntime does not make or run.
    with contextlib.suppress(Exception):
        yield OnnxruntimeSession(source, loaded.base_dir, optimized=True).run(feeds)
    for seed in range(MOVES):
        with contextlib.suppress(Exception):
            yield OnnxruntimeSession(moved(loaded, seed), loaded.base_dir).run(feeds)


def moved(loaded: LoadedModel, seed: int) -> onnx.ModelProto:
    """``loaded`` with the results of nodes that are not `EXACT` moved by at most `STEPS` (`OFTEN`); weights stay in files.

    Raises:
        Refusal: where an output of the model is no value of its main graph.
    """
    types = inferred_types(loaded, default_ledger())
    outputs = [value.name for value in loaded.outputs]
    proto = extract(loaded, outputs, weights="embed" if loaded.base_dir is None else "external")
    graph = proto.graph
    numbers = {"often": OFTEN, "least": -LARGEST, "most": LARGEST, "phase": float(seed)}
    graph.initializer.extend(numpy_helper.from_array(np.array(v, np.float32), f"moved/{n}") for n, v in numbers.items())
    nodes: list[onnx.NodeProto] = []
    dtypes: set[ir.DataType] = set()
    for node in graph.node:
        nodes.append(node)
        for index, name in enumerate(node.output if node.op_type not in EXACT else ()):
            described = types.get(name)
            if described is None or described.kind is not Kind.TENSOR or described.dtype not in STEPS:
                continue
            if described.dtype not in dtypes:
                dtypes.add(described.dtype)
                graph.initializer.extend(_constants(described.dtype))
            node.output[index] = f"{name}/before"
            nodes += _moving(name, described.dtype)
    del graph.node[:]
    graph.node.extend(nodes)
    return proto


def _constants(dtype: ir.DataType) -> list[onnx.TensorProto]:
    numbers = {"one": 1.0, "step": STEPS[dtype]}
    return [numpy_helper.from_array(np.array(v, dtype.numpy()), f"moved/{name}/{dtype.name}") for name, v in numbers.items()]


def _moving(name: str, dtype: ir.DataType) -> list[onnx.NodeProto]:
    """Nodes that compute ``name`` from ``name``/before. onnxruntime has no Cos of float16; what is infinite stays so."""
    float_, wanted = int(onnx.TensorProto.FLOAT), int(dtype)
    return [
        helper.make_node("Cast", [f"{name}/before"], [f"{name}/wide"], to=float_),
        helper.make_node("Mul", [f"{name}/wide", "moved/often"], [f"{name}/turns"]),
        helper.make_node("Min", [f"{name}/turns", "moved/most"], [f"{name}/low"]),
        helper.make_node("Max", [f"{name}/low", "moved/least"], [f"{name}/bounded"]),
        helper.make_node("Add", [f"{name}/bounded", "moved/phase"], [f"{name}/place"]),
        helper.make_node("Cos", [f"{name}/place"], [f"{name}/wave"]),
        helper.make_node("Cast", [f"{name}/wave"], [f"{name}/narrow"], to=wanted),
        helper.make_node("Mul", [f"{name}/narrow", f"moved/step/{dtype.name}"], [f"{name}/share"]),
        helper.make_node("Add", [f"{name}/share", f"moved/one/{dtype.name}"], [f"{name}/factor"]),
        helper.make_node("Mul", [f"{name}/before", f"{name}/factor"], [name]),
    ]
