"""What the workers of a pool of threads do (pool_code.py), from when they are started to when they are told to stop.

Between jobs a worker looks for the next one for some ten microseconds and then sleeps. It enters a job only while the gate is
open, takes items like the job's caller, and leaves.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.pool_code import pause
from onnx2torch_mlir.engine.compiler.pool_shares import pool_word
from onnx2torch_mlir.engine.layout import CONDITION, JOB, LIMIT, MUTEX, OPEN, SLEEPERS, STATE, STOP, STOPPER, WORKER

_LOOKS = 4000

FUNCTIONS = f"""
  func.func private @o2m_next_job(%pool: !llvm.ptr, %seen: i64) -> i64 {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %most = arith.constant {_LOOKS} : i64
    %job_step = arith.constant {JOB} : i64
    {pool_word("state", STATE)}
    {pool_word("sleepersp", SLEEPERS)}
    {pool_word("mutex", MUTEX)}
    {pool_word("condition", CONDITION)}
    %now:2 = scf.while (%looks = %none) : (i64) -> (i64, i64) {{
      %state_now = llvm.load %state atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> i64
      %value = arith.divui %state_now, %job_step : i64
      %same = arith.cmpi eq, %value, %seen : i64
      %patient = arith.cmpi slt, %looks, %most : i64
      %on = arith.andi %same, %patient : i1
      scf.condition(%on) %looks, %value : i64, i64
    }} do {{
    ^bb0(%looks: i64, %value: i64):
      {pause()}
      %next = arith.addi %looks, %one : i64
      scf.yield %next : i64
    }}
    %none_yet = arith.cmpi eq, %now#1, %seen : i64
    %found = scf.if %none_yet -> i64 {{
      %l = llvm.call @pthread_mutex_lock(%mutex) : (!llvm.ptr) -> i32
      %asleep = llvm.atomicrmw add %sleepersp, %one seq_cst : !llvm.ptr, i64
      %woken = scf.while : () -> i64 {{
        %state_then = llvm.load %state atomic seq_cst {{alignment = 8 : i64}} : !llvm.ptr -> i64
        %value = arith.divui %state_then, %job_step : i64
        %same = arith.cmpi eq, %value, %seen : i64
        scf.condition(%same) %value : i64
      }} do {{
      ^bb0(%value: i64):
        %w = llvm.call @pthread_cond_wait(%condition, %mutex) : (!llvm.ptr, !llvm.ptr) -> i32
        scf.yield
      }}
      %awake = llvm.atomicrmw sub %sleepersp, %one seq_cst : !llvm.ptr, i64
      %u = llvm.call @pthread_mutex_unlock(%mutex) : (!llvm.ptr) -> i32
      scf.yield %woken : i64
    }} else {{
      scf.yield %now#1 : i64
    }}
    return %found : i64
  }}

  func.func @{STOPPER}(%pool: !llvm.ptr) {{
    %one = llvm.mlir.constant(1 : i64) : i64
    %job_step = llvm.mlir.constant({JOB} : i64) : i64
    {pool_word("state", STATE)}
    {pool_word("stopp", STOP)}
    llvm.store %one, %stopp atomic release {{alignment = 8 : i64}} : i64, !llvm.ptr
    %before = llvm.atomicrmw add %state, %job_step seq_cst : !llvm.ptr, i64
    func.call @o2m_wake(%pool) : (!llvm.ptr) -> ()
    return
  }}

  func.func @{WORKER}(%pool: !llvm.ptr, %number: i64) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %open = arith.constant {OPEN} : i64
    %job_step = arith.constant {JOB} : i64
    {pool_word("state", STATE)}
    {pool_word("limitp", LIMIT)}
    {pool_word("stopp", STOP)}
    %end = scf.while (%seen = %none) : (i64) -> i64 {{
      %looked_at = func.call @o2m_next_job(%pool, %seen) : (!llvm.ptr, i64) -> i64
      %stop = llvm.load %stopp atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> i64
      %on = arith.cmpi eq, %stop, %none : i64
      scf.condition(%on) %looked_at : i64
    }} do {{
    ^bb0(%looked_at: i64):
      %was = llvm.atomicrmw add %state, %one acq_rel : !llvm.ptr, i64
      // It may be a later one by now.
      %job = arith.divui %was, %job_step : i64
      %gate = arith.andi %was, %open : i64
      %is_open = arith.cmpi ne, %gate, %none : i64
      scf.if %is_open {{
        %limit = llvm.load %limitp : !llvm.ptr -> i64
        %asked = arith.cmpi slt, %number, %limit : i64
        scf.if %asked {{
          func.call @o2m_take(%pool, %job, %number) : (!llvm.ptr, i64, i64) -> ()
        }}
      }}
      %left = llvm.atomicrmw sub %state, %one acq_rel : !llvm.ptr, i64
      scf.yield %job : i64
    }}
    return
  }}
"""
"""Text of these routines; they call some of pool_code.py."""
