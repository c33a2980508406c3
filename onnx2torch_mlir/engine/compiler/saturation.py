"""Floats that were clamped become integers without being asked again whether they fit.

A conversion (lowering/casts.py) asks of any number whether it is too small, too large or NaN. After a clamp to a range around
zero that the integers hold only NaN is left, of which 0 becomes: taken for 0 before the clamp, it needs no minimum and maximum
that pass NaN on.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.walks import constant_of, erase_unused, functions, made_by, named

_MAXIMUM, _MINIMUM = "arith.maximumf", "arith.minimumf"


def convert_clamped(module: ir.Module) -> None:
    """Rewrite the conversions of clamped floats to integers."""
    for function in functions(module):
        for conversion in named(function, "arith.fptosi"):
            _rewrite(conversion)


def _rewrite(conversion: ir.Operation) -> None:
    clamped, width = conversion.operands[0], ir.IntegerType(conversion.results[0].type).width
    bounds = _bounds(clamped)
    if bounds is None:
        return
    number, low, high = bounds
    if not -(1 << (width - 1)) <= low <= 0 <= high < 1 << (width - 1):
        return
    chain = _asked(conversion.results[0], clamped, low, high)
    if chain is None:
        return
    with ir.InsertionPoint(conversion), conversion.location:
        constants = (ir.FloatAttr.get(number.type, each) for each in (0.0, low, high))
        nothing, least, most = (arith.ConstantOp(number.type, each).result for each in constants)
        is_nan = arith.CmpFOp(arith.CmpFPredicate.UNO, number, number).result
        kept = arith.SelectOp(is_nan, nothing, number).result
        flags = ir.Attribute.parse("#arith.fastmath<nnan, nsz>")
        kept = arith.MinimumFOp(arith.MaximumFOp(kept, least, fastmath=flags).result, most, fastmath=flags).result
        made = arith.FPToSIOp(conversion.results[0].type, kept).result
    chain[-1].results[0].replace_all_uses_with(made)
    erase_unused(chain[-1])


def _bounds(clamped: ir.Value) -> tuple[ir.Value, float, float] | None:
    """What was clamped between which numbers, if ``clamped`` was."""
    found: dict[str, float] = {}
    value = clamped
    while (made := made_by(value, _MAXIMUM, _MINIMUM)) is not None and made.name not in found and len(found) < 2:
        number = constant_of(made.operands[1])
        if number is None:
            return None
        found[made.name] = float(number)
        value = made.operands[0]
    if len(found) < 2 or not found[_MAXIMUM] <= found[_MINIMUM]:
        return None
    return value, found[_MAXIMUM], found[_MINIMUM]


def _asked(result: ir.Value, clamped: ir.Value, low: float, high: float) -> list[ir.Operation] | None:
    """The choices from the conversion's ``result`` to the one that makes 0 of NaN; None if they are others than that."""
    chain: list[ir.Operation] = []
    while True:
        users = [use.owner.operation for use in result.uses]
        if len(users) != 1 or users[0].name != "arith.select" or users[0].operands[2] != result:
            return None
        (choice,) = users
        asking = made_by(choice.operands[0], "arith.cmpf")
        if asking is None or asking.operands[0] != clamped:
            return None
        chain.append(choice)
        result = choice.results[0]
        kind = ir.IntegerAttr(asking.attributes["predicate"]).value
        if kind == arith.CmpFPredicate.UNO and asking.operands[1] == clamped:
            return chain if constant_of(choice.operands[1]) == 0 else None
        limit = constant_of(asking.operands[1])
        too_small = kind == arith.CmpFPredicate.OLT and limit is not None and limit <= low
        too_large = kind == arith.CmpFPredicate.OGE and limit is not None and limit > high
        if not too_small and not too_large:
            return None
