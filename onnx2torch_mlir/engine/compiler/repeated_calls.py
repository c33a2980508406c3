"""A call like the one before, decided in native code: arrays of the same types and sizes come in, and nobody uses what the last
call gave, so that the same arrays go out.

After a kernel that takes milliseconds, what Python needs to look at arrays is no longer in the caches: it takes 60 to 120
microseconds (3 % of a product of one row by 4096 times 4096 numbers), this a few. What it looks at is told in
python_objects.py, and the ``record`` in layout.py. The GIL is not held meanwhile: whoever calls holds the inputs, and to what
was given nobody else refers.
"""

from __future__ import annotations

from onnx2torch_mlir.engine import python_objects as fields
from onnx2torch_mlir.engine.compiler.code_text import header_word, word_at
from onnx2torch_mlir.engine.layout import (
    ARRAY,
    CONSUMED,
    CONTEXT,
    COUNT_OUT,
    ELSEWHERE,
    ENTRY_OF,
    FAILED,
    FIRST,
    FORMS,
    GIVEN,
    IN_USE,
    INPUTS,
    LENT,
    REPEAT,
    REPEATED,
    RESULTS,
    UNLIKE,
    WORDS_IN,
    WORDS_OUT,
)

_READ = fields.IS_DENSE | fields.IS_ALIGNED
_WRITTEN = _READ | fields.IS_WRITEABLE


def _loaded(name: str, base: str, number: int, type_: str = "i64") -> str:
    """``%name``: a word of what begins at ``base``."""
    return "\n    ".join(header_word(f"%{name}", base, number, type_))


def _field(name: str, base: str, place: int, type_: str = "i64") -> str:
    """``%name``: a field of the object ``base``."""
    return f"""%{name}_at = llvm.getelementptr {base}[{place}] : (!llvm.ptr) -> !llvm.ptr, i8
    %{name} = llvm.load %{name}_at : !llvm.ptr -> {type_}"""


def _behind(name: str, base: str, words: str) -> str:
    """``%name``: so many words behind ``base``."""
    return f"%{name} = llvm.getelementptr {base}[{words}] : (!llvm.ptr, i64) -> !llvm.ptr, i64"


_NUMBERS = """%none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %no = arith.constant false
    %yes = arith.constant true"""

_ARE_SAME = f"""
  func.func private @o2m_are_same(%ones: !llvm.ptr, %others: !llvm.ptr, %count: i64) -> i1 {{
    {_NUMBERS}
    %alike = scf.for %i = %none to %count step %one iter_args(%so_far = %yes) -> (i1) : i64 {{
      {_behind("one_at", "%ones", "%i")}
      {_behind("other_at", "%others", "%i")}
      %word = llvm.load %one_at : !llvm.ptr -> i64
      %other = llvm.load %other_at : !llvm.ptr -> i64
      %is_same = arith.cmpi eq, %word, %other : i64
      %still = arith.andi %so_far, %is_same : i1
      scf.yield %still : i1
    }}
    return %alike : i1
  }}
"""

_IS_LIKE = f"""
  func.func private @o2m_is_like(%object: !llvm.ptr, %type: i64, %form: !llvm.ptr, %sizes: !llvm.ptr, %flags: i32) -> i1 {{
    {_NUMBERS}
    {_field("own_type", "%object", fields.TYPE)}
    %is_array = arith.cmpi eq, %own_type, %type : i64
    %found = scf.if %is_array -> i1 {{
      {_loaded("dtype", "%form", 0)}
      {_loaded("rank", "%form", 1)}
      {_field("own_dtype", "%object", fields.DTYPE)}
      {_field("own_rank", "%object", fields.RANK, "i32")}
      {_field("own_flags", "%object", fields.FLAGS, "i32")}
      {_field("own_sizes", "%object", fields.SIZES, "!llvm.ptr")}
      %own_axes = arith.extui %own_rank : i32 to i64
      %set = arith.andi %own_flags, %flags : i32
      %same_dtype = arith.cmpi eq, %own_dtype, %dtype : i64
      %same_rank = arith.cmpi eq, %own_axes, %rank : i64
      %all_set = arith.cmpi eq, %set, %flags : i32
      %same_axes = arith.andi %same_rank, %all_set : i1
      %same = arith.andi %same_axes, %same_dtype : i1
      %axes = arith.select %same, %rank, %none : i64
      %same_sizes = func.call @o2m_are_same(%sizes, %own_sizes, %axes) : (!llvm.ptr, !llvm.ptr, i64) -> i1
      %alike = arith.andi %same, %same_sizes : i1
      scf.yield %alike : i1
    }} else {{
      scf.yield %no : i1
    }}
    return %found : i1
  }}
"""

_BIND = f"""
  func.func private @o2m_bind_again(%record: !llvm.ptr, %values: !llvm.ptr) -> i1 {{
    {_NUMBERS}
    {_loaded("type", "%record", ARRAY)}
    {_loaded("first", "%record", FIRST)}
    {_loaded("inputs", "%record", INPUTS)}
    {_loaded("words", "%record", WORDS_IN, "!llvm.ptr")}
    {word_at("forms", "%record", FORMS)}
    %flags = arith.constant {_READ} : i32
    %items = llvm.getelementptr %values[%first] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %end:2 = scf.for %i = %none to %inputs step %one iter_args(%so_far = %yes, %at = %words) -> (i1, !llvm.ptr) : i64 {{
      %next:2 = scf.if %so_far -> (i1, !llvm.ptr) {{
        {_behind("item_at", "%items", "%i")}
        %item = llvm.load %item_at : !llvm.ptr -> !llvm.ptr
        %place = arith.muli %i, %two : i64
        {_behind("form", "%forms", "%place")}
        {word_at("sizes", "%at", 1)}
        %like = func.call @o2m_is_like(%item, %type, %form, %sizes, %flags)
          : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i32) -> i1
        scf.if %like {{
          {_field("data", "%item", fields.DATA)}
          llvm.store %data, %at : i64, !llvm.ptr
        }}
        {_loaded("rank", "%form", 1)}
        {_behind("after", "%sizes", "%rank")}
        scf.yield %like, %after : i1, !llvm.ptr
      }} else {{
        scf.yield %no, %at : i1, !llvm.ptr
      }}
      scf.yield %next#0, %next#1 : i1, !llvm.ptr
    }}
    return %end#0 : i1
  }}
"""

_ARE_UNUSED = f"""
  func.func private @o2m_are_unused(%record: !llvm.ptr, %given: !llvm.ptr) -> i1 {{
    {_NUMBERS}
    %alone = arith.constant 1 : i32
    %flags = arith.constant {_WRITTEN} : i32
    {_loaded("type", "%record", ARRAY)}
    {_loaded("count", "%record", COUNT_OUT)}
    {_loaded("inputs", "%record", INPUTS)}
    {_loaded("results", "%record", RESULTS)}
    %before = arith.muli %inputs, %two : i64
    {word_at("forms", "%record", FORMS)}
    {_behind("own_forms", "%forms", "%before")}
    {_behind("blocks", "%given", "%count")}
    {_behind("arrays", "%blocks", "%results")}
    %end:2 = scf.for %i = %none to %results step %one iter_args(%at = %given, %so_far = %yes) -> (!llvm.ptr, i1) : i64 {{
      %place = arith.muli %i, %two : i64
      {_behind("form", "%own_forms", "%place")}
      {_loaded("rank", "%form", 1)}
      %sizes_and_steps = arith.muli %rank, %two : i64
      %words = arith.addi %sizes_and_steps, %three : i64
      {_behind("after", "%at", "%words")}
      {_behind("array_at", "%arrays", "%place")}
      %array = llvm.load %array_at : !llvm.ptr -> !llvm.ptr
      {_loaded("data", "%array_at", 1)}
      {word_at("sizes", "%at", 3)}
      {_field("references", "%array", fields.REFERENCES, "i32")}
      {_field("weak", "%array", fields.WEAK_REFERENCES)}
      {_field("own_data", "%array", fields.DATA)}
      {_field("base", "%array", fields.BASE, "!llvm.ptr")}
      {_field("of_base", "%base", fields.REFERENCES, "i32")}
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
    {_NUMBERS}
    {_loaded("context", "%record", CONTEXT, "!llvm.ptr")}
    {_loaded("count", "%record", COUNT_OUT)}
    {_loaded("results", "%record", RESULTS)}
    {word_at("lent", "%context", LENT)}
    {_behind("blocks", "%given", "%count")}
    scf.for %i = %none to %results step %one : i64 {{
      {_behind("from", "%blocks", "%i")}
      {_behind("to", "%lent", "%i")}
      %block = llvm.load %from : !llvm.ptr -> i64
      llvm.store %block, %to : i64, !llvm.ptr
    }}
    return
  }}

  func.func private @o2m_call_again(%record: !llvm.ptr, %given: !llvm.ptr, %number: i64) -> i32 {{
    {_NUMBERS}
    %fine = arith.constant 0 : i32
    {word_at("consumed", "%record", CONSUMED)}
    %which = arith.addi %number, %one : i64
    llvm.store %which, %consumed : i64, !llvm.ptr
    func.call @o2m_lend_again(%record, %given) : (!llvm.ptr, !llvm.ptr) -> ()
    {_loaded("entry", "%record", ENTRY_OF, "!llvm.ptr")}
    {_loaded("context", "%record", CONTEXT, "!llvm.ptr")}
    {_loaded("words_in", "%record", WORDS_IN, "!llvm.ptr")}
    {_loaded("words_out", "%record", WORDS_OUT, "!llvm.ptr")}
    {_loaded("count", "%record", COUNT_OUT)}
    %status = llvm.call %entry(%context, %words_in) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> i32
    %succeeds = arith.cmpi eq, %status, %fine : i32
    %alike = func.call @o2m_are_same(%given, %words_out, %count) : (!llvm.ptr, !llvm.ptr, i64) -> i1
    %repeated = arith.constant {REPEATED} : i32
    %elsewhere = arith.constant {ELSEWHERE} : i32
    %failed = arith.constant {FAILED} : i32
    %done = arith.select %alike, %repeated, %elsewhere : i32
    %found = arith.select %succeeds, %done, %failed : i32
    %is_repeated = arith.cmpi eq, %found, %repeated : i32
    scf.if %is_repeated {{
      llvm.store %none, %consumed : i64, !llvm.ptr
    }}
    return %found : i32
  }}

  func.func @{REPEAT}(%record: !llvm.ptr, %values: !llvm.ptr) -> i32 {{
    %unlike = arith.constant {UNLIKE} : i32
    %in_use = arith.constant {IN_USE} : i32
    %no = arith.constant false
    %first_number = arith.constant 0 : i32
    %second_number = arith.constant 1 : i32
    %bound = func.call @o2m_bind_again(%record, %values) : (!llvm.ptr, !llvm.ptr) -> i1
    %found = scf.if %bound -> i32 {{
      {_loaded("first", "%record", GIVEN, "!llvm.ptr")}
      {_loaded("second", "%record", GIVEN + 1, "!llvm.ptr")}
      %first_is_free = func.call @o2m_is_free(%record, %first) : (!llvm.ptr, !llvm.ptr) -> i1
      %is_free = scf.if %first_is_free -> i1 {{
        scf.yield %first_is_free : i1
      }} else {{
        %second_is_free = func.call @o2m_is_free(%record, %second) : (!llvm.ptr, !llvm.ptr) -> i1
        scf.yield %second_is_free : i1
      }}
      %given = llvm.select %first_is_free, %first, %second : i1, !llvm.ptr
      %number = arith.select %first_is_free, %first_number, %second_number : i32
      %done = scf.if %is_free -> i32 {{
        %which = arith.extui %number : i32 to i64
        %how = func.call @o2m_call_again(%record, %given, %which) : (!llvm.ptr, !llvm.ptr, i64) -> i32
        %told = arith.addi %how, %number : i32
        scf.yield %told : i32
      }} else {{
        scf.yield %in_use : i32
      }}
      scf.yield %done : i32
    }} else {{
      scf.yield %unlike : i32
    }}
    return %found : i32
  }}
"""

FUNCTIONS = _ARE_SAME + _IS_LIKE + _BIND + _ARE_UNUSED + _CALL
"""Text of the routine and what it calls, for programs that Python calls."""
