"""Parallel loops that threads do not share become loops of one turn after the other, of which LLVM can be told something.

Inside of a loop that sums up rows, say, lies one over the columns. MLIR would make branches of it in the end, without a place
for what short_loops.py and long_chains.py ask.
"""

from __future__ import annotations

from collections.abc import Container

from torch_mlir import ir
from torch_mlir.dialects import scf

from onnx2torch_mlir.engine.compiler.walks import functions, nested, symbol


def write(module: ir.Module, kernels: Container[str]) -> None:
    """Rewrite every ``scf.parallel`` without results in the functions ``kernels``."""
    bodies = [nested(function) for function in functions(module) if symbol(function) in kernels]
    for loop in [operation for body in bodies for operation in body if operation.name == "scf.parallel"]:
        if not len(loop.results):
            _rewrite(loop)


def _rewrite(loop: ir.Operation) -> None:
    block = loop.regions[0].blocks[0]
    count, operands = len(block.arguments), list(loop.operands)
    place = loop
    for position, turn in enumerate(block.arguments):
        with ir.InsertionPoint(place), loop.location:
            made = scf.ForOp(*operands[position::count])
            turn.replace_all_uses_with(made.induction_variable)
            with ir.InsertionPoint(made.body):
                place = scf.YieldOp([]).operation
    for view in list(block.operations)[:-1]:
        view.operation.move_before(place)
    loop.erase()
