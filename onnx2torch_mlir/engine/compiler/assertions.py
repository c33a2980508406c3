"""A failed ``cf.assert`` ends the call, not the process: it jumps back to the entry with its number."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf

from onnx2torch_mlir.engine.compiler.walks import functions, i64, nested


def replace_assertions(module: ir.Module, context: ir.Value) -> list[str]:
    """Replace each ``cf.assert`` by a call of the failure routine; returns the messages by number."""
    messages: list[str] = []
    (main,) = functions(module)
    for operation in nested(main):
        if operation.name != "cf.assert":
            continue
        with ir.InsertionPoint(operation), operation.location:
            yes = arith.ConstantOp(
                ir.IntegerType.get_signless(1), ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 1)
            )
            failed = arith.XOrIOp(operation.operands[0], yes.result)
            branch = scf.IfOp(failed.result)
            with ir.InsertionPoint(branch.then_block):
                number = arith.ConstantOp(ir.IntegerType.get_signless(64), i64(len(messages)))
                func.CallOp([], ir.FlatSymbolRefAttr.get("o2m_fail"), [context, number.result])
                scf.YieldOp([])
        messages.append(str(ir.StringAttr(operation.attributes["msg"]).value))
        operation.erase()
    return messages
