"""Random numbers, which are judged by their distribution, and Dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tools.fuzz_ops.draw import Draw


def _shape(d: Draw) -> Sequence[int]:
    """A shape of enough numbers for their moments to tell something, or any."""
    return d.choose(((400,), (20, 30), (3, 1, 200))) if d.flag() else d.shape(0, 4)


def _parameters(d: Draw) -> None:
    d.attribute("mean", 2.0, -0.5)
    d.attribute("scale", 3.0, 0.25)
    d.attribute("low", -1.0, 0.0, -7.5)
    d.attribute("high", 3.0, 0.5)
    if d.attributes.get("low", 0.0) >= d.attributes.get("high", 1.0):
        del d.attributes["high"]
    # onnxruntime takes the seed as a whole number.
    d.attribute("seed", 3.0, 0.0, 1e6)


def _element(d: Draw, kinds: Sequence[str]) -> int:
    return int(onnx.TensorProto.DataType.Value(d.choose(kinds).upper()))


def generated(d: Draw) -> None:
    """RandomNormal and RandomUniform."""
    _parameters(d)
    # An attribute that is an empty list has no type.
    d.attributes["shape"] = list(_shape(d)) or [1]
    kinds = d.allowed(d.version.outputs[0].type)
    d.attribute("dtype", _element(d, kinds))


def like(d: Draw) -> None:
    """RandomNormalLike and RandomUniformLike: only floats are random, so other inputs need a dtype."""
    _parameters(d)
    floats = d.allowed("T2")
    if d.flag():
        d.dtype("T1")
        d.attributes["dtype"] = _element(d, floats)
    else:
        d.dtype("T1", floats)
    d.tensor("input", _shape(d))


def bernoulli(d: Draw) -> None:
    """Bernoulli: chances from 0 to 1, both included."""
    d.attribute("seed", 3.0)
    d.attribute("dtype", _element(d, d.allowed("T2")))
    kind = d.dtype("T1")
    chances = d.array(kind, _shape(d), 0, 1)
    certain = d.indices("int64", chances.shape, 8, negative=False)
    d.give("input", np.where(certain < 2, certain.astype(chances.dtype), chances))


def multinomial(d: Draw) -> None:
    """Multinomial: logarithms of weights that need not add up to 1."""
    d.attribute("seed", 3.0)
    d.attribute("sample_size", 1, 7, 300)
    d.attribute("dtype", _element(d, ("INT32", "INT64")))
    d.tensor("input", (d.size(0, 3), d.size(1, 7)), low=-3, high=3)


def dropout(d: Draw) -> None:
    """Dropout: at inference, and in training at any ratio, with and without its mask."""
    shape = _shape(d)
    d.tensor("data", shape)
    if d.has_attribute("is_test") and d.flag():
        d.attributes["is_test"] = d.choose((1, 0))
    d.attribute("ratio", 0.3, 0.0, 0.8)
    d.attribute("seed", 3)
    if d.has_input("ratio"):
        if d.flag():
            ratio = np.asarray(d.choose((0.3, 0.0, 0.8)), d.array(d.dtype(d.formal("ratio").type), ()).dtype)
            d.give("ratio", ratio, known=d.flag(), static=True)
        else:
            d.give("ratio", None)
        if d.flag():
            d.give("training_mode", np.array(d.choose((True, True, False))), known=d.flag(), static=True)
    if d.flag():
        d.outputs = (True, True)


STRATEGIES = {
    "RandomNormal": generated,
    "RandomUniform": generated,
    "RandomNormalLike": like,
    "RandomUniformLike": like,
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
    "Dropout": dropout,
}
