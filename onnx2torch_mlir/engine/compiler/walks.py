"""Small helpers over the MLIR bindings that several steps need."""

from __future__ import annotations

from collections.abc import Container

from torch_mlir import ir
from torch_mlir.dialects import arith, llvm

from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES

FIRST_INDEX = {"memref.load": 1, "memref.store": 2}
"""Which operand of an access to a buffer is its first index; the buffer is the one before."""
_VIEWS = (
    "memref.subview",
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.transpose",
    "memref.reshape",
)


def nested(operation: ir.Operation) -> list[ir.Operation]:
    """All operations inside ``operation`` as they are now, each after what is inside of it."""
    found: list[ir.Operation] = []

    add, on = found.append, ir.WalkResult.ADVANCE
    # Called for each of ten thousands of operations: `add` returns None.
    operation.walk(lambda inner: add(inner) or on, ir.WalkOrder.POST_ORDER)
    return found[:-1]


def named(operation: ir.Operation, *names: str) -> list[ir.Operation]:
    """The operations of these names inside ``operation``, as they are now, in their order; not those inside of them."""
    found: list[ir.Operation] = []

    on, past = ir.WalkResult.ADVANCE, ir.WalkResult.SKIP

    def see(inner: ir.Operation) -> ir.WalkResult:
        if inner.name not in names or inner == operation:
            return on
        found.append(inner)
        return past

    operation.walk(see, ir.WalkOrder.PRE_ORDER)
    return found


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions of the module that have a body, of either dialect."""
    return [
        op.operation
        for op in module.body.operations
        if op.operation.name in ("func.func", "llvm.func") and len(op.operation.regions[0].blocks)
    ]


def loops_of(module: ir.Module, names: Container[str]) -> list[ir.Operation]:
    """The ``scf.for`` loops of the functions of these names, inner ones first."""
    bodies = (nested(function) for function in functions(module) if symbol(function) in names)
    return [operation for body in bodies for operation in body if operation.name == "scf.for"]


def append(module: ir.Module, text: str) -> None:
    """Put the functions of ``text`` at the end of the module, but for those that it has: text may declare what it calls."""
    fragment = ir.Module.parse("module {" + text + "}", context=module.context)
    known = symbols(module)
    for view in list(fragment.body.operations):
        if symbol(view.operation) not in known:
            view.operation.detach_from_parent()
            module.body.append(view)


def declare(function: ir.Operation, module: ir.Module) -> None:
    """Put a declaration of the function, of either dialect, into the module: what it does to its callers stays known."""
    attributes = {name: function.attributes[name] for name in ("sym_name", "function_type")}
    if function.name == "func.func":
        attributes["sym_visibility"] = ir.StringAttr.get("private")
    else:
        attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
        if not len(function.regions[0].blocks) and "passthrough" in function.attributes:
            attributes["passthrough"] = function.attributes["passthrough"]
    with ir.InsertionPoint(module.body):
        ir.Operation.create(function.name, attributes=attributes, regions=1)


def symbols(module: ir.Module) -> set[str]:
    """All that the module defines or declares."""
    return {symbol(view.operation) for view in module.body.operations if "sym_name" in view.operation.attributes}


def symbol(operation: ir.Operation) -> str:
    """The symbol that the operation defines."""
    return str(ir.StringAttr(operation.attributes["sym_name"]).value)


def made_by(value: ir.Value, *names: str) -> ir.Operation | None:
    """The operation that makes the value, if it is one of ``names`` (any, where none is given); None for block arguments."""
    if isinstance(value.owner, ir.Block):
        return None
    operation: ir.Operation = value.owner.operation
    return operation if not names or operation.name in names else None


def constant_of(value: ir.Value) -> int | float | None:
    """The number of a scalar constant."""
    made = made_by(value, "arith.constant")
    attribute = None if made is None else made.attributes["value"]
    return attribute.value if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr) else None


def block_of(operation: ir.Operation) -> ir.Block:
    """The block that holds the operation."""
    block: ir.Block = operation.block
    return block


def function_around(operation: ir.Operation) -> ir.Operation:
    """The function of the func dialect that the operation is in."""
    while operation.name != "func.func":
        operation = operation.parent.operation
    return operation


def ancestor_in(block: ir.Block, operation: ir.Operation) -> ir.Operation | None:
    """The operation of ``block`` that is or contains ``operation``."""
    current: ir.Operation | None = operation
    while current is not None and current.name != "builtin.module":
        if current.block == block:
            return current
        current = current.parent.operation if current.parent is not None else None
    return None


def is_memref(type_: ir.Type) -> bool:
    """Whether a value of the type points to memory."""
    return isinstance(type_, ir.MemRefType | ir.UnrankedMemRefType)


def root_of(value: ir.Value) -> ir.Value:
    """The memref of which ``value`` is a view."""
    while (view := made_by(value, *_VIEWS)) is not None:
        value = view.operands[0]
    return value


def writers_of(value: ir.Value) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The ``linalg.generic`` that write the memory that a memref is a view of, and what else may, or may let others do so."""
    writers, others, pending = list[ir.Operation](), list[ir.Operation](), [root_of(value)]
    while pending:
        for use in pending.pop().uses:
            user = use.owner.operation
            if user.name in _VIEWS:
                pending.extend(user.results)
            elif user.name == "linalg.generic":
                if use.operand_number == len(user.operands) - 1:
                    writers.append(user)
            elif user.name not in ("memref.load", "memref.dealloc"):
                others.append(user)
    return writers, others


def users(block: ir.Block, root: ir.Value) -> list[ir.Operation]:
    """The operations of ``block`` that use ``root`` or a view of it, or in which one does; views are not counted."""
    found: dict[ir.Operation, None] = {}
    pending = [root]
    while pending:
        for use in pending.pop().uses:
            user = use.owner.operation
            if user.name in _VIEWS:
                pending.extend(user.results)
                continue
            around = ancestor_in(block, user)
            if around is not None:
                found[around] = None
    return list(found)


def touches_memory(generic: ir.Operation) -> bool:
    """Whether the body of a ``linalg.generic`` reads or writes memory besides its operands, as a gather does, or calls."""
    return any(
        operation.name == "func.call" or any(is_memref(operand.type) for operand in operation.operands)
        for operation in nested(generic)
    )


def copied(operation: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A copy at the insertion point that uses what the ``mapping`` gives, which then gives its results."""
    copy: ir.Operation = operation.clone().operation
    for inside in (copy, *nested(copy)):
        for number, operand in enumerate(inside.operands):
            if operand in mapping:
                inside.operands[number] = mapping[operand]
    mapping.update(zip(operation.results, copy.results, strict=True))
    return copy


def erase_unused(operation: ir.Operation) -> None:
    """Erase arithmetic of which nobody uses the result, and what it alone used."""
    pending = [operation] if is_unused(operation) else []
    while pending:
        one = pending.pop()
        makers = dict.fromkeys(made_by(value) for value in one.operands)
        one.erase()
        # Each becomes unused once, when the last that used it goes.
        pending += [maker for maker in makers if maker is not None and is_unused(maker)]


def is_unused(operation: ir.Operation) -> bool:
    """Whether it is arithmetic of which nobody uses the result."""
    return operation.name.startswith("arith.") and not any(list(result.uses) for result in operation.results)


def pointer() -> ir.Type:
    """``!llvm.ptr``."""
    return ir.Type.parse("!llvm.ptr")


def word() -> ir.Type:
    """``i64``."""
    return ir.IntegerType.get_signless(64)


def word_of(index: ir.Value) -> ir.Value:
    """An index as a word, at the insertion point."""
    value: ir.Value = arith.IndexCastOp(word(), index).result
    return value


def index_of(word_: ir.Value) -> ir.Value:
    """A word as an index, at the insertion point."""
    value: ir.Value = arith.IndexCastOp(ir.IndexType.get(), word_).result
    return value


def bytes_on(place: ir.Value, far: ir.Value | int) -> ir.Value:
    """The pointer so many bytes behind ``place``, at the insertion point."""
    known = isinstance(far, int)
    indices = ir.DenseI32ArrayAttr.get([far if known else -(2**31)])
    byte = ir.TypeAttr.get(ir.IntegerType.get_signless(8))
    flags = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
    moved: ir.Value = llvm.GEPOp(pointer(), place, [] if known else [far], indices, byte, flags).result
    return moved


def ask_for(place: ir.Value, size: int, *, writing: bool = False) -> None:
    """Ask for the lines of so many bytes from a pointer on, to any memory; at the insertion point."""
    flags = {"rw": int(writing), "hint": 3, "cache": 1}
    attributes = {name: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value) for name, value in flags.items()}
    for far in range(0, size, LINE_BYTES):
        ir.Operation.create("llvm.intr.prefetch", operands=[bytes_on(place, far)], attributes=attributes)


def i64(value: int) -> ir.IntegerAttr:
    """A number of type i64."""
    return ir.IntegerAttr.get(word(), value)
