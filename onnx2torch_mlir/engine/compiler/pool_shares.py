"""How the threads of a pool take the items of a job (pool_code.py): each from a share of its own first, then from others'.

The share is the same of equal jobs every time: what a thread has made before, and its part of the weights, still is in its
processor's cache. Of the last items of a share each takes half of what is left, where a job says that so few are worth it.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.layout import ARGUMENTS, COUNT, FUNCTION, GRAIN, LEAST, OPEN, SHARE, TAKEN


def pool_word(name: str, index: int) -> str:
    """``%name``: where a word of the pool is."""
    return word_at(name, "%pool", index)


FUNCTIONS = f"""
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
    {pool_word("leastp", LEAST)}
    {pool_word("all", TAKEN)}
    %count = llvm.load %countp : !llvm.ptr -> i64
    %step = llvm.load %grainp : !llvm.ptr -> i64
    %forth = arith.subi %none, %step : i64
    %grain = arith.maxsi %step, %forth : i64
    %back = arith.cmpi slt, %step, %none : i64
    %function = llvm.load %functionp : !llvm.ptr -> !llvm.ptr
    %arguments = llvm.load %argumentsp : !llvm.ptr -> !llvm.ptr
    %share = llvm.load %sharep : !llvm.ptr -> i64
    %least = llvm.load %leastp : !llvm.ptr -> i64
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
      %left:2 = scf.while () : () -> (i64, i64) {{
        %some:2 = func.call @o2m_grab(%taken, %untouched, %low, %high, %grain, %least)
          : (!llvm.ptr, i64, i64, i64, i64, i64) -> (i64, i64)
        %mine = arith.cmpi slt, %some#0, %high : i64
        scf.condition(%mine) %some#0, %some#1 : i64, i64
      }} do {{
      ^bb0(%begin: i64, %number_of_them: i64):
        %behind = arith.addi %begin, %number_of_them : i64
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

  func.func private @o2m_grab(%taken: !llvm.ptr, %untouched: i64, %low: i64, %high: i64, %grain: i64, %least: i64)
    -> (i64, i64) {{
    // A word of an earlier job stands for a share that nobody has touched: so nobody has to reset it.
    %one = arith.constant 1 : i64
    %job_step = arith.constant {OPEN} : i64
    %by_grains = arith.cmpi eq, %least, %grain : i64
    %unit = arith.select %by_grains, %grain, %one : i64
    %first = llvm.load %taken atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
    %found:3 = scf.while (%word = %first) : (i64) -> (i64, i64, i64) {{
      %apart = arith.xori %word, %untouched : i64
      %of_job = arith.cmpi ult, %apart, %job_step : i64
      %so_far = arith.select %of_job, %word, %untouched : i64
      %units = arith.subi %so_far, %untouched : i64
      %gone = arith.muli %units, %unit : i64
      %next = arith.addi %low, %gone : i64
      %left = arith.subi %high, %next : i64
      // The last grain goes by halves.
      %almost_half = arith.shrsi %left, %one : i64
      %half = arith.subi %left, %almost_half : i64
      %few = arith.maxsi %half, %least : i64
      %many = arith.cmpi sgt, %left, %grain : i64
      %takes = arith.select %many, %grain, %few : i64
      %counted = arith.select %by_grains, %one, %takes : i64
      %some = arith.cmpi slt, %next, %high : i64
      // Others' lines are only written to where something is left.
      %tried:2 = scf.if %some -> (i64, i1) {{
        %more = arith.addi %so_far, %counted : i64
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
      scf.condition(%tried#1) %tried#0, %next, %takes : i64, i64, i64
    }} do {{
    ^bb0(%word: i64, %next: i64, %takes: i64):
      scf.yield %word : i64
    }}
    return %found#1, %found#2 : i64, i64
  }}
"""
"""Text of the routines: all that a thread takes of a job, and one taking from a share."""
