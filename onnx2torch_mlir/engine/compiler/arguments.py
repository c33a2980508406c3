"""@main's arguments: the call's context, and one array of words with the inputs' and weights' pointers and sizes."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler.flatten import assemble
from onnx2torch_mlir.engine.compiler.walks import functions, pointer, symbol


def pack(module: ir.Module) -> tuple[ir.Value, list[int]]:
    """Replace the arguments of @main, all memrefs, by a context and a pointer to words (see arrays.arguments).

    Returns the context, and the position of each argument's pointer among the words, then the number of words.
    """
    (main,) = functions(module)
    block = main.regions[0].blocks[0]
    given = list(block.arguments)
    _, words = (block.add_argument(pointer(), ir.Location.unknown()) for _ in range(2))
    signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    if "arg_attrs" in main.attributes:
        del main.attributes["arg_attrs"]
    positions = [0]
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        for argument in given:
            type_ = ir.MemRefType(argument.type)
            position = positions[-1]
            varying = [axis for axis in range(type_.rank) if type_.is_dynamic_dim(axis)]
            values = [load_word(words, position, pointer())]
            values += [load_word(words, position + 1 + axis, ir.IntegerType.get_signless(64)) for axis in varying]
            argument.replace_all_uses_with(assemble(type_, values))
            positions.append(position + 1 + type_.rank)
    for _ in given:
        block.erase_argument(0)
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([pointer()] * 2, signature.results))
    return block.arguments[0], positions


def words_read(module: ir.Module) -> set[int] | None:
    """The positions of the words that @main reads, in whichever dialect it is; None if that is not known."""
    main = next(function for function in functions(module) if symbol(function) == "main")
    found: set[int] = set()
    for use in list(main.regions[0].blocks[0].arguments)[-1].uses:
        user = use.owner.operation
        if user.name == "llvm.load":
            found.add(0)
        elif user.name == "llvm.getelementptr" and len(user.operands) == 1:
            found |= set(ir.DenseI32ArrayAttr(user.attributes["rawConstantIndices"])) if list(user.results[0].uses) else set()
        else:
            return None
    return found


def load_word(words: ir.Value, position: int, type_: ir.Type) -> ir.Value:
    """The word at ``position`` of the arguments' array, at the insertion point."""
    place = llvm.GEPOp(
        pointer(),
        words,
        [],
        ir.DenseI32ArrayAttr.get([position]),
        ir.TypeAttr.get(ir.IntegerType.get_signless(64)),
        ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0),
    ).result
    value: ir.Value = llvm.LoadOp(type_, place).result
    return value
