"""Picking, putting, and sorting: indices lie within what they index."""

from __future__ import annotations

import numpy as np

from tools.fuzz_ops.draw import Draw, numpy_dtype


def gather(d: Draw) -> None:
    """Gather: indices of any rank, negative ones since 11."""
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    newer = d.version.since_version >= 11
    d.attribute("axis", axis if newer else axis % len(shape))
    size = shape[d.attributes.get("axis", 0)]
    d.tensor("data", shape)
    where = d.shape(0, 3) if size else (*d.shape(0, 2), 0)
    d.give("indices", d.indices(d.dtype("Tind"), where, max(size, 1), negative=newer), known=d.flag())


def gather_elements(d: Draw) -> None:
    """GatherElements: the indices have another size along any axis."""
    shape = d.shape(1, 4, smallest=1)
    axis = d.axis(len(shape))
    d.attribute("axis", axis)
    axis = d.attributes.get("axis", 0) % len(shape)
    where = [d.size(0, 7) if index == axis else d.integer(0, size) for index, size in enumerate(shape)]
    d.tensor("data", shape)
    d.give("indices", d.indices(d.dtype("Tind"), where, shape[axis]))


def gather_nd(d: Draw) -> None:
    """GatherND: index tuples of every length, with batch dims since 12."""
    shape = d.shape(1, 4, smallest=1)
    batch = d.integer(0, len(shape) - 1) if d.version.since_version >= 12 and d.flag() else 0
    depth = d.integer(1, len(shape) - batch)
    if batch:
        d.attributes["batch_dims"] = batch
    where = [*shape[:batch], *d.shape(0, 2)]
    columns = [d.indices("int64", where, shape[batch + index]) for index in range(depth)]
    d.tensor("data", shape)
    d.give("indices", np.stack(columns, -1), static_last=True)


def _reduction(d: Draw) -> bool:
    """Draw the reduction; whether there is one, so that indices may repeat."""
    options = ["add", "mul", *(["max", "min"] if d.version.since_version >= 18 else []), "none"]
    chosen = d.attribute("reduction", *options)
    return chosen not in (None, "none")


def scatter(d: Draw) -> None:
    """Scatter and ScatterElements: without a reduction no place is written twice."""
    shape = d.shape(1, 4, smallest=1)
    d.attribute("axis", d.axis(len(shape)) if d.version.since_version >= 11 else d.integer(0, len(shape) - 1))
    axis = d.attributes.get("axis", 0) % len(shape)
    repeats = _reduction(d)
    longest = 7 if repeats else shape[axis]
    where = [d.integer(0, longest if index == axis else size) for index, size in enumerate(shape)]
    indices = d.indices(d.dtype("Tind"), where, shape[axis], negative=d.version.since_version >= 11)
    if not repeats:
        order = np.array(d.permuted(range(shape[axis])))[: where[axis]]
        indices = np.broadcast_to(order.reshape([-1 if index == axis else 1 for index in range(len(shape))]), where)
        indices = indices.astype(numpy_dtype(d.dtype("Tind")))
    d.tensor("data", shape, low=-3, high=3)
    d.give("indices", indices)
    d.tensor("updates", where, low=-3, high=3)


def scatter_nd(d: Draw) -> None:
    """ScatterND: slices of every rank."""
    shape = d.shape(1, 4, smallest=1)
    depth = d.integer(1, len(shape))
    places = int(np.prod(shape[:depth]))
    count = d.integer(0, min(5, places))
    flat = d.indices("int64", (count,), places, negative=False)
    if not _reduction(d):
        flat = np.array(d.permuted(range(min(places, 12))))[:count].astype(np.int64)
    indices = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(np.int64).reshape(count, depth)
    d.tensor("data", shape, low=-3, high=3)
    d.give("indices", indices, static_last=True)
    d.tensor("updates", (count, *shape[depth:]), low=-3, high=3)


def tensor_scatter(d: Draw) -> None:
    """TensorScatter: a cache that is written from an index on."""
    batch, longest = d.size(1, 3), d.size(1, 8)
    length = d.integer(1, longest)
    shape = [batch, d.size(1, 3), longest, d.size(1, 4)]
    mode = d.attribute("mode", "circular", "linear")
    d.tensor("past_cache", shape)
    d.tensor("update", [length if axis == 2 else size for axis, size in enumerate(shape)])
    if d.flag():
        most = longest - 1 if mode == "circular" else longest - length
        d.give("write_indices", d.indices("int64", (batch,), most + 1, negative=False))


def compress(d: Draw) -> None:
    """Compress: a condition that may be shorter than the axis."""
    shape = d.shape(1, 4, smallest=1)
    axis = d.axis(len(shape))
    d.attribute("axis", axis if d.version.since_version >= 11 else axis % len(shape))
    length = shape[d.attributes["axis"]] if "axis" in d.attributes else int(np.prod(shape))
    d.tensor("input", shape)
    d.tensor("condition", (d.integer(0, length),))


def reverse_sequence(d: Draw) -> None:
    """ReverseSequence: both orders of batch and time."""
    shape = d.shape(2, 4, smallest=1)
    batch = d.attribute("batch_axis", 0, 1)
    batch = 1 if batch is None else batch
    d.attributes["time_axis"], d.attributes["batch_axis"] = 1 - batch, batch
    d.tensor("input", shape)
    lengths = d.indices("int64", (shape[batch],), shape[1 - batch], negative=False) + 1
    d.give("sequence_lens", lengths)


def top_k(d: Draw) -> None:
    """TopK: k from 0 to the size of the axis."""
    shape = d.shape(1, 4, smallest=1)
    axis = d.axis(len(shape))
    d.attribute("axis", axis if d.version.since_version >= 11 else axis % len(shape))
    axis = d.attributes.get("axis", -1)
    d.attribute("largest", 0, 1)
    d.tensor("X", shape)
    count = d.integer(1, shape[axis])
    d.parameter("k" if d.has_attribute("k") else "K", count if d.has_attribute("k") else [count])
    d.outputs = (True, True)


def non_zero(d: Draw) -> None:
    """NonZero."""
    d.tensor("X", d.shape(1, 4))


def unique(d: Draw) -> None:
    """Unique: all four outputs."""
    shape = d.shape(1, 3, smallest=1)
    d.attribute("axis", d.axis(len(shape)))
    d.attribute("sorted", 1, 0)
    d.tensor("X", shape, low=-2, high=2)
    d.outputs = d.choose(((True,), (True, True, True, True), (True, False, True)))


def suppression(d: Draw) -> None:
    """NonMaxSuppression: boxes that overlap, thresholds present or absent."""
    batch, count, classes = d.size(1, 2), d.size(0, 8), d.size(1, 3)
    corners = np.sort(np.random.default_rng(d.integer(0, 999)).random((batch, count, 2, 2)), axis=2)
    d.attribute("center_point_box", 0)
    d.give("boxes", corners.reshape(batch, count, 4).astype(np.float32))
    d.give("scores", d.array("float", (batch, classes, count), 0, 1))
    for name, value, kind in (
        ("max_output_boxes_per_class", d.integer(0, 5), np.int64),
        ("iou_threshold", d.choose((0.5, 0.1)), np.float32),
        ("score_threshold", d.choose((0.3, 0.0)), np.float32),
    ):
        present = d.flag()
        d.give(name, np.array([value], kind) if present else None, known=d.flag(), static=True)


STRATEGIES = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter,
    "ScatterElements": scatter,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "Compress": compress,
    "ReverseSequence": reverse_sequence,
    "TopK": top_k,
    "NonZero": non_zero,
    "Unique": unique,
    "NonMaxSuppression": suppression,
}
