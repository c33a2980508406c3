"""A call like the one before, decided in native code: arrays of the same types and sizes come in, and nobody uses what the last
call gave, so that the same arrays go out.

After a kernel that takes milliseconds, what Python needs to look at arrays is no longer in the caches: it takes 60 to 120
microseconds (3 % of a product of one row by 4096 times 4096 numbers), this a few. What it looks at is told in
python_objects.py, and the ``record`` in layout.py. Python's lock (the GIL) is released only while the program runs: meanwhile
the inputs are held, and to what was given nobody else refers.
"""

from __future__ import annotations

from onnx2torch_mlir.engine import python_objects as fields
from onnx2torch_mlir.engine.compiler import repeated_inputs
from onnx2torch_mlir.engine.compiler.code_text import word_at
from onnx2torch_mlir.engine.compiler.repeated_inputs import NUMBERS, READ, behind, field, loaded
from onnx2torch_mlir.engine.layout import (
    ARRAY,
    CONSUMED,
    CONTEXT,
    COUNT_OUT,
    ELSEWHERE,
    ENTRY_OF,
    FAILED,
    FORMS,
    GIVEN,
    HOLD,
    IN_USE,
    INPUTS,
    LENT,
    OUTCOMES,
    RELEASE_LOCK,
    REPEAT,
    REPEATED,
    RESULTS,
    TAKE_LOCK,
    UNLIKE,
    WORDS_IN,
    WORDS_OUT,
)

_WRITTEN = READ | fields.IS_WRITEABLE

_ARE_UNUSED = f"""
  func.func private @o2m_are_unused(%record: !llvm.ptr, %given: !llvm.ptr) -> i1 {{
    {NUMBERS}
    %alone = arith.constant 1 : i32
    %flags = arith.constant {_WRITTEN} : i32
    {loaded("type", "%record", ARRAY)}
    {loaded("count", "%record", COUNT_OUT)}
    {loaded("inputs", "%record", INPUTS)}
    {loaded("results", "%record", RESULTS)}
    %before = arith.muli %inputs, %two : i64
    {word_at("forms", "%record", FORMS)}
    {behind("own_forms", "%forms", "%before")}
    {behind("blocks", "%given", "%count")}
    {behind("arrays", "%blocks", "%results")}
    %end:2 = scf.for %i = %none to %results step %one iter_args(%at = %given, %so_far = %yes) -> (!llvm.ptr, i1) : i64 {{
      %place = arith.muli %i, %two : i64
      {behind("form", "%own_forms", "%place")}
      {loaded("rank", "%form", 1)}
      %sizes_and_steps = arith.muli %rank, %two : i64
      %words = arith.addi %sizes_and_steps, %three : i64
      {behind("after", "%at", "%words")}
      {behind("array_at", "%arrays", "%place")}
      %array = llvm.load %array_at : !llvm.ptr -> !llvm.ptr
      {loaded("data", "%array_at", 1)}
      {word_at("sizes", "%at", 3)}
      {field("references", "%array", fields.REFERENCES, "i32")}
      {field("weak", "%array", fields.WEAK_REFERENCES)}
      {field("own_data", "%array", fields.DATA)}
      {field("base", "%array", fields.BASE, "!llvm.ptr")}
      {field("of_base", "%base", fields.REFERENCES, "i32")}
      %like = func.call @o2m_is_like(%array, %type, %form, %sizes, %flags) : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i32) -> i1
      %ours = arith.cmpi eq, %references, %alone : i32
      %its_own = arith.cmpi eq, %of_base, %alone : i32
      %unknown = arith.cmpi eq, %weak, %none : i64
      %there = arith.cmpi eq, %own_data, %data : i64
      %alone_in = arith.andi %ours, %its_own : i1
      %unseen = arith.andi %alone_in, %unknown : i1
      %in_place = arith.andi %unseen, %there : i1
      %unused = arith.andi %in_place, %like : i1
      %still = arith.andi %so_far, %unused : i1
      scf.yield %after, %still : !llvm.ptr, i1
    }}
    return %end#1 : i1
  }}

  func.func private @o2m_is_free(%record: !llvm.ptr, %given: !llvm.ptr) -> i1 {{
    %null = llvm.mlir.zero : !llvm.ptr
    %some = llvm.icmp "ne" %given, %null : !llvm.ptr
    %free = scf.if %some -> i1 {{
      %unused = func.call @o2m_are_unused(%record, %given) : (!llvm.ptr, !llvm.ptr) -> i1
      scf.yield %unused : i1
    }} else {{
      scf.yield %some : i1
    }}
    return %free : i1
  }}
"""

_CALL = f"""
  func.func private @o2m_lend_again(%record: !llvm.ptr, %given: !llvm.ptr) {{
    {NUMBERS}
    {loaded("context", "%record", CONTEXT, "!llvm.ptr")}
    {loaded("count", "%record", COUNT_OUT)}
    {loaded("results", "%record", RESULTS)}
    {word_at("lent", "%context", LENT)}
    {behind("blocks", "%given", "%count")}
    scf.for %i = %none to %results step %one : i64 {{
      {behind("from", "%blocks", "%i")}
      {behind("to", "%lent", "%i")}
      %block = llvm.load %from : !llvm.ptr -> i64
      llvm.store %block, %to : i64, !llvm.ptr
    }}
    return
  }}

  func.func private @o2m_call_again(%record: !llvm.ptr, %given: !llvm.ptr, %number: i64) -> i64 {{
    {NUMBERS}
    %fine = arith.constant 0 : i32
    {word_at("consumed", "%record", CONSUMED)}
    %which = arith.addi %number, %one : i64
    llvm.store %which, %consumed : i64, !llvm.ptr
    func.call @o2m_lend_again(%record, %given) : (!llvm.ptr, !llvm.ptr) -> ()
    {loaded("entry", "%record", ENTRY_OF, "!llvm.ptr")}
    {loaded("context", "%record", CONTEXT, "!llvm.ptr")}
    {loaded("words_in", "%record", WORDS_IN, "!llvm.ptr")}
    {loaded("words_out", "%record", WORDS_OUT, "!llvm.ptr")}
    {loaded("count", "%record", COUNT_OUT)}
    {loaded("release", "%record", RELEASE_LOCK, "!llvm.ptr")}
    {loaded("take", "%record", TAKE_LOCK, "!llvm.ptr")}
    %thread = llvm.call %release() : !llvm.ptr, () -> !llvm.ptr
    %status = llvm.call %entry(%context, %words_in) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> i32
    llvm.call %take(%thread) : !llvm.ptr, (!llvm.ptr) -> ()
    %succeeds = arith.cmpi eq, %status, %fine : i32
    %alike = func.call @o2m_are_same(%given, %words_out, %count) : (!llvm.ptr, !llvm.ptr, i64) -> i1
    %repeated = arith.constant {REPEATED} : i64
    %elsewhere = arith.constant {ELSEWHERE} : i64
    %failed = arith.constant {FAILED} : i64
    %done = arith.select %alike, %repeated, %elsewhere : i64
    %found = arith.select %succeeds, %done, %failed : i64
    %is_repeated = arith.cmpi eq, %found, %repeated : i64
    scf.if %is_repeated {{
      llvm.store %none, %consumed : i64, !llvm.ptr
    }}
    return %found : i64
  }}

  func.func private @o2m_try_again(%record: !llvm.ptr) -> !llvm.ptr {{
    %in_use = arith.constant {IN_USE} : i64
    {NUMBERS}
    {loaded("count", "%record", COUNT_OUT)}
    {loaded("results", "%record", RESULTS)}
    {loaded("first", "%record", GIVEN, "!llvm.ptr")}
    {loaded("second", "%record", GIVEN + 1, "!llvm.ptr")}
    %first_is_free = func.call @o2m_is_free(%record, %first) : (!llvm.ptr, !llvm.ptr) -> i1
    %is_free = scf.if %first_is_free -> i1 {{
      scf.yield %first_is_free : i1
    }} else {{
      %second_is_free = func.call @o2m_is_free(%record, %second) : (!llvm.ptr, !llvm.ptr) -> i1
      scf.yield %second_is_free : i1
    }}
    %given = llvm.select %first_is_free, %first, %second : i1, !llvm.ptr
    %number = arith.select %first_is_free, %none, %one : i64
    %outcome = scf.if %is_free -> i64 {{
      %how = func.call @o2m_call_again(%record, %given, %number) : (!llvm.ptr, !llvm.ptr, i64) -> i64
      %told = arith.addi %how, %number : i64
      scf.yield %told : i64
    }} else {{
      scf.yield %in_use : i64
    }}
    %failed = arith.constant {FAILED} : i64
    %is_repeated = arith.cmpi ult, %outcome, %failed : i64
    %object_at = scf.if %is_repeated -> !llvm.ptr {{
      %of_each = arith.muli %results, %three : i64
      %place = arith.addi %count, %of_each : i64
      {behind("tuple_at", "%given", "%place")}
      scf.yield %tuple_at : !llvm.ptr
    }} else {{
      {word_at("outcomes", "%record", OUTCOMES)}
      {behind("outcome_at", "%outcomes", "%outcome")}
      scf.yield %outcome_at : !llvm.ptr
    }}
    %object = llvm.load %object_at : !llvm.ptr -> !llvm.ptr
    return %object : !llvm.ptr
  }}

  func.func @{REPEAT}(%self: !llvm.ptr, %inputs: !llvm.ptr) -> !llvm.ptr {{
    {field("record", "%self", fields.FIRST_BYTE, "!llvm.ptr")}
    {loaded("wanted", "%record", INPUTS)}
    {loaded("hold", "%record", HOLD, "!llvm.ptr")}
    %no = arith.constant false
    %held = func.call @o2m_hold(%record, %inputs) : (!llvm.ptr, !llvm.ptr) -> i64
    %are_all = arith.cmpi eq, %held, %wanted : i64
    %bound = scf.if %are_all -> i1 {{
      %like = func.call @o2m_bind_again(%record) : (!llvm.ptr) -> i1
      scf.yield %like : i1
    }} else {{
      scf.yield %no : i1
    }}
    %object = scf.if %bound -> !llvm.ptr {{
      %told = func.call @o2m_try_again(%record) : (!llvm.ptr) -> !llvm.ptr
      scf.yield %told : !llvm.ptr
    }} else {{
      {loaded("told", "%record", OUTCOMES + UNLIKE, "!llvm.ptr")}
      scf.yield %told : !llvm.ptr
    }}
    llvm.call %hold(%object) : !llvm.ptr, (!llvm.ptr) -> ()
    func.call @o2m_let_go(%record, %held) : (!llvm.ptr, i64) -> ()
    return %object : !llvm.ptr
  }}
"""

FUNCTIONS = repeated_inputs.FUNCTIONS + _ARE_UNUSED + _CALL
"""Text of the routine and what it calls, for programs that Python calls."""
