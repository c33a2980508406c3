"""Weights that a loop reads in each of its turns are read there and back again.

Read in one order, weights that are larger than a cache are gone from it before their turn comes again, all of them. When every
other turn begins where the last one ended, what fits is still there: half of the weights of a recurrent cell, say.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.walks import constant_of, word_of


def says(operation: ir.Operation) -> ir.Value:
    """Whether blocks are to be walked from the last to the first in this turn of the loop around ``operation``: an i1, at the
    insertion point, which is inside of that loop. It is false outside of loops that count by one."""
    flag = ir.IntegerType.get_signless(1)
    parent = operation.parent.operation
    while parent.name == "scf.if":
        parent = parent.parent.operation
    if parent.name != "scf.for" or constant_of(parent.operands[2]) != 1:
        return arith.ConstantOp(flag, ir.BoolAttr.get(False)).result
    turn = word_of(parent.regions[0].blocks[0].arguments[0])
    return arith.TruncIOp(flag, turn).result
