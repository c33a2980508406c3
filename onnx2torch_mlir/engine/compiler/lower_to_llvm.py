"""The last steps on LLVM-dialect functions: attributes that the conversion drops, memory routines, the entry."""

from __future__ import annotations

from collections.abc import Collection

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler import runtime
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import append, functions, made_by, symbol
from onnx2torch_mlir.engine.layout import CALLED

_NOINLINE_PREFIXES = ("o2m_",)
_COPYING = ("memcpy", "memmove")
"""What LLVM would make of loops that copy. The C library copies some sizes by an instruction that on Zen 4 takes 16 times as
long where what is written lies a few bytes behind what is read, but for whole pages (its bug 30994); vectors never do."""
_TILES = "o2m_tile_f32_"
_ROWS_BESIDE_FRAME = 11
"""Of the 16 registers for pointers a tile has that of its columns, how far behind them the next panel is, the step, the stack's
and the frame's; the others are its rows'."""
_STACK_BYTES = 16
"""What a function may count on of its stack: at multiples of that its frame begins."""


def mark_internal(module: ir.Module) -> None:
    """Give functions with a body internal linkage but for those that are called from outside, and @main its C interface; before
    the conversion."""
    for function in functions(module):
        if function.name == "func.func" and symbol(function) not in CALLED:
            function.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
            if symbol(function) == "main":
                function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def finish(
    module: ir.Module,
    noalias: dict[str, list[int]],
    scalar: Collection[str],
    words: int,
    result_words: list[int],
    *,
    with_arena: bool,
) -> None:
    """Make an LLVM-dialect module ready for code generation; ``with_arena``, buffers of open sizes are parts of one block.

    ``noalias`` lists, for each function, the pointers whose memory no other argument reaches; ``scalar`` are the functions
    that LLVM is to leave without vectors; ``words`` and ``result_words`` describe @main as `runtime.entry` takes them.
    """
    give_hints(module, scalar)
    for function in functions(module):
        name = symbol(function)
        if name in noalias:
            count = len(function.regions[0].blocks[0].arguments)
            attributes = [ir.DictAttr.get({})] * count
            for position in noalias[name]:
                attributes[position] = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        if name == "main":
            _use_own_memory(function, with_arena=with_arena)
    append(module, runtime.entry(words, result_words))


def give_hints(module: ir.Module, scalar: Collection[str] = ()) -> None:
    """Say of each function how wide its vectors are to be, whether it stays by itself, and, of ``scalar``, that it has none;
    loops that copy stay loops (`_COPYING`).

    Vectors that registers have no room for lie at multiples of their size: else the stack's place, which differs from process
    to process, would decide which of them lie across two lines, or two pages (RegNet's windows took up to 1.4 times as long).
    That takes a register, which tiles of many rows need for a row: else all of their steps load pointers (2 to 5 % of a product
    on Cascade Lake), while they have vectors on the stack only where they finish sums.
    """
    vector_bytes = 4 * of_host().lanes
    for function in functions(module):
        name = symbol(function)
        hints: list[ir.Attribute] = [_text("prefer-vector-width", str(8 * vector_bytes))]
        if name.startswith(_TILES) and of_host().rows > _ROWS_BESIDE_FRAME:
            hints.append(ir.StringAttr.get("no-realign-stack"))
        elif vector_bytes > _STACK_BYTES:
            hints += [ir.StringAttr.get("stackrealign"), _text("alignstack", str(vector_bytes))]
        if name.startswith(_NOINLINE_PREFIXES):
            hints.append(ir.StringAttr.get("noinline"))
        if name in scalar:
            # Of LLVM's attributes the one that its vectorizers heed; floats that are there stay.
            hints.append(ir.StringAttr.get("noimplicitfloat"))
        else:
            hints += [ir.StringAttr.get(f"no-builtin-{name}") for name in _COPYING]
        function.attributes["passthrough"] = ir.ArrayAttr.get(hints)


def _text(name: str, value: str) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(name), ir.StringAttr.get(value)])


def _use_own_memory(main: ir.Operation, *, with_arena: bool) -> None:
    """Memory of @main comes from its context: what it frees itself, of a size that the run tells, from open_arena.py."""
    context = main.regions[0].blocks[0].arguments[0]
    calls = [operation.operation for block in main.regions[0].blocks for operation in block.operations]
    freed = [call for call in calls if _callee(call) == "free"]
    for call in [call for call in calls if _callee(call) == "malloc"]:
        ends = [use.owner.operation for use in call.results[0].uses if _callee(use.owner.operation) == "free"]
        is_open = with_arena and bool(ends) and _is_open(call.operands[0])
        for end in ends:
            freed.remove(end)
            _redirect(end, "o2m_give_back" if is_open else "o2m_free", context)
        _redirect(call, "o2m_borrow" if is_open else "o2m_alloc", context)
    for call in freed:
        _redirect(call, "o2m_free", context)


def _is_open(size: ir.Value) -> bool:
    """Whether a size, which is where an array would end that begins at 0, depends on values."""
    end = made_by(size, "llvm.ptrtoint")
    place = None if end is None else made_by(end.operands[0], "llvm.getelementptr")
    return place is not None and len(place.operands) > 1


def _callee(operation: ir.Operation) -> str | None:
    is_call = operation.name == "llvm.call" and "callee" in operation.attributes
    return ir.FlatSymbolRefAttr(operation.attributes["callee"]).value if is_call else None


def _redirect(call: ir.Operation, name: str, context: ir.Value) -> None:
    with ir.InsertionPoint(call), call.location:
        result = call.results[0].type if len(call.results) else None
        other = llvm.CallOp(
            result,
            [context, *call.operands],
            [],
            [],
            callee=ir.FlatSymbolRefAttr.get(name),
        )
    if result is not None:
        call.results[0].replace_all_uses_with(other.results[0])
    call.erase()
