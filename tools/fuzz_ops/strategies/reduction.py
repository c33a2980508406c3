"""Reductions over axes, arg-reductions, and running sums."""

from __future__ import annotations

from tools.fuzz_ops.draw import Draw


def reduce(d: Draw) -> None:
    """Reduce*: axes absent, empty, of either sign; as an attribute, a constant, or at run time."""
    since = d.version.since_version
    shape = d.shape(0 if since >= 18 else 1, 5, smallest=0 if since >= 20 or d.version.op in _SUMS else 1)
    data = d.version.inputs[0].name
    # What integers that overflow give is not defined, nor the logarithm of a sum of negative ones.
    low, high = {"ReduceProd": (-3, 3), "ReduceMax": (None, None), "ReduceMin": (None, None), "ReduceSum": (None, None)}.get(
        d.version.op, (1, 9) if d.version.op == "ReduceLogSum" else (-9, 9)
    )
    whole = d.dtype(d.formal(data).type).lstrip("u").startswith("int")
    d.tensor(data, shape, low=low if whole else None, high=high if whole else None)
    axes = d.axes(len(shape), empty=d.has_input("axes"))
    if since < 11:
        axes = [axis % len(shape) for axis in axes]
    d.attribute("keepdims", 0, 1)
    d.attribute("noop_with_empty_axes", 1, 0)
    if axes or d.has_input("axes"):
        d.parameter("axes", axes, optional=True)


_SUMS = ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp")


def arg_reduce(d: Draw) -> None:
    """ArgMax and ArgMin: ties decide by select_last_index."""
    shape = d.shape(1, 4, smallest=1)
    axis = d.axis(len(shape))
    d.attribute("axis", axis if d.version.since_version >= 11 else axis % len(shape))
    d.attribute("keepdims", 0, 1)
    d.attribute("select_last_index", 1, 0)
    d.tensor("data", shape)


def cumulative(d: Draw) -> None:
    """CumSum and CumProd: the axis is an input."""
    shape = d.shape(1, 4)
    prod = d.version.op == "CumProd"
    d.tensor("x", shape, low=-2 if prod else None, high=2 if prod else None)
    d.parameter("axis", d.axis(len(shape)))
    d.attribute("exclusive", 1, 0)
    d.attribute("reverse", 1, 0)


_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"

STRATEGIES = {
    **{f"Reduce{kind}": reduce for kind in _REDUCTIONS.split()},
    "ArgMax": arg_reduce,
    "ArgMin": arg_reduce,
    "CumSum": cumulative,
    "CumProd": cumulative,
}
