"""The routines of a pool of threads that every object file carries: what callers of a job do, and how its items are taken.

The caller of a job works on it too, and takes items as the workers do (pool_workers.py), some at a time. Each thread
begins with a share of its own, which of equal jobs is the same every time: what it has made before, and its part of the
weights, still is in its processor's cache. Then it helps with the shares of others. A worker enters only while the gate is
open, so a job never waits for a thread that has not begun; the caller waits for those inside. A pool has one job at a time:
who finds it taken (another call, or a job inside of a job) works alone. The pool's words are laid out in layout.py.
"""

from __future__ import annotations

import platform

from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.layout import (
    ARGUMENTS,
    CONDITION,
    COUNT,
    FUNCTION,
    GRAIN,
    JOB,
    LIMIT,
    MOST_SHARES,
    MUTEX,
    OPEN,
    OWNER,
    POOL,
    SHARE,
    SLEEPERS,
    STATE,
    TAKEN,
    THREADS,
    WORTH,
)

_WORTH = 1 << 15
"""Work that is worth another thread, in operations on one element (a fraction of a nanosecond each)."""

_CHUNKS, _MOST_CHUNKS = 4, 64
"""Parts of a job for each thread: enough that a thread which is held up leaves its share to others. More where each is still
worth `_LONG` threads: at the end others wait for half a part of one (BERT with 64 in place of 16: 1 to 2 % faster)."""
_LONG = 4

_LOOKS_BEFORE_YIELDING = 20000

DECLARATIONS = """
  llvm.func @sched_yield() -> i32
  llvm.func @pthread_mutex_lock(!llvm.ptr) -> i32
  llvm.func @pthread_mutex_unlock(!llvm.ptr) -> i32
  llvm.func @pthread_cond_wait(!llvm.ptr, !llvm.ptr) -> i32
  llvm.func @pthread_cond_broadcast(!llvm.ptr) -> i32
"""


def pool_word(name: str, index: int) -> str:
    """``%name``: where a word of the pool is."""
    return word_at(name, "%pool", index)


def pause() -> str:
    """What tells the processor that this thread waits for a word to change."""
    hint = {"x86_64": "pause", "AMD64": "pause", "aarch64": "yield", "arm64": "yield"}.get(platform.machine())
    return "" if hint is None else f'llvm.inline_asm has_side_effects "{hint}", "" : () -> ()'


_TAKE = f"""
  func.func private @o2m_take(%pool: !llvm.ptr, %job: i64, %worker: i64) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %line = arith.constant 8 : i64
    %job_step = arith.constant {OPEN} : i64
    {pool_word("countp", COUNT)}
    {pool_word("grainp", GRAIN)}
    {pool_word("functionp", FUNCTION)}
    {pool_word("argumentsp", ARGUMENTS)}
    {pool_word("sharep", SHARE)}
    {pool_word("all", TAKEN)}
    %count = llvm.load %countp : !llvm.ptr -> i64
    %step = llvm.load %grainp : !llvm.ptr -> i64
    %forth = arith.subi %none, %step : i64
    %grain = arith.maxsi %step, %forth : i64
    %back = arith.cmpi slt, %step, %none : i64
    %function = llvm.load %functionp : !llvm.ptr -> !llvm.ptr
    %arguments = llvm.load %argumentsp : !llvm.ptr -> !llvm.ptr
    %share = llvm.load %sharep : !llvm.ptr -> i64
    %shares = arith.ceildivsi %count, %share : i64
    %untouched = arith.muli %job, %job_step : i64
    scf.for %turn = %none to %shares step %one : i64 {{
      %place = arith.addi %worker, %turn : i64
      %number = arith.remui %place, %shares : i64
      %low = arith.muli %number, %share : i64
      %after = arith.addi %low, %share : i64
      %high = arith.minsi %after, %count : i64
      %offset = arith.muli %number, %line : i64
      %taken = llvm.getelementptr %all[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %end = scf.while () : () -> i64 {{
        %begin = func.call @o2m_grab(%taken, %untouched, %low, %high, %grain)
          : (!llvm.ptr, i64, i64, i64, i64) -> i64
        %mine = arith.cmpi slt, %begin, %high : i64
        scf.condition(%mine) %begin : i64
      }} do {{
      ^bb0(%begin: i64):
        %behind = arith.addi %begin, %grain : i64
        %end = arith.minsi %behind, %high : i64
        // From the last to the first: as far from the end of the share as the others are from its beginning.
        %ends = arith.addi %low, %high : i64
        %begin_back = arith.subi %ends, %end : i64
        %end_back = arith.subi %ends, %begin : i64
        %from = arith.select %back, %begin_back, %begin : i64
        %until = arith.select %back, %end_back, %end : i64
        llvm.call %function(%arguments, %from, %until, %worker) : !llvm.ptr, (!llvm.ptr, i64, i64, i64) -> ()
        scf.yield
      }}
    }}
    return
  }}

  func.func private @o2m_grab(%taken: !llvm.ptr, %untouched: i64, %low: i64, %high: i64, %grain: i64) -> i64 {{
    // A word of an earlier job stands for a share that nobody has touched: so nobody has to reset it.
    %one = arith.constant 1 : i64
    %job_step = arith.constant {OPEN} : i64
    %first = llvm.load %taken atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
    %found:2 = scf.while (%word = %first) : (i64) -> (i64, i64) {{
      %apart = arith.xori %word, %untouched : i64
      %of_job = arith.cmpi ult, %apart, %job_step : i64
      %so_far = arith.select %of_job, %word, %untouched : i64
      %grains = arith.subi %so_far, %untouched : i64
      %gone = arith.muli %grains, %grain : i64
      %next = arith.addi %low, %gone : i64
      %some = arith.cmpi slt, %next, %high : i64
      // Others' lines are only written to where something is left.
      %tried:2 = scf.if %some -> (i64, i1) {{
        %more = arith.addi %so_far, %one : i64
        %had = llvm.cmpxchg weak %taken, %word, %more acq_rel monotonic : !llvm.ptr, i64
        %was = llvm.extractvalue %had[0] : !llvm.struct<(i64, i1)>
        %done = llvm.extractvalue %had[1] : !llvm.struct<(i64, i1)>
        %yes = arith.constant true
        %failed = arith.xori %done, %yes : i1
        scf.yield %was, %failed : i64, i1
      }} else {{
        %no = arith.constant false
        scf.yield %word, %no : i64, i1
      }}
      scf.condition(%tried#1) %tried#0, %next : i64, i64
    }} do {{
    ^bb0(%word: i64, %next: i64):
      scf.yield %word : i64
    }}
    return %found#1 : i64
  }}
"""

_CALLER = f"""
  func.func private @o2m_threads(%ctx: !llvm.ptr) -> i64 {{
    %one = arith.constant 1 : i64
    {word_at("slot", "%ctx", THREADS)}
    %threads = llvm.load %slot : !llvm.ptr -> i64
    %least = arith.maxsi %threads, %one : i64
    return %least : i64
  }}

  func.func private @o2m_grain(%ctx: !llvm.ptr, %count: i64, %work: i64) -> i64 {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %usual = arith.constant {_WORTH} : i64
    {word_at("worthp", "%ctx", WORTH)}
    %told = llvm.load %worthp : !llvm.ptr -> i64
    %untold = arith.cmpi eq, %told, %none : i64
    %worth = arith.select %untold, %usual, %told : i64
    %chunks = arith.constant {_CHUNKS} : i64
    %threads = func.call @o2m_threads(%ctx) : (!llvm.ptr) -> i64
    %some = arith.maxsi %work, %one : i64
    %least = arith.ceildivsi %worth, %some : i64
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
    %grain = arith.maxsi %least, %found_even : i64
    %whole = arith.cmpi sge, %grain, %count : i64
    %single = arith.cmpi eq, %threads, %one : i64
    %alone = arith.ori %whole, %single : i1
    %found = arith.select %alone, %none, %grain : i64
    return %found : i64
  }}

  func.func private @o2m_on_all(%ctx: !llvm.ptr, %count: i64, %work: i64, %back: i1, %task: !llvm.ptr, %words: !llvm.ptr) {{
    %none = arith.constant 0 : i64
    %grain = func.call @o2m_grain(%ctx, %count, %work) : (!llvm.ptr, i64, i64) -> i64
    %alone = arith.cmpi eq, %grain, %none : i64
    scf.if %alone {{
      llvm.call %task(%words, %none, %count, %none) : !llvm.ptr, (!llvm.ptr, i64, i64, i64) -> ()
    }} else {{
      %less = arith.subi %none, %grain : i64
      %step = arith.select %back, %less, %grain : i64
      func.call @o2m_parallel(%ctx, %count, %step, %task, %words) : (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr) -> ()
    }}
    return
  }}

  func.func private @o2m_parallel(%ctx: !llvm.ptr, %count: i64, %grain: i64, %task: !llvm.ptr, %arguments: !llvm.ptr) {{
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
      {pool_word("sleepersp", SLEEPERS)}
      %most = llvm.mlir.constant({MOST_SHARES} : i64) : i64
      %back = arith.subi %none, %grain : i64
      %items = arith.maxsi %grain, %back : i64
      %parts = arith.ceildivsi %count, %items : i64
      %each = arith.minsi %threads, %parts : i64
      %wanted = arith.minsi %each, %most : i64
      %share = arith.ceildivsi %count, %wanted : i64
      llvm.store %share, %sharep : i64, !llvm.ptr
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

FUNCTIONS = _TAKE + _CALLER
"""Text of the routines, to be put into a module before its conversion to the LLVM dialect; pool_workers.py has others."""
