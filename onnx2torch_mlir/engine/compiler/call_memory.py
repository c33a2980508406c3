"""The routines for the memory of one call, in its context: blocks are made, freed, kept and found again.

Blocks of memory are 64-byte aligned and have a header before them, which layout.py lays out as it does the context.

Live blocks form a list from the newest to the oldest, so "all that were made since" is the head of the list. Freed
blocks are kept for reuse: fresh pages from the system cost more than most operators. Sizes are rounded up to a quarter of
the power of two below them (of which only what is used takes pages), so that a value which grows from turn to turn of a loop
finds its old blocks again. At the end of a call the blocks that the call did not use are given back; all are, if the next call
has a larger one for the buffers that had some of them (open_arena.py).
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.layout import (
    AGE,
    CAPACITY,
    FREE,
    HEAD,
    HEADER_BYTES,
    KEPT,
    LENT,
    NEXT,
    OUT_OF_MEMORY,
    PREVIOUS,
    RAW,
    SERIAL,
    START,
)

HUGE_PAGE = 2 << 20
"""Bytes of a huge page of Linux, and how many are asked for where memory lies in such pages (`runtime.fresh_memory`)."""
_FOR_A_HUGE_PAGE = 256 << 10
"""Bytes from which on a workspace has a huge page of its own, of which it uses but a part."""

SIGNATURES = """
  func.func private @o2m_alloc(!llvm.ptr, i64) -> !llvm.ptr
  func.func private @o2m_free(!llvm.ptr, !llvm.ptr)
"""
"""What text that calls these routines has to declare where it is parsed by itself."""


def workspace(name: str, size: str) -> list[str]:
    """``%name``: a block of ``size`` bytes that a call meets again and again, each time from its start to its end.

    In small pages it is by luck which of these share a place of the second-level cache, and of the table of pages (a product of
    512 by 512 by 512 that packs its columns: 2.2 or 2.9 ms on Cascade Lake).
    """
    return [
        f"%{name}_from = arith.constant {_FOR_A_HUGE_PAGE} : i64",
        f"%{name}_huge = arith.constant {HUGE_PAGE} : i64",
        f"%{name}_least = arith.maxsi {size}, %{name}_huge : i64",
        f"%{name}_is_large = arith.cmpi sge, {size}, %{name}_from : i64",
        f"%{name}_size = arith.select %{name}_is_large, %{name}_least, {size} : i64",
        f"%{name} = func.call @o2m_alloc(%ctx, %{name}_size) : (!llvm.ptr, i64) -> !llvm.ptr",
    ]


def unlinked(block: str, head: int, tag: str) -> str:
    """Take ``block`` out of the doubly linked list that starts in the context's word ``head``."""
    return f"""
    {word_at(f"{tag}pp", block, PREVIOUS)}
    {word_at(f"{tag}np", block, NEXT)}
    %{tag}p = llvm.load %{tag}pp : !llvm.ptr -> !llvm.ptr
    %{tag}n = llvm.load %{tag}np : !llvm.ptr -> !llvm.ptr
    %{tag}first = llvm.icmp "eq" %{tag}p, %null : !llvm.ptr
    {word_at(f"{tag}head", "%ctx", head)}
    {word_at(f"{tag}link", f"%{tag}p", NEXT)}
    %{tag}from = llvm.select %{tag}first, %{tag}head, %{tag}link : i1, !llvm.ptr
    llvm.store %{tag}n, %{tag}from : !llvm.ptr, !llvm.ptr
    %{tag}more = llvm.icmp "ne" %{tag}n, %null : !llvm.ptr
    scf.if %{tag}more {{
      {word_at(f"{tag}back", f"%{tag}n", PREVIOUS)}
      llvm.store %{tag}p, %{tag}back : !llvm.ptr, !llvm.ptr
    }}"""


def linked(block: str, head: int, tag: str) -> str:
    """Put ``block`` at the start of the list of the context's word ``head``."""
    return f"""
    {word_at(f"{tag}head", "%ctx", head)}
    %{tag}old = llvm.load %{tag}head : !llvm.ptr -> !llvm.ptr
    {word_at(f"{tag}pp", block, PREVIOUS)}
    {word_at(f"{tag}np", block, NEXT)}
    llvm.store %null, %{tag}pp : !llvm.ptr, !llvm.ptr
    llvm.store %{tag}old, %{tag}np : !llvm.ptr, !llvm.ptr
    llvm.store {block}, %{tag}head : !llvm.ptr, !llvm.ptr
    %{tag}any = llvm.icmp "ne" %{tag}old, %null : !llvm.ptr
    scf.if %{tag}any {{
      {word_at(f"{tag}back", "%" + tag + "old", PREVIOUS)}
      llvm.store {block}, %{tag}back : !llvm.ptr, !llvm.ptr
    }}"""


FAILS_IF_HUGE = f"""
    %limit = arith.constant {1 << 46} : i64
    %bad = arith.cmpi ugt, %size, %limit : i64
    %oom = arith.constant {OUT_OF_MEMORY} : i64
    scf.if %bad {{
      func.call @o2m_fail(%ctx, %oom) : (!llvm.ptr, i64) -> ()
    }}"""
"""The beginning of a routine that is asked for ``%size`` bytes: no machine has as many, and negative ones are more still."""

FUNCTIONS = f"""
  func.func private @o2m_alloc(%ctx: !llvm.ptr, %size: i64) -> !llvm.ptr {{
    %null = llvm.mlir.zero : !llvm.ptr
    %one = arith.constant 1 : i64
    %mask = arith.constant -64 : i64
    {FAILS_IF_HUGE}
    %positive = arith.maxui %size, %one : i64
    %zeros = "llvm.intr.ctlz"(%positive) <{{is_zero_poison = false}}> : (i64) -> i64
    %top = arith.constant 61 : i64
    %places = arith.subi %top, %zeros : i64
    %line = arith.constant 6 : i64
    %digits = arith.maxsi %places, %line : i64
    %step = arith.shli %one, %digits : i64
    %below = arith.subi %step, %one : i64
    %padded = arith.addi %positive, %below : i64
    %over = arith.andi %padded, %below : i64
    %need = arith.subi %padded, %over : i64
    %twice = arith.addi %need, %need : i64
    {word_at("freep", "%ctx", FREE)}
    %free = llvm.load %freep : !llvm.ptr -> !llvm.ptr
    %found:3 = scf.while (%cur = %free, %best = %null, %size_of_best = %twice)
        : (!llvm.ptr, !llvm.ptr, i64) -> (!llvm.ptr, !llvm.ptr, i64) {{
      %go = llvm.icmp "ne" %cur, %null : !llvm.ptr
      scf.condition(%go) %cur, %best, %size_of_best : !llvm.ptr, !llvm.ptr, i64
    }} do {{
    ^bb0(%cur: !llvm.ptr, %best: !llvm.ptr, %size_of_best: i64):
      {word_at("capp", "%cur", CAPACITY)}
      {word_at("nextp", "%cur", NEXT)}
      %cap = llvm.load %capp : !llvm.ptr -> i64
      %next = llvm.load %nextp : !llvm.ptr -> !llvm.ptr
      %large = arith.cmpi uge, %cap, %need : i64
      %small = arith.cmpi ult, %cap, %size_of_best : i64
      %better = arith.andi %large, %small : i1
      %b = llvm.select %better, %cur, %best : i1, !llvm.ptr
      %s = llvm.select %better, %cap, %size_of_best : i1, i64
      scf.yield %next, %b, %s : !llvm.ptr, !llvm.ptr, i64
    }}
    %reuse = llvm.icmp "ne" %found#1, %null : !llvm.ptr
    %block = scf.if %reuse -> !llvm.ptr {{
      {unlinked("%found#1", FREE, "u")}
      scf.yield %found#1 : !llvm.ptr
    }} else {{
      %extra = arith.constant {2 * HEADER_BYTES} : i64
      %total = arith.addi %need, %extra : i64
      %raw = func.call @o2m_fresh(%total) : (i64) -> !llvm.ptr
      %none = llvm.icmp "eq" %raw, %null : !llvm.ptr
      scf.if %none {{
        func.call @o2m_fail(%ctx, %oom) : (!llvm.ptr, i64) -> ()
      }}
      %address = llvm.ptrtoint %raw : !llvm.ptr to i64
      %room = arith.constant {HEADER_BYTES + 63} : i64
      %past = arith.addi %address, %room : i64
      %aligned = arith.andi %past, %mask : i64
      %fresh = llvm.inttoptr %aligned : i64 to !llvm.ptr
      {word_at("rawp", "%fresh", RAW)}
      {word_at("fcapp", "%fresh", CAPACITY)}
      llvm.store %raw, %rawp : !llvm.ptr, !llvm.ptr
      llvm.store %need, %fcapp : i64, !llvm.ptr
      scf.yield %fresh : !llvm.ptr
    }}
    {word_at("serialp", "%ctx", SERIAL)}
    %serial = llvm.load %serialp : !llvm.ptr -> i64
    %age = arith.addi %serial, %one : i64
    llvm.store %age, %serialp : i64, !llvm.ptr
    {word_at("agep", "%block", AGE)}
    llvm.store %age, %agep : i64, !llvm.ptr
    {word_at("keptp", "%block", KEPT)}
    %zero = arith.constant 0 : i64
    llvm.store %zero, %keptp : i64, !llvm.ptr
    {linked("%block", HEAD, "l")}
    return %block : !llvm.ptr
  }}

  func.func private @o2m_free(%ctx: !llvm.ptr, %block: !llvm.ptr) {{
    %null = llvm.mlir.zero : !llvm.ptr
    {unlinked("%block", HEAD, "u")}
    {linked("%block", FREE, "l")}
    return
  }}

  func.func private @o2m_lent(%ctx: !llvm.ptr, %count: i64) {{
    %null = llvm.mlir.zero : !llvm.ptr
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    {word_at("lent", "%ctx", LENT)}
    scf.for %i = %none to %count step %one : i64 {{
      %at = llvm.getelementptr %lent[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %block = llvm.load %at : !llvm.ptr -> !llvm.ptr
      %some = llvm.icmp "ne" %block, %null : !llvm.ptr
      scf.if %some {{
        {linked("%block", FREE, "l")}
      }}
    }}
    return
  }}

  func.func private @o2m_mark(%ctx: !llvm.ptr) -> i64 {{
    {word_at("serialp", "%ctx", SERIAL)}
    %serial = llvm.load %serialp : !llvm.ptr -> i64
    return %serial : i64
  }}

  func.func private @o2m_find(%ctx: !llvm.ptr, %mark: i64, %address: i64) -> !llvm.ptr {{
    %null = llvm.mlir.zero : !llvm.ptr
    %wanted = llvm.inttoptr %address : i64 to !llvm.ptr
    {word_at("head", "%ctx", HEAD)}
    %newest = llvm.load %head : !llvm.ptr -> !llvm.ptr
    %found:2 = scf.while (%cur = %newest, %hit = %null) : (!llvm.ptr, !llvm.ptr) -> (!llvm.ptr, !llvm.ptr) {{
      %some = llvm.icmp "ne" %cur, %null : !llvm.ptr
      %not_yet = llvm.icmp "eq" %hit, %null : !llvm.ptr
      %go = arith.andi %some, %not_yet : i1
      scf.condition(%go) %cur, %hit : !llvm.ptr, !llvm.ptr
    }} do {{
    ^bb0(%cur: !llvm.ptr, %hit: !llvm.ptr):
      {word_at("agep", "%cur", AGE)}
      {word_at("nextp", "%cur", NEXT)}
      %age = llvm.load %agep : !llvm.ptr -> i64
      %next = llvm.load %nextp : !llvm.ptr -> !llvm.ptr
      %new = arith.cmpi sgt, %age, %mark : i64
      %same = llvm.icmp "eq" %cur, %wanted : !llvm.ptr
      %is = arith.andi %new, %same : i1
      %found = llvm.select %is, %cur, %null : i1, !llvm.ptr
      %on = llvm.select %new, %next, %null : i1, !llvm.ptr
      scf.yield %on, %found : !llvm.ptr, !llvm.ptr
    }}
    return %found#1 : !llvm.ptr
  }}

  func.func private @o2m_keep(%ctx: !llvm.ptr, %mark: i64, %address: i64) {{
    %null = llvm.mlir.zero : !llvm.ptr
    %block = func.call @o2m_find(%ctx, %mark, %address) : (!llvm.ptr, i64, i64) -> !llvm.ptr
    %some = llvm.icmp "ne" %block, %null : !llvm.ptr
    scf.if %some {{
      %one = arith.constant 1 : i64
      {word_at("keptp", "%block", KEPT)}
      llvm.store %one, %keptp : i64, !llvm.ptr
    }}
    return
  }}

  func.func private @o2m_release(%ctx: !llvm.ptr, %mark: i64) {{
    %null = llvm.mlir.zero : !llvm.ptr
    %zero = arith.constant 0 : i64
    {word_at("head", "%ctx", HEAD)}
    %newest = llvm.load %head : !llvm.ptr -> !llvm.ptr
    %end = scf.while (%cur = %newest) : (!llvm.ptr) -> !llvm.ptr {{
      %some = llvm.icmp "ne" %cur, %null : !llvm.ptr
      scf.condition(%some) %cur : !llvm.ptr
    }} do {{
    ^bb0(%cur: !llvm.ptr):
      {word_at("agep", "%cur", AGE)}
      {word_at("nextp", "%cur", NEXT)}
      {word_at("keptp", "%cur", KEPT)}
      %age = llvm.load %agep : !llvm.ptr -> i64
      %next = llvm.load %nextp : !llvm.ptr -> !llvm.ptr
      %new = arith.cmpi sgt, %age, %mark : i64
      scf.if %new {{
        %kept = llvm.load %keptp : !llvm.ptr -> i64
        %drop = arith.cmpi eq, %kept, %zero : i64
        scf.if %drop {{
          func.call @o2m_free(%ctx, %cur) : (!llvm.ptr, !llvm.ptr) -> ()
        }} else {{
          llvm.store %zero, %keptp : i64, !llvm.ptr
        }}
      }}
      %on = llvm.select %new, %next, %null : i1, !llvm.ptr
      scf.yield %on : !llvm.ptr
    }}
    return
  }}

  func.func private @o2m_claim(%ctx: !llvm.ptr, %address: i64) -> i64 {{
    %null = llvm.mlir.zero : !llvm.ptr
    %minus = arith.constant -1 : i64
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %block = func.call @o2m_find(%ctx, %minus, %address) : (!llvm.ptr, i64, i64) -> !llvm.ptr
    %some = llvm.icmp "ne" %block, %null : !llvm.ptr
    scf.if %some {{
      {unlinked("%block", HEAD, "u")}
    }}
    %is = arith.select %some, %one, %zero : i64
    return %is : i64
  }}

  func.func private @o2m_end(%ctx: !llvm.ptr) {{
    %null = llvm.mlir.zero : !llvm.ptr
    %minus = arith.constant -1 : i64
    func.call @o2m_release(%ctx, %minus) : (!llvm.ptr, i64) -> ()
    %was_small = func.call @o2m_settle(%ctx) : (!llvm.ptr) -> i1
    {word_at("startp", "%ctx", START)}
    %start = llvm.load %startp : !llvm.ptr -> i64
    {word_at("freep", "%ctx", FREE)}
    %free = llvm.load %freep : !llvm.ptr -> !llvm.ptr
    %end = scf.while (%cur = %free) : (!llvm.ptr) -> !llvm.ptr {{
      %some = llvm.icmp "ne" %cur, %null : !llvm.ptr
      scf.condition(%some) %cur : !llvm.ptr
    }} do {{
    ^bb0(%cur: !llvm.ptr):
      {word_at("agep", "%cur", AGE)}
      {word_at("nextp", "%cur", NEXT)}
      %age = llvm.load %agep : !llvm.ptr -> i64
      %next = llvm.load %nextp : !llvm.ptr -> !llvm.ptr
      %is_old = arith.cmpi sle, %age, %start : i64
      %stale = arith.ori %is_old, %was_small : i1
      scf.if %stale {{
        {unlinked("%cur", FREE, "u")}
        {word_at("rawp", "%cur", RAW)}
        %raw = llvm.load %rawp : !llvm.ptr -> !llvm.ptr
        llvm.call @free(%raw) : (!llvm.ptr) -> ()
      }}
      scf.yield %next : !llvm.ptr
    }}
    return
  }}
"""
"""Text of the routines; memory comes from @o2m_fresh, and where there is none they call @o2m_fail (runtime.py)."""
