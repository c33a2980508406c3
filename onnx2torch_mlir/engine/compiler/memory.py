"""Who frees a buffer, and when.

Two rules cover every program. A buffer whose aliases all stay inside the block that makes it is freed after the last
operation of that block that touches one of them. Buffers that escape to a loop's next turn are settled at run time:
when a turn ends, everything made since the loop began that is not passed on is freed, because nothing else can reach
it. What is left at the end of the call and is not a result, the entry frees (runtime.py).
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import func, memref

from onnx2torch_mlir.engine.compiler.walks import ancestor_in, block_of, functions, is_memref, nested, word_of

_LOOPS = ("scf.for", "scf.while")
_YIELDS = ("scf.yield", "scf.condition")


def free_buffers(module: ir.Module, context: ir.Value) -> None:
    """Insert ``memref.dealloc`` and the releases of loops; the module holds @main alone, on memrefs."""
    (main,) = functions(module)
    for operation in nested(main):
        if operation.name == "memref.alloc":
            _free_after_last_use(operation)
    for operation in nested(main):
        if operation.name in _LOOPS and any(is_memref(result.type) for result in operation.results):
            _release_each_turn(operation, context)


def _free_after_last_use(alloc: ir.Operation) -> None:
    block = block_of(alloc)
    pending: list[ir.Value] = [alloc.result]
    seen = {alloc.result}
    last = alloc

    def alias(values: object) -> None:
        for value in values:  # type: ignore[attr-defined]
            if is_memref(value.type) and value not in seen:
                seen.add(value)
                pending.append(value)

    while pending:
        for use in pending.pop().uses:
            user = use.owner.operation
            if user.name in ("func.return", *_YIELDS):
                if user.block == block:
                    return
                owner = user.parent.operation
                alias(owner.results)
                _alias_arguments(owner, alias)
            else:
                alias(user.results)
                if user.name.startswith("scf."):
                    _alias_arguments(user, alias)
            top = ancestor_in(block, user)
            if top is None:
                return
            if last.is_before_in_block(top):
                last = top
    with ir.InsertionPoint.after(last), alloc.location:
        memref.DeallocOp(alloc.result)


def _alias_arguments(operation: ir.Operation, alias: object) -> None:
    for region in operation.regions:
        for block in region.blocks:
            alias(block.arguments)  # type: ignore[operator]


def _release_each_turn(loop: ir.Operation, context: ir.Value) -> None:
    number = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(loop), loop.location:
        mark = func.CallOp([number], ir.FlatSymbolRefAttr.get("o2m_mark"), [context]).results[0]
    for region in loop.regions:
        end = list(region.blocks[0].operations)[-1].operation
        with ir.InsertionPoint(end), loop.location:
            for value in end.operands:
                if is_memref(value.type):
                    address = word_of(memref.ExtractAlignedPointerAsIndexOp(value).result)
                    func.CallOp([], ir.FlatSymbolRefAttr.get("o2m_keep"), [context, mark, address])
            func.CallOp([], ir.FlatSymbolRefAttr.get("o2m_release"), [context, mark])
