"""Buffers of sizes that only the run tells lie in one block, too: where, is settled when they are made.

Each takes the lowest place that is free, so that what is made next lies where what has just died is still in the caches; blocks
of their own would lie all over memory. How large the block has to be the call before has told. What finds no room has memory of
its own but counts as if it had a place, so that the next call has room for it. A program is not slower for its open sizes then,
but for its first call.

A buffer has a header before it, which layout.py lays out; they form a list by place. The block is in no list while a call
lasts, for a loop in which its first buffer is made frees what its turns have made.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.call_memory import FAILS_IF_HUGE, linked, unlinked
from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.layout import (
    CAPACITY,
    END,
    FOLLOWER,
    FREE,
    HEAD,
    HEADER_BYTES,
    LIVE,
    PLACE,
    REACH,
    ROOM,
    SLAB,
    SMALL,
    WANTED,
)

_LITTLE = 4
_MANY_CALLS = 16
"""Of which each needs a quarter of the block at most, until it is given back: sizes may change from call to call."""

FUNCTIONS = f"""
  func.func private @o2m_borrow(%ctx: !llvm.ptr, %size: i64) -> !llvm.ptr {{
    %null = llvm.mlir.zero : !llvm.ptr
    %zero = arith.constant 0 : i64
    %header = arith.constant {HEADER_BYTES} : i64
    {FAILS_IF_HUGE}
    %mask = arith.constant {-HEADER_BYTES} : i64
    %more = arith.constant {2 * HEADER_BYTES - 1} : i64
    %past = arith.addi %size, %more : i64
    %need = arith.andi %past, %mask : i64
    {word_at("slabp", "%ctx", SLAB)}
    {word_at("roomp", "%ctx", ROOM)}
    {word_at("wantedp", "%ctx", WANTED)}
    %known = llvm.load %slabp : !llvm.ptr -> !llvm.ptr
    %wanted = llvm.load %wantedp : !llvm.ptr -> i64
    %is_first = llvm.icmp "eq" %known, %null : !llvm.ptr
    %is_wanted = arith.cmpi sgt, %wanted, %zero : i64
    %makes = arith.andi %is_first, %is_wanted : i1
    scf.if %makes {{
      %made = func.call @o2m_alloc(%ctx, %wanted) : (!llvm.ptr, i64) -> !llvm.ptr
      {unlinked("%made", HEAD, "u")}
      {word_at("capp", "%made", CAPACITY)}
      %capacity = llvm.load %capp : !llvm.ptr -> i64
      llvm.store %made, %slabp : !llvm.ptr, !llvm.ptr
      llvm.store %capacity, %roomp : i64, !llvm.ptr
    }}
    {word_at("livep", "%ctx", LIVE)}
    %found:2 = scf.while (%link = %livep, %at = %zero) : (!llvm.ptr, i64) -> (!llvm.ptr, i64) {{
      %next = llvm.load %link : !llvm.ptr -> !llvm.ptr
      %some = llvm.icmp "ne" %next, %null : !llvm.ptr
      %is_close = scf.if %some -> i1 {{
        {word_at("placep", "%next", PLACE)}
        %place = llvm.load %placep : !llvm.ptr -> i64
        %gap = arith.subi %place, %at : i64
        %tight = arith.cmpi slt, %gap, %need : i64
        scf.yield %tight : i1
      }} else {{
        %no = arith.constant false
        scf.yield %no : i1
      }}
      scf.condition(%is_close) %link, %at : !llvm.ptr, i64
    }} do {{
    ^bb0(%link: !llvm.ptr, %at: i64):
      %next = llvm.load %link : !llvm.ptr -> !llvm.ptr
      {word_at("endp", "%next", END)}
      {word_at("followerp", "%next", FOLLOWER)}
      %end = llvm.load %endp : !llvm.ptr -> i64
      scf.yield %followerp, %end : !llvm.ptr, i64
    }}
    %end = arith.addi %found#1, %need : i64
    {word_at("reachp", "%ctx", REACH)}
    %before = llvm.load %reachp : !llvm.ptr -> i64
    %reach = arith.maxsi %before, %end : i64
    llvm.store %reach, %reachp : i64, !llvm.ptr
    %room = llvm.load %roomp : !llvm.ptr -> i64
    %fits = arith.cmpi sle, %end, %room : i64
    %base = scf.if %fits -> !llvm.ptr {{
      %slab = llvm.load %slabp : !llvm.ptr -> !llvm.ptr
      %there = llvm.getelementptr %slab[%found#1] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      scf.yield %there : !llvm.ptr
    }} else {{
      %own = func.call @o2m_alloc(%ctx, %need) : (!llvm.ptr, i64) -> !llvm.ptr
      scf.yield %own : !llvm.ptr
    }}
    %buffer = llvm.getelementptr %base[%header] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    {word_at("ownplacep", "%buffer", PLACE)}
    {word_at("ownendp", "%buffer", END)}
    {word_at("ownfollowerp", "%buffer", FOLLOWER)}
    %follower = llvm.load %found#0 : !llvm.ptr -> !llvm.ptr
    llvm.store %found#1, %ownplacep : i64, !llvm.ptr
    llvm.store %end, %ownendp : i64, !llvm.ptr
    llvm.store %follower, %ownfollowerp : !llvm.ptr, !llvm.ptr
    llvm.store %buffer, %found#0 : !llvm.ptr, !llvm.ptr
    return %buffer : !llvm.ptr
  }}

  func.func private @o2m_give_back(%ctx: !llvm.ptr, %buffer: !llvm.ptr) {{
    {word_at("livep", "%ctx", LIVE)}
    %link = scf.while (%at = %livep) : (!llvm.ptr) -> !llvm.ptr {{
      %next = llvm.load %at : !llvm.ptr -> !llvm.ptr
      %is_other = llvm.icmp "ne" %next, %buffer : !llvm.ptr
      scf.condition(%is_other) %at : !llvm.ptr
    }} do {{
    ^bb0(%at: !llvm.ptr):
      %next = llvm.load %at : !llvm.ptr -> !llvm.ptr
      {word_at("followerp", "%next", FOLLOWER)}
      scf.yield %followerp : !llvm.ptr
    }}
    {word_at("ownfollowerp", "%buffer", FOLLOWER)}
    {word_at("endp", "%buffer", END)}
    {word_at("roomp", "%ctx", ROOM)}
    %follower = llvm.load %ownfollowerp : !llvm.ptr -> !llvm.ptr
    llvm.store %follower, %link : !llvm.ptr, !llvm.ptr
    %end = llvm.load %endp : !llvm.ptr -> i64
    %room = llvm.load %roomp : !llvm.ptr -> i64
    %is_outside = arith.cmpi sgt, %end, %room : i64
    scf.if %is_outside {{
      {word_at("base", "%buffer", -HEADER_BYTES // 8)}
      func.call @o2m_free(%ctx, %base) : (!llvm.ptr, !llvm.ptr) -> ()
    }}
    return
  }}

  func.func private @o2m_settle(%ctx: !llvm.ptr) -> i1 {{
    %null = llvm.mlir.zero : !llvm.ptr
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %factor = arith.constant {_LITTLE} : i64
    %many = arith.constant {_MANY_CALLS} : i64
    {word_at("slabp", "%ctx", SLAB)}
    {word_at("roomp", "%ctx", ROOM)}
    {word_at("livep", "%ctx", LIVE)}
    {word_at("reachp", "%ctx", REACH)}
    {word_at("wantedp", "%ctx", WANTED)}
    %slab = llvm.load %slabp : !llvm.ptr -> !llvm.ptr
    %is_there = llvm.icmp "ne" %slab, %null : !llvm.ptr
    scf.if %is_there {{
      {linked("%slab", FREE, "l")}
    }}
    %reach = llvm.load %reachp : !llvm.ptr -> i64
    %room = llvm.load %roomp : !llvm.ptr -> i64
    %wanted = llvm.load %wantedp : !llvm.ptr -> i64
    %much = arith.muli %reach, %factor : i64
    %is_little = arith.cmpi slt, %much, %wanted : i64
    {word_at("smallp", "%ctx", SMALL)}
    %small = llvm.load %smallp : !llvm.ptr -> i64
    %more = arith.addi %small, %one : i64
    %has_shrunk = arith.cmpi sge, %more, %many : i64
    %goes_on = arith.select %is_little, %more, %zero : i64
    %count = arith.select %has_shrunk, %zero, %goes_on : i64
    llvm.store %count, %smallp : i64, !llvm.ptr
    %shrinks = arith.andi %is_little, %has_shrunk : i1
    %has_grown = arith.cmpi sgt, %reach, %wanted : i64
    %changes = arith.ori %has_grown, %shrinks : i1
    %next = arith.select %changes, %reach, %wanted : i64
    llvm.store %next, %wantedp : i64, !llvm.ptr
    llvm.store %null, %slabp : !llvm.ptr, !llvm.ptr
    llvm.store %null, %livep : !llvm.ptr, !llvm.ptr
    llvm.store %zero, %roomp : i64, !llvm.ptr
    llvm.store %zero, %reachp : i64, !llvm.ptr
    %was_small = arith.cmpi sgt, %reach, %room : i64
    return %was_small : i1
  }}
"""
"""Text of the routines: @o2m_borrow and @o2m_give_back are malloc and free for a call, @o2m_settle ends it, and says whether
something had no room; they call those of call_memory.py."""
