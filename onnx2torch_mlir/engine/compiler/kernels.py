"""Each loop nest becomes a private function of its own, and equal ones become the same function.

One function with every loop of a network costs LLVM minutes; a network has few different loop nests. A function of its own
also carries what alias analysis found: a nest that writes a buffer nobody else can reach says so (``noalias``), which is what
lets LLVM keep accumulators in registers and vectorise without checks.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import func, linalg

from onnx2torch_mlir.engine.compiler.flatten import assemble, part_types, parts, without_offset
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, best_order, interchange, iterators
from onnx2torch_mlir.engine.compiler.walks import functions, is_memref, nested, symbol

_VIEWS = (
    "memref.subview",
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.transpose",
    "memref.reshape",
)
_PREFIX = "o2m_kernel_"


def outline(module: ir.Module) -> dict[str, list[int]]:
    """Move every ``linalg.generic`` of @main into a function.

    Returns for each function the positions of its pointers whose memory no other argument reaches. The generics are brought into
    their best loop order on the way.
    """
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    kernels: dict[str, str] = {}
    exclusive: dict[str, list[int]] = {}
    for operation in list(nested(main)):
        if operation.name == "memref.copy" and not all(_is_dense(operand.type) for operand in operation.operands):
            operation = _copy_as_generic(operation)
        if operation.name == "linalg.generic":
            interchange(operation, best_order(operation))
            _relax(operation)
            _outline_one(module, operation, kernels, exclusive)
    return exclusive


def _is_dense(type_: ir.Type) -> bool:
    return isinstance(type_, ir.MemRefType) and not isinstance(type_.layout, ir.StridedLayoutAttr)


def _copy_as_generic(copy: ir.Operation) -> ir.Operation:
    rank = ir.MemRefType(copy.operands[0].type).rank
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    with ir.InsertionPoint(copy), copy.location:
        generic = linalg.GenericOp(
            [], [copy.operands[0]], [copy.operands[1]], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * rank)
        )
        element = ir.MemRefType(copy.operands[0].type).element_type
        block = generic.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            linalg.YieldOp([block.arguments[0]])
    copy.erase()
    operation: ir.Operation = generic.operation
    return operation


def _relax(generic: ir.Operation) -> None:
    """Let sums be taken in any order and with fused multiply-adds, as every BLAS does; nothing else."""
    if not any(iterators(generic)):
        return
    for operation in accumulations(generic):
        if operation.name != "arith.addf":
            continue
        operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc,contract>")
        for operand in operation.operands:
            owner = operand.owner
            if not isinstance(owner, ir.Block) and owner.operation.name == "arith.mulf":
                owner.operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<contract>")


def _outline_one(
    module: ir.Module, generic: ir.Operation, kernels: dict[str, str], exclusive: dict[str, list[int]]
) -> None:
    captured = _captured(generic)
    constants = [value for value in captured if _is_constant(value)]
    passed = list(dict.fromkeys([*generic.operands, *(value for value in captured if value not in constants)]))
    alone = _alone(generic, passed)
    types = [without_offset(ir.MemRefType(v.type)) if is_memref(v.type) else v.type for v in passed]
    flat = [part_types(type_) if is_memref(type_) else [type_] for type_ in types]
    with ir.Location.unknown():
        kernel = func.FuncOp("kernel", (sum(flat, []), []), visibility="private", ip=ir.InsertionPoint(module.body))
        block = kernel.add_entry_block()
        arguments = iter(block.arguments)
        with ir.InsertionPoint(block):
            mapping: dict[ir.Value, ir.Value] = {}
            for value, type_, pieces in zip(passed, types, flat, strict=True):
                taken = [next(arguments) for _ in pieces]
                mapping[value] = assemble(ir.MemRefType(type_), taken) if is_memref(type_) else taken[0]
            for value in constants:
                mapping[value] = value.owner.operation.clone().results[0]
            body = generic.clone()
            for operation in (body.operation, *nested(body.operation)):
                for position, operand in enumerate(operation.operands):
                    if operand in mapping:
                        operation.operands[position] = mapping[operand]
            func.ReturnOp([])
    starts = [sum(map(len, flat[:position])) for position in alone]
    key = f"{starts}{kernel.operation.get_asm(use_local_scope=True)}"
    name = kernels.get(key)
    if name is None:
        name = f"{_PREFIX}{len(kernels)}"
        kernels[key] = name
        exclusive[name] = starts
        kernel.attributes["sym_name"] = ir.StringAttr.get(name)
    else:
        kernel.operation.erase()
    with ir.InsertionPoint(generic), generic.location:
        operands = [piece for value in passed for piece in (parts(value) if is_memref(value.type) else [value])]
        func.CallOp([], ir.FlatSymbolRefAttr.get(name), operands)
    generic.erase()


def _captured(generic: ir.Operation) -> list[ir.Value]:
    """Values that the body uses and that neither the body nor the operands define."""
    inside: set[ir.Value] = set()
    found: dict[ir.Value, None] = {}
    for operation in (generic, *nested(generic)):
        inside.update(operation.results)
        for region in operation.regions:
            for block in region.blocks:
                inside.update(block.arguments)
    for operation in nested(generic):
        for operand in operation.operands:
            if operand not in inside:
                found[operand] = None
    return list(found)


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation.name == "arith.constant"


def _root(value: ir.Value) -> ir.Value:
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in _VIEWS:
        value = value.owner.operation.operands[0]
    return value


def _alone(generic: ir.Operation, passed: list[ir.Value]) -> list[int]:
    """Positions of memref arguments that share no memory with another one, as far as the program text proves it."""
    roots = [_root(value) if is_memref(value.type) else None for value in passed]
    found = []
    for position, root in enumerate(roots):
        others = [other for place, other in enumerate(roots) if place != position and other is not None]
        if root is not None and all(_distinct(root, other) for other in others):
            found.append(position)
    return found


def _distinct(one: ir.Value, other: ir.Value) -> bool:
    if one == other:
        return False
    fresh_one, fresh_other = _is_fresh(one), _is_fresh(other)
    if fresh_one and fresh_other:
        return True
    # A buffer made in the function never is an argument of it or a constant; a loop's or branch's result may be anything.
    return (fresh_one and _is_outside(other)) or (fresh_other and _is_outside(one))


def _is_fresh(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "memref.alloc"


def _is_outside(value: ir.Value) -> bool:
    owner = value.owner
    # Arguments of @main come as pointers and are assembled by a cast.
    return not isinstance(owner, ir.Block) and owner.operation.name in (
        "memref.get_global",
        "builtin.unrealized_conversion_cast",
    )
