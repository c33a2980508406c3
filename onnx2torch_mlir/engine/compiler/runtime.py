"""The routines that every object file carries: memory from the system, failed assertions, and the entry.

A *context* is one call's private block of memory, zeroed by the caller once and then used by one call at a time; layout.py
lays it out. What becomes of memory during a call is told in call_memory.py.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import call_memory, open_arena
from onnx2torch_mlir.engine.compiler.call_memory import HUGE_PAGE
from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.layout import ENTRY, ERROR, JMP_BUF_OFFSET, MOST_LENT, SERIAL, START

DECLARATIONS = """
  llvm.func @_setjmp(!llvm.ptr) -> i32 attributes {passthrough = ["returns_twice"]}
  llvm.func @longjmp(!llvm.ptr, i32) attributes {passthrough = ["noreturn"]}
  llvm.func @malloc(i64) -> !llvm.ptr
  llvm.func @free(!llvm.ptr)
"""

_HUGE_PAGES = 14
"""Of Linux: the advice MADV_HUGEPAGE of madvise(2), which is only a hint."""


def fresh_memory(host: str) -> str:
    """Text of ``ptr o2m_fresh(i64)``, malloc for the system of ``host`` (`objects.host`): what is large lies in huge pages.

    With small ones the processor looks up a page more often than it computes, and it is by luck which of a large buffer's
    pages share a place of the second-level cache.
    """
    if "linux" not in host.split()[0]:
        return """
  func.func private @o2m_fresh(%size: i64) -> !llvm.ptr {
    %raw = llvm.call @malloc(%size) : (i64) -> !llvm.ptr
    return %raw : !llvm.ptr
  }"""
    return f"""
  llvm.func @aligned_alloc(i64, i64) -> !llvm.ptr
  llvm.func @madvise(!llvm.ptr, i64, i32) -> i32
  func.func private @o2m_fresh(%size: i64) -> !llvm.ptr {{
    %huge = arith.constant {HUGE_PAGE} : i64
    %is_large = arith.cmpi uge, %size, %huge : i64
    %raw = scf.if %is_large -> !llvm.ptr {{
      %below = arith.constant {HUGE_PAGE - 1} : i64
      %mask = arith.constant {-HUGE_PAGE} : i64
      %past = arith.addi %size, %below : i64
      %padded = arith.andi %past, %mask : i64
      %found = llvm.call @aligned_alloc(%huge, %padded) : (i64, i64) -> !llvm.ptr
      %null = llvm.mlir.zero : !llvm.ptr
      %is_there = llvm.icmp "ne" %found, %null : !llvm.ptr
      scf.if %is_there {{
        %advice = arith.constant {_HUGE_PAGES} : i32
        %whole = arith.andi %size, %mask : i64
        %told = llvm.call @madvise(%found, %whole, %advice) : (!llvm.ptr, i64, i32) -> i32
      }}
      scf.yield %found : !llvm.ptr
    }} else {{
      %plain = llvm.call @malloc(%size) : (i64) -> !llvm.ptr
      scf.yield %plain : !llvm.ptr
    }}
    return %raw : !llvm.ptr
  }}"""


_FAIL = f"""
  func.func private @o2m_fail(%ctx: !llvm.ptr, %index: i64) {{
    {word_at("slot", "%ctx", ERROR)}
    llvm.store %index, %slot : i64, !llvm.ptr
    %one = llvm.mlir.constant(1 : i32) : i32
    {word_at("buffer", "%ctx", JMP_BUF_OFFSET // 8)}
    llvm.call @longjmp(%buffer, %one) : (!llvm.ptr, i32) -> ()
    return
  }}
"""

FUNCTIONS = _FAIL + call_memory.FUNCTIONS + open_arena.FUNCTIONS
"""Text of the routines, to be put into a module before its conversion to the LLVM dialect; `fresh_memory` besides."""


def entry(words: int, result_words: list[int]) -> str:
    """Text of ``i32 o2m_entry(context, packed)`` in the LLVM dialect.

    ``packed`` points to the ``words`` of the arguments (arrays.arguments), then a pointer to where the results'
    descriptors go one after the other (``result_words`` words each), then a pointer to one word per result that says
    whether the result's memory is the caller's to free. The context may have blocks that are lent (layout.LENT). Returns 0,
    or 1 after a failure.
    """
    operands = [*(["%results"] if result_words else []), "%ctx", "%packed"]
    types = ", ".join(["!llvm.ptr"] * len(operands))
    lines = [
        f"%lent = llvm.mlir.constant({min(len(result_words), MOST_LENT)} : i64) : i64",
        "llvm.call @o2m_lent(%ctx, %lent) : (!llvm.ptr, i64) -> ()",
        word_at("resultsp", "%packed", words),
        word_at("flagsp", "%packed", words + 1),
        "%results = llvm.load %resultsp : !llvm.ptr -> !llvm.ptr",
        "%flags = llvm.load %flagsp : !llvm.ptr -> !llvm.ptr",
        f"llvm.call @_mlir_ciface_main({', '.join(operands)}) : ({types}) -> ()",
    ]
    offset = 0
    for number, count in enumerate(result_words):
        lines += [
            word_at(f"r{number}", "%results", offset),
            f"%b{number} = llvm.load %r{number} : !llvm.ptr -> i64",
            f"%c{number} = llvm.call @o2m_claim(%ctx, %b{number}) : (!llvm.ptr, i64) -> i64",
            word_at(f"f{number}", "%flags", number),
            f"llvm.store %c{number}, %f{number} : i64, !llvm.ptr",
        ]
        offset += count
    body = "\n    ".join(lines)
    # The declarations make the text stand by itself; the module it is merged into has the functions.
    return f"""
  llvm.func @_setjmp(!llvm.ptr) -> i32
  llvm.func @_mlir_ciface_main({types})
  llvm.func @o2m_claim(!llvm.ptr, i64) -> i64
  llvm.func @o2m_lent(!llvm.ptr, i64)
  llvm.func @o2m_end(!llvm.ptr)
  llvm.func @{ENTRY}(%ctx: !llvm.ptr, %packed: !llvm.ptr) -> i32 {{
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    {word_at("serialp", "%ctx", SERIAL)}
    %serial = llvm.load %serialp : !llvm.ptr -> i64
    {word_at("startp", "%ctx", START)}
    llvm.store %serial, %startp : i64, !llvm.ptr
    {word_at("buffer", "%ctx", JMP_BUF_OFFSET // 8)}
    %back = llvm.call @_setjmp(%buffer) : (!llvm.ptr) -> i32
    %failed = llvm.icmp "ne" %back, %zero : i32
    llvm.cond_br %failed, ^fail, ^run
  ^run:
    {body}
    llvm.call @o2m_end(%ctx) : (!llvm.ptr) -> ()
    llvm.return %zero : i32
  ^fail:
    llvm.call @o2m_end(%ctx) : (!llvm.ptr) -> ()
    llvm.return %one : i32
  }}
"""
