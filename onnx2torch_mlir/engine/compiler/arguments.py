"""@main's arguments: the call's context, and one array of words with the inputs' and weights' pointers and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler.flatten import assemble
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, pointer, root_of, symbol
from onnx2torch_mlir.engine.layout import Packing

_BEHIND = 2
"""Words between those of the arguments and the packed weights: where results go, and what of it is given."""


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


@dataclass
class Weights:
    """The weights among the words of @main's arguments, as `pack` left them; those that are packed have words of their own.

    ``numbers`` are those of the weights by the positions of their pointers, ``count`` that of the arguments' words; ``codes``
    tells of those that are computed from others and may stay codes what these are: "integers", or a type of floats.
    """

    context: ir.Value
    words: ir.Value
    count: int
    numbers: dict[int, int]
    codes: dict[int, str]
    packings: list[Packing] = field(default_factory=list)
    """What is to be packed before the first call, in the order of the words."""

    def packed(self, packing: Packing) -> ir.Value:
        """A pointer to a weight that is packed before the first call, at the insertion point."""
        self.packings.append(packing)
        return load_word(self.words, self.count + _BEHIND + len(self.packings) - 1, pointer())

    def number_of(self, value: ir.Value) -> int | None:
        """The number of the weight that ``value`` is a view of."""
        cast = made_by(root_of(value), "builtin.unrealized_conversion_cast")
        if cast is None:
            return None
        described = cast.operands[0]
        while (insertion := made_by(described, "llvm.insertvalue")) is not None:
            loaded = made_by(insertion.operands[1], "llvm.load")
            if loaded is not None and loaded.results[0].type == pointer():
                return self._at(loaded.operands[0])
            described = insertion.operands[0]
        return None

    def _at(self, place: ir.Value) -> int | None:
        if place == self.words:
            return self.numbers.get(0)
        gep = made_by(place, "llvm.getelementptr")
        if gep is None or gep.operands[0] != self.words or len(gep.operands) != 1:
            return None
        (position,) = ir.DenseI32ArrayAttr(gep.attributes["rawConstantIndices"])
        return self.numbers.get(position)


def weights_of(module: ir.Module, places: list[int], inputs: int, codes: Sequence[str]) -> Weights:
    """The weights of @main, whose arguments after ``inputs`` they are, the last ones computed from others, each of which may
    stay ``codes``, if these are not "".

    ``places`` are what `pack` gave.
    """
    main = next(function for function in functions(module) if symbol(function) == "main")
    context, words = main.regions[0].blocks[0].arguments
    numbers = {place: number for number, place in enumerate(places[inputs:-1])}
    coded = {number: kind for number, kind in enumerate(codes, len(numbers) - len(codes)) if kind}
    return Weights(context, words, places[-1], numbers, coded)


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
