"""Vectors on the stack: whatever calls a function, they lie at multiples of their size."""

import pytest
from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import lower_to_llvm, object_code
from onnx2torch_mlir.engine.compiler.code_parts import Part
from onnx2torch_mlir.engine.compiler.vector_unit import of_host

MORE_THAN_REGISTERS = 36
REX_W, AND_8_BITS, TO_RSP = 0x48, 0x83, 0xE4


def spilling(lanes, name="o2m_many"):
    """A function that keeps more vectors than there are registers during a call."""
    type_ = f"vector<{lanes}xf32>"
    lines = ["llvm.func @o2m_other()", f"llvm.func @{name}(%a: !llvm.ptr) {{"]
    for i in range(MORE_THAN_REGISTERS):
        lines.append(f"%p{i} = llvm.getelementptr %a[{i * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32")
        lines.append(f"%v{i} = llvm.load %p{i} {{alignment = 4 : i64}} : !llvm.ptr -> {type_}")
    lines.append("llvm.call @o2m_other() : () -> ()")
    for i in range(MORE_THAN_REGISTERS):
        to = MORE_THAN_REGISTERS - 1 - i
        lines.append(f"llvm.store %v{i}, %p{to} {{alignment = 4 : i64}} : {type_}, !llvm.ptr")
    return "\n".join([*lines, "llvm.return", "}"])


@pytest.mark.skipif("x86_64" not in objects.host().split()[0], reason="the instructions looked for are those of x86-64")
@pytest.mark.parametrize("level", [1, 3])
def test_functions_align_their_own_stack(level):
    lanes = of_host().lanes
    aligning = bytes([REX_W, AND_8_BITS, TO_RSP, -4 * lanes & 0xFF])
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(spilling(lanes))
        given = object_code.compiled(Part(ir.Module.parse(spilling(lanes)), ["o2m_other"], ["o2m_many"]), level, "o2m_many")
        lower_to_llvm.give_hints(module)
        code = object_code.compiled(Part(module, ["o2m_other"], ["o2m_many"]), level, "o2m_many")
    assert aligning not in given, "LLVM does so by itself: the hint can go"
    assert (aligning in code) == (4 * lanes > lower_to_llvm._STACK_BYTES)


@pytest.mark.skipif("x86_64" not in objects.host().split()[0], reason="the instructions looked for are those of x86-64")
def test_tiles_of_many_rows_have_the_register_of_the_frame():
    lanes, name = of_host().lanes, "o2m_tile_f32_many"
    aligning = bytes([REX_W, AND_8_BITS, TO_RSP, -4 * lanes & 0xFF])
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(spilling(lanes, name))
        lower_to_llvm.give_hints(module)
        code = object_code.compiled(Part(module, ["o2m_other"], [name]), 3, name)
    few_rows = of_host().rows <= lower_to_llvm._ROWS_BESIDE_FRAME
    assert (aligning in code) == (few_rows and 4 * lanes > lower_to_llvm._STACK_BYTES)
