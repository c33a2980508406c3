"""The routines of a pool of threads that every object file carries: what callers of a job do.

The caller of a job works on it too, and takes items as the workers do (pool_shares.py, pool_workers.py), some at a time. A
worker enters only while the gate is open, so a job never waits for a thread that has not begun; the caller waits for those
inside. A pool has one job at a time: who finds it taken (another call, or a job inside of a job) works alone. The pool's words
are laid out in layout.py.
"""

from __future__ import annotations

import platform

from onnx2torch_mlir.engine.compiler import pool_shares
from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.compiler.pool_shares import pool_word
from onnx2torch_mlir.engine.layout import (
    ARGUMENTS,
    CONDITION,
    COUNT,
    FUNCTION,
    GRAIN,
    JOB,
    LEAST,
    LIMIT,
    MOST_SHARES,
    MUTEX,
    OPEN,
    OWNER,
    POOL,
    SHARE,
    SLEEPERS,
    STATE,
    THREADS,
    WORTH,
)

_WORTH = 1 << 15
"""Work that is worth another thread, in operations on one element (a fraction of a nanosecond each)."""

_CHUNKS, _MOST_CHUNKS = 4, 64
"""Parts of a job for each thread: enough that a thread which is held up leaves its share to others. More where each is still
worth `_LONG` threads: at the end others wait for half a part of one (BERT with 64 in place of 16: 1 to 2 % faster)."""
_LONG = 4
_GROUPS_FOR_EACH, _MOST_GROUPS = 8, 4
"""Of groups, the last of which go in pieces, several are taken at a time where each thread has that many times as many: whoever
takes a range finds out first where all lies (a product of 128 by 768 by 3072: a third of a per cent)."""

_LOOKS_BEFORE_YIELDING = 20000

DECLARATIONS = """
  llvm.func @sched_yield() -> i32
  llvm.func @pthread_mutex_lock(!llvm.ptr) -> i32
  llvm.func @pthread_mutex_unlock(!llvm.ptr) -> i32
  llvm.func @pthread_cond_wait(!llvm.ptr, !llvm.ptr) -> i32
  llvm.func @pthread_cond_broadcast(!llvm.ptr) -> i32
"""


def pause() -> str:
    """What tells the processor that this thread waits for a word to change."""
    hint = {"x86_64": "pause", "AMD64": "pause", "aarch64": "yield", "arm64": "yield"}.get(platform.machine())
    return "" if hint is None else f'llvm.inline_asm has_side_effects "{hint}", "" : () -> ()'


_CALLER = f"""
  func.func private @o2m_threads(%ctx: !llvm.ptr) -> i64 {{
    %one = arith.constant 1 : i64
    {word_at("slot", "%ctx", THREADS)}
    %threads = llvm.load %slot : !llvm.ptr -> i64
    %least = arith.maxsi %threads, %one : i64
    return %least : i64
  }}

  func.func private @o2m_grain(%ctx: !llvm.ptr, %count: i64, %together: i64, %work: i64) -> (i64, i64) {{
    // How many items are taken at a time, and how many at least; all of them where other threads do not pay.
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %usual = arith.constant {_WORTH} : i64
    {word_at("worthp", "%ctx", WORTH)}
    %told = llvm.load %worthp : !llvm.ptr -> i64
    %untold = arith.cmpi eq, %told, %none : i64
    %worth = arith.select %untold, %usual, %told : i64
    %threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64
    %some = arith.maxsi %work, %one : i64
    %least = arith.ceildivsi %worth, %some : i64
    %in_groups = arith.cmpi sgt, %together, %one : i64
    %found:2 = scf.if %in_groups -> (i64, i64) {{
      %groups_for_each = arith.constant {_GROUPS_FOR_EACH} : i64
      %most_groups = arith.constant {_MOST_GROUPS} : i64
      %groups = arith.ceildivsi %count, %together : i64
      %work_of_group = arith.muli %some, %together : i64
      %least_groups = arith.ceildivsi %worth, %work_of_group : i64
      %groups_for_all = arith.muli %threads, %groups_for_each : i64
      %several = arith.divui %groups, %groups_for_all : i64
      %some_groups = arith.minsi %several, %most_groups : i64
      %of_groups = arith.maxsi %some_groups, %least_groups : i64
      %in_items = arith.muli %of_groups, %together : i64
      %few_items = arith.minsi %least, %in_items : i64
      scf.yield %in_items, %few_items : i64, i64
    }} else {{
      %chunks = arith.constant {_CHUNKS} : i64
      %parts = arith.muli %threads, %chunks : i64
      %even = arith.ceildivsi %count, %parts : i64
      %most_chunks = arith.constant {_MOST_CHUNKS} : i64
      %most_parts = arith.muli %threads, %most_chunks : i64
      %finest = arith.ceildivsi %count, %most_parts : i64
      %long = arith.constant {_LONG} : i64
      %long_work = arith.muli %worth, %long : i64
      %long_items = arith.ceildivsi %long_work, %some : i64
      %fine = arith.maxsi %finest, %long_items : i64
      %found_even = arith.minsi %even, %fine : i64
      %of_items = arith.maxsi %least, %found_even : i64
      scf.yield %of_items, %of_items : i64, i64
    }}
    %whole = arith.cmpi sge, %least, %count : i64
    %single = arith.cmpi eq, %threads, %one : i64
    %alone = arith.ori %whole, %single : i1
    %grain = arith.select %alone, %count, %found#0 : i64
    %fewest = arith.select %alone, %count, %found#1 : i64
    return %grain, %fewest : i64, i64
  }}

  func.func private @o2m_on_all(
    %ctx: !llvm.ptr, %count: i64, %together: i64, %work: i64, %back: i1, %task: !llvm.ptr, %words: !llvm.ptr
  ) {{
    %none = arith.constant 0 : i64
    %grain:2 = func.call @o2m_grain(%ctx, %count, %together, %work) : (!llvm.ptr, i64, i64, i64) -> (i64, i64)
    %alone = arith.cmpi sge, %grain#1, %count : i64
    scf.if %alone {{
      llvm.call %task(%words, %none, %count, %none) : !llvm.ptr, (!llvm.ptr, i64, i64, i64) -> ()
    }} else {{
      %less = arith.subi %none, %grain#0 : i64
      %step = arith.select %back, %less, %grain#0 : i64
      func.call @o2m_parallel(%ctx, %count, %together, %step, %grain#1, %task, %words)
        : (!llvm.ptr, i64, i64, i64, i64, !llvm.ptr, !llvm.ptr) -> ()
    }}
    return
  }}

  func.func private @o2m_parallel(
    %ctx: !llvm.ptr, %count: i64, %together: i64, %grain: i64, %least: i64, %task: !llvm.ptr, %arguments: !llvm.ptr
  ) {{
    %none = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %open = llvm.mlir.constant({OPEN} : i64) : i64
    {word_at("poolp", "%ctx", POOL)}
    {word_at("threadsp", "%ctx", THREADS)}
    %pool = llvm.load %poolp : !llvm.ptr -> !llvm.ptr
    %threads = llvm.load %threadsp : !llvm.ptr -> i64
    {pool_word("owner", OWNER)}
    %had = llvm.cmpxchg %owner, %none, %one acquire monotonic : !llvm.ptr, i64
    %mine = llvm.extractvalue %had[1] : !llvm.struct<(i64, i1)>
    scf.if %mine {{
      {pool_word("state", STATE)}
      {pool_word("sharep", SHARE)}
      {pool_word("countp", COUNT)}
      {pool_word("grainp", GRAIN)}
      {pool_word("functionp", FUNCTION)}
      {pool_word("argumentsp", ARGUMENTS)}
      {pool_word("limitp", LIMIT)}
      {pool_word("leastp", LEAST)}
      {pool_word("sleepersp", SLEEPERS)}
      %most = llvm.mlir.constant({MOST_SHARES} : i64) : i64
      %back = arith.subi %none, %grain : i64
      %items = arith.maxsi %grain, %back : i64
      %parts = arith.ceildivsi %count, %items : i64
      %each = arith.minsi %threads, %parts : i64
      %wanted = arith.minsi %each, %most : i64
      %even_share = arith.ceildivsi %count, %wanted : i64
      %in_groups = llvm.icmp "sgt" %together, %one : i64
      %share = scf.if %in_groups -> i64 {{
        %groups = arith.ceildivsi %even_share, %together : i64
        %whole_groups = arith.muli %groups, %together : i64
        scf.yield %whole_groups : i64
      }} else {{
        scf.yield %even_share : i64
      }}
      llvm.store %share, %sharep : i64, !llvm.ptr
      llvm.store %least, %leastp : i64, !llvm.ptr
      llvm.store %count, %countp : i64, !llvm.ptr
      llvm.store %grain, %grainp : i64, !llvm.ptr
      llvm.store %task, %functionp : !llvm.ptr, !llvm.ptr
      llvm.store %arguments, %argumentsp : !llvm.ptr, !llvm.ptr
      llvm.store %threads, %limitp : i64, !llvm.ptr
      %begins = llvm.mlir.constant({JOB + OPEN} : i64) : i64
      %before = llvm.atomicrmw add %state, %begins seq_cst : !llvm.ptr, i64
      %job_step = llvm.mlir.constant({JOB} : i64) : i64
      %now = arith.addi %before, %begins : i64
      %job = arith.divui %now, %job_step : i64
      %sleepers = llvm.load %sleepersp atomic seq_cst {{alignment = 8 : i64}} : !llvm.ptr -> i64
      %asleep = arith.cmpi ne, %sleepers, %none : i64
      scf.if %asleep {{
        func.call @o2m_wake(%pool) : (!llvm.ptr) -> ()
      }}
      func.call @o2m_take(%pool, %job, %none) : (!llvm.ptr, i64, i64) -> ()
      %closed = llvm.atomicrmw sub %state, %open acq_rel : !llvm.ptr, i64
      %ended = arith.subi %closed, %open : i64
      func.call @o2m_wait_for_others(%state, %ended) : (!llvm.ptr, i64) -> ()
      llvm.store %none, %owner atomic release {{alignment = 8 : i64}} : i64, !llvm.ptr
    }} else {{
      llvm.call %task(%arguments, %none, %count, %none) : !llvm.ptr, (!llvm.ptr, i64, i64, i64) -> ()
    }}
    return
  }}

  func.func private @o2m_wake(%pool: !llvm.ptr) {{
    {pool_word("mutex", MUTEX)}
    {pool_word("condition", CONDITION)}
    %l = llvm.call @pthread_mutex_lock(%mutex) : (!llvm.ptr) -> i32
    %b = llvm.call @pthread_cond_broadcast(%condition) : (!llvm.ptr) -> i32
    %u = llvm.call @pthread_mutex_unlock(%mutex) : (!llvm.ptr) -> i32
    return
  }}

  func.func private @o2m_wait_for_others(%state: !llvm.ptr, %known: i64) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %many = arith.constant {_LOOKS_BEFORE_YIELDING} : i64
    %inside = arith.constant {OPEN - 1} : i64
    %end = scf.while (%value = %known, %looks = %none) : (i64, i64) -> i64 {{
      %others = arith.andi %value, %inside : i64
      %some = arith.cmpi ne, %others, %none : i64
      scf.condition(%some) %looks : i64
    }} do {{
    ^bb0(%looks: i64):
      %long = arith.cmpi sgt, %looks, %many : i64
      scf.if %long {{
        %y = llvm.call @sched_yield() : () -> i32
      }} else {{
        {pause()}
      }}
      %next = arith.addi %looks, %one : i64
      %now = llvm.load %state atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> i64
      scf.yield %now, %next : i64, i64
    }}
    return
  }}
"""

FUNCTIONS = pool_shares.FUNCTIONS + _CALLER
"""Text of the routines, to be put into a module before its conversion to the LLVM dialect; pool_workers.py has others."""
