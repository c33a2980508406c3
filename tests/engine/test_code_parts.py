"""Modules are compiled in parts: what each has, and that the parts find each other when they are loaded."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch_mlir import ir

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import code_parts, elf_objects, object_code, passes
from onnx2torch_mlir.engine.compiler.walks import append, functions, symbol
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from tests.engine import programs
from tests.engine.made_here import engine_of, entry_of

f32 = torch.float32

MODULE = """
llvm.func @outside(i64) -> i64
llvm.mlir.global internal constant @table(dense<[3, 1]> : tensor<2xi64>) : !llvm.array<2 x i64>
llvm.func internal @o2m_first(%x: i64) -> i64 {
  %y = llvm.call @o2m_second(%x) : (i64) -> i64
  %z = llvm.call @outside(%y) : (i64) -> i64
  llvm.return %z : i64
}
llvm.func internal @o2m_second(%x: i64) -> i64 {
  %y = llvm.add %x, %x : i64
  llvm.return %y : i64
}
llvm.func internal @o2m_reads() -> i64 {
  %a = llvm.mlir.addressof @table : !llvm.ptr
  %y = llvm.load %a : !llvm.ptr -> i64
  llvm.return %y : i64
}
llvm.func internal @inlined(%x: i64) -> i64 { llvm.return %x : i64 }
llvm.func @o2m_offered(%x: i64) -> i64 { llvm.return %x : i64 }
llvm.func @entry(%x: i64) -> i64 {
  %r = llvm.call @o2m_reads() : () -> i64
  %i = llvm.call @inlined(%r) : (i64) -> i64
  %y = llvm.call @o2m_first(%i) : (i64) -> i64
  llvm.return %y : i64
}
"""


def generated(text):
    with ir.Context(), ir.Location.unknown(), WrittenCode(3) as written:
        return object_code.generate(ir.Module.parse(text), "entry", written)


def linked(compiler, code, folder):
    """A library of the object and of ``outside``, which adds 1."""
    (folder / "module.o").write_bytes(code)
    (folder / "outside.c").write_text("long outside(long x) { return x + 1; }")
    library = folder / "library.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "outside.c", folder / "module.o"], check=True)
    loaded = ctypes.CDLL(str(library))
    for function in (loaded.entry, getattr(loaded, "offered", loaded.entry)):
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64]
    return loaded


def seen_from_outside(code):
    return {name for name, position, section in objects._symbols(code) if section and code[position + 4] >> 4}


def bodies(module):
    """The functions, by the names that others have for them."""
    return {symbol(function).removesuffix(".inside") for function in functions(module)}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_only_functions_that_nobody_inlines_move(count, monkeypatch):
    monkeypatch.setattr(code_parts, "_WORTH", 1)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(MODULE)
        parts = code_parts.split(module, count)
        assert len(parts) == min(count, 3) and all(part.module.operation.verify() for part in parts)
        every = [bodies(part.module) for part in parts]
        moved = set().union(*every[1:])
        assert moved <= {"o2m_first", "o2m_second"} and len(moved) == 2
        assert sorted(name for names in every for name in names) == sorted(bodies(ir.Module.parse(MODULE)))
        for part, names in zip(parts, every, strict=True):
            assert set(part.offered) <= names and not set(part.missing) & names
            assert set(part.missing) <= {name for other in parts for name in other.offered}


def test_small_modules_stay_whole():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(MODULE)
        assert [part.module for part in code_parts.split(module, 4)] == [module]
        assert bodies(module) == bodies(ir.Module.parse(MODULE))


def product(rows, inner, columns):
    left, right, out = (f"tensor<{a}x{b}xf32>" for a, b in ((rows, inner), (inner, columns), (rows, columns)))
    body = f"""
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {out}
  %f = linalg.fill ins(%zero : f32) outs(%e : {out}) -> {out}
  %r = linalg.matmul ins(%a0, %a1 : {left}, {right}) outs(%f : {out}) -> {out}
  return %r : {out}"""
    return programs.lowered(body, [(f32, (rows, inner)), (f32, (inner, columns))], [(f32, (rows, columns))])


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_parts_find_each_other(count, threads, monkeypatch):
    monkeypatch.setattr(code_parts, "_WORTH", 1)
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: count)
    program = product(67, 40, 83)
    entry = entry_of(program)
    code = engine_of(program, entry, threads=threads)
    random = np.random.default_rng(0)
    x, y = random.standard_normal((67, 40)).astype("f"), random.standard_normal((40, 83)).astype("f")
    np.testing.assert_allclose(code.run([x, y])[0], x @ y, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: 1)
    whole = entry_of(program)
    assert objects.undefined_symbols(entry["object"]) == objects.undefined_symbols(whole["object"])


def test_nothing_of_the_parts_is_seen_from_outside(monkeypatch):
    monkeypatch.setattr(code_parts, "_WORTH", 1)
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: 3)
    code = generated(MODULE)
    assert objects.undefined_symbols(code) == ["outside"]
    assert seen_from_outside(code) == {f"{wrapper}{name}" for name in ("entry", "o2m_offered") for wrapper in ("", "_mlir_")}


def test_what_two_objects_define_is_refused():
    code = generated("llvm.func @entry() { llvm.return }")
    with pytest.raises(ValueError, match="is defined twice"):
        elf_objects.joined([code, code], [])


def test_a_tool_reads_what_is_joined(tmp_path, monkeypatch):
    """Other loaders than ours take the object: a linker makes a library of it, which finds its parts and what is outside."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(code_parts, "_WORTH", 1)
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: 3)
    assert linked(compiler, generated(MODULE), tmp_path).entry(40) == 7


WRITTEN = """
func.func private @outside(i64) -> i64
func.func private @o2m_twice(%x: i64) -> i64 {
  %y = arith.addi %x, %x : i64
  return %y : i64
}
"""
OFFERED = """
func.func @offered(%x: i64) -> i64 {
  %y = func.call @o2m_twice(%x) : (i64) -> i64
  %z = func.call @outside(%y) : (i64) -> i64
  return %z : i64
}
"""
FOUR_TIMES = """
func.func private @o2m_four_times(%x: i64) -> i64 {
  %y = func.call @o2m_twice(%x) : (i64) -> i64
  %z = func.call @o2m_twice(%y) : (i64) -> i64
  return %z : i64
}
"""
CALLER = """
func.func private @o2m_twice(i64) -> i64
func.func private @o2m_four_times(i64) -> i64
func.func @entry(%x: i64) -> i64 {
  %y = func.call @o2m_four_times(%x) : (i64) -> i64
  %z = func.call @o2m_twice(%y) : (i64) -> i64
  return %z : i64
}
"""


@pytest.mark.parametrize("processors", [1, 2, 3])
def test_what_is_written_as_text_is_there_once(processors, tmp_path, monkeypatch):
    """Two texts have the same function, one of them offers another to the outside; compiled beside the module or in it."""
    monkeypatch.setattr(code_parts, "_WORTH", 1)
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: processors)
    with ir.Context(), ir.Location.unknown(), WrittenCode(3) as written:
        module = ir.Module.create()
        written.add(module, WRITTEN + OFFERED)
        written.add(module, WRITTEN + FOUR_TIMES)
        append(module, CALLER)
        for function in functions(module):
            if symbol(function).startswith("o2m_"):
                function.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        passes.run(module, "conversion", passes.LLVM, passes.Diagnostics())
        assert written.names == ({"o2m_twice", "o2m_four_times", "offered"} if processors > 1 else set())
        code = object_code.generate(module, "entry", written, seen=["offered"])
    assert objects.undefined_symbols(code) == ["outside"]
    # The execution engine adds a function for each that it finds to be seen, but for those that parts offer.
    added = {"_mlir_entry"} if processors > 1 else {"_mlir_entry", "_mlir_offered"}
    assert seen_from_outside(code) == {"entry", "offered", *added}
    compiler = shutil.which("cc")
    if compiler is not None:
        library = linked(compiler, code, tmp_path)
        assert (library.entry(3), library.offered(3)) == (24, 7)
