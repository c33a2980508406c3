"""How LLVM is to vectorize loops whose turns are long chains of operations, each of which waits for the one before.

A function like erf is some twenty of them. Long loops take several vectors at a time: a processor finds the next turns by
itself, but only as many as its queues hold; with several chains side by side it always has one that can go on (Zen 5 computes
these functions in a fifth less time; so does Zen 3, which has 16 registers only, by four instead of two: that they do not hold
all of four chains costs less). In short ones what does not fill a vector is masked: one by one, four numbers more
than a vector take three times as long as the vector.
"""

from __future__ import annotations

from collections.abc import Container

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import constant_of, loops_of, nested

_CHAIN = "llvm.intr.fmuladd"
_LONG = 4
"""From how many multiplications and additions on a turn is a long chain."""

_MANY, _FEW = 512, 192
"""From how many turns on the rest of a loop that takes several vectors costs little; up to how many its masks do."""

_TOGETHER = 4
"""Vectors that a long loop takes at a time."""
_INTERLEAVED = f"#llvm.loop_annotation<interleave = <count = {_TOGETHER} : i32>>"
_MASKED = "#llvm.loop_annotation<vectorize = <disable = false, predicateEnable = true>>"


def mark(module: ir.Module, kernels: Container[str]) -> None:
    """Say it of the innermost loops over long chains of scalars in the functions ``kernels``; the branch that such a loop
    becomes carries what is asked of LLVM."""
    for loop in loops_of(module, kernels):
        if _is_long_chain(loop):
            asked = _asked(loop, is_outermost=loop.parent.name == "func.func")
            if asked is not None:
                loop.attributes["loop_annotation"] = ir.Attribute.parse(asked, context=module.context)


def _asked(loop: ir.Operation, *, is_outermost: bool) -> str | None:
    unit = of_host()
    first, end, step = (constant_of(value) for value in list(loop.operands)[:3])
    if first is None or end is None or not step:
        # Of all turns of a kernel, or of a thread's share.
        return _INTERLEAVED if is_outermost else None
    turns = int(-((first - end) // step))
    if turns >= _MANY or turns % (_TOGETHER * unit.lanes) == 0:
        return _INTERLEAVED
    # SSE has no masks.
    return _MASKED if unit.lanes > 4 and turns < _FEW and turns % unit.lanes else None


def _is_long_chain(loop: ir.Operation) -> bool:
    inside = nested(loop)
    chain = [one for one in inside if one.name == _CHAIN and isinstance(one.results[0].type, ir.FloatType)]
    return len(chain) >= _LONG and not any(len(one.regions) for one in inside)
