"""Loops whose turns the lowering knows to be independent (`hints.INDEPENDENT`) become parallel ones, which threads share."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.parallel_loops import parallel
from onnx2torch_mlir.engine.compiler.walks import functions, nested, symbol
from onnx2torch_mlir.hints import INDEPENDENT


def replace(module: ir.Module) -> list[ir.Operation]:
    """The parallel loops that stand for those of @main that carry nothing but memory."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    marked = [operation for operation in nested(main) if operation.name == "scf.for" and INDEPENDENT in operation.attributes]
    return [_parallel(loop) for loop in marked if not len(loop.results)]


def _parallel(loop: ir.Operation) -> ir.Operation:
    lower, upper, step = loop.operands
    body = loop.regions[0].blocks[0]
    with ir.InsertionPoint(loop), loop.location:
        # An empty range would wrap around.
        length = arith.SubIOp(arith.MaxUIOp(lower, upper).result, lower).result
        made = parallel([arith.CeilDivUIOp(length, step).result])
    inside = made.regions[0].blocks[0]
    (end,) = inside.operations
    with ir.InsertionPoint(end), loop.location:
        place = arith.AddIOp(lower, arith.MulIOp(inside.arguments[0], step).result).result
    body.arguments[0].replace_all_uses_with(place)
    for view in list(body.operations)[:-1]:
        view.operation.move_before(end.operation)
    loop.erase()
    return made
