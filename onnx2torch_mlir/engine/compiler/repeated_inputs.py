"""The inputs of a call that may be like the one before (repeated_calls.py): found, held, and bound if they are alike.

Python's functions find the items of a dict, a list or a tuple; at the arrays' fields native code looks (python_objects.py).
"""

from __future__ import annotations

from onnx2torch_mlir.engine import python_objects as fields
from onnx2torch_mlir.engine.compiler.code_text import header_word, word_at
from onnx2torch_mlir.engine.layout import ARRAY, FORMS, HELD, HOLD, INPUTS, KINDS, LET_GO, WORDS_IN

READ = fields.IS_DENSE | fields.IS_ALIGNED
"""Flags of an array that a program reads."""


def loaded(name: str, base: str, number: int, type_: str = "i64") -> str:
    """``%name``: a word of what begins at ``base``."""
    return "\n    ".join(header_word(f"%{name}", base, number, type_))


def field(name: str, base: str, place: int, type_: str = "i64") -> str:
    """``%name``: a field of the object ``base``."""
    return f"""%{name}_at = llvm.getelementptr {base}[{place}] : (!llvm.ptr) -> !llvm.ptr, i8
    %{name} = llvm.load %{name}_at : !llvm.ptr -> {type_}"""


def behind(name: str, base: str, words: str) -> str:
    """``%name``: so many words behind ``base``."""
    return f"%{name} = llvm.getelementptr {base}[{words}] : (!llvm.ptr, i64) -> !llvm.ptr, i64"


NUMBERS = """%none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %no = arith.constant false
    %yes = arith.constant true"""

_ARE_SAME = f"""
  func.func private @o2m_are_same(%ones: !llvm.ptr, %others: !llvm.ptr, %count: i64) -> i1 {{
    {NUMBERS}
    %alike = scf.for %i = %none to %count step %one iter_args(%so_far = %yes) -> (i1) : i64 {{
      {behind("one_at", "%ones", "%i")}
      {behind("other_at", "%others", "%i")}
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
    {NUMBERS}
    {field("own_type", "%object", fields.TYPE)}
    %is_array = arith.cmpi eq, %own_type, %type : i64
    %found = scf.if %is_array -> i1 {{
      {loaded("dtype", "%form", 0)}
      {loaded("rank", "%form", 1)}
      {field("own_dtype", "%object", fields.DTYPE)}
      {field("own_rank", "%object", fields.RANK, "i32")}
      {field("own_flags", "%object", fields.FLAGS, "i32")}
      {field("own_sizes", "%object", fields.SIZES, "!llvm.ptr")}
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

_HOLD = f"""
  func.func private @o2m_hold(%record: !llvm.ptr, %inputs: !llvm.ptr) -> i64 {{
    // How many of the inputs are held now; all, if they are as many as there are to be, of the right names.
    {NUMBERS}
    %kind_words = arith.constant {(FORMS - KINDS) // len(fields.KINDS)} : i64
    {loaded("count", "%record", INPUTS)}
    {loaded("held", "%record", HELD, "!llvm.ptr")}
    {loaded("hold", "%record", HOLD, "!llvm.ptr")}
    {field("type", "%inputs", fields.TYPE)}
    {word_at("kinds", "%record", KINDS)}
    %none_yet = arith.constant -1 : i64
    %kinds_in_all = arith.constant {len(fields.KINDS)} : i64
    %found = scf.for %number = %none to %kinds_in_all step %one iter_args(%so_far = %none_yet) -> (i64) : i64 {{
      %place = arith.muli %number, %kind_words : i64
      {behind("kind", "%kinds", "%place")}
      {loaded("own_type", "%kind", 0)}
      {loaded("size", "%kind", 1, "!llvm.ptr")}
      {loaded("item", "%kind", 2, "!llvm.ptr")}
      {loaded("keys", "%kind", 3, "!llvm.ptr")}
      %is_kind = arith.cmpi eq, %type, %own_type : i64
      %all = scf.if %is_kind -> i64 {{
        %length = llvm.call %size(%inputs) : !llvm.ptr, (!llvm.ptr) -> i64
        %is_long = arith.cmpi eq, %length, %count : i64
        %most = arith.select %is_long, %count, %none : i64
        %null = llvm.mlir.zero : !llvm.ptr
        %last:2 = scf.for %i = %none to %most step %one iter_args(%of_these = %none, %on = %yes) -> (i64, i1) : i64 {{
          {behind("key_at", "%keys", "%i")}
          %key = llvm.load %key_at : !llvm.ptr -> i64
          %next = scf.if %on -> !llvm.ptr {{
            %there = llvm.call %item(%inputs, %key) : !llvm.ptr, (!llvm.ptr, i64) -> !llvm.ptr
            scf.yield %there : !llvm.ptr
          }} else {{
            scf.yield %null : !llvm.ptr
          }}
          %is_there = llvm.icmp "ne" %next, %null : !llvm.ptr
          scf.if %is_there {{
            llvm.call %hold(%next) : !llvm.ptr, (!llvm.ptr) -> ()
            {behind("place_at", "%held", "%of_these")}
            llvm.store %next, %place_at : !llvm.ptr, !llvm.ptr
          }}
          %more = arith.extui %is_there : i1 to i64
          %now = arith.addi %of_these, %more : i64
          scf.yield %now, %is_there : i64, i1
        }}
        %told = arith.select %is_long, %last#0, %none_yet : i64
        scf.yield %told : i64
      }} else {{
        scf.yield %so_far : i64
      }}
      scf.yield %all : i64
    }}
    return %found : i64
  }}

  func.func private @o2m_let_go(%record: !llvm.ptr, %count: i64) {{
    {NUMBERS}
    {loaded("held", "%record", HELD, "!llvm.ptr")}
    {loaded("let_go", "%record", LET_GO, "!llvm.ptr")}
    scf.for %i = %none to %count step %one : i64 {{
      {behind("place_at", "%held", "%i")}
      %object = llvm.load %place_at : !llvm.ptr -> !llvm.ptr
      llvm.call %let_go(%object) : !llvm.ptr, (!llvm.ptr) -> ()
    }}
    return
  }}
"""

_BIND = f"""
  func.func private @o2m_bind_again(%record: !llvm.ptr) -> i1 {{
    {NUMBERS}
    {loaded("type", "%record", ARRAY)}
    {loaded("items", "%record", HELD, "!llvm.ptr")}
    {loaded("inputs", "%record", INPUTS)}
    {loaded("words", "%record", WORDS_IN, "!llvm.ptr")}
    {word_at("forms", "%record", FORMS)}
    %flags = arith.constant {READ} : i32
    %end:2 = scf.for %i = %none to %inputs step %one iter_args(%so_far = %yes, %at = %words) -> (i1, !llvm.ptr) : i64 {{
      %next:2 = scf.if %so_far -> (i1, !llvm.ptr) {{
        {behind("item_at", "%items", "%i")}
        %item = llvm.load %item_at : !llvm.ptr -> !llvm.ptr
        %place = arith.muli %i, %two : i64
        {behind("form", "%forms", "%place")}
        {word_at("sizes", "%at", 1)}
        %like = func.call @o2m_is_like(%item, %type, %form, %sizes, %flags)
          : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i32) -> i1
        scf.if %like {{
          {field("data", "%item", fields.DATA)}
          llvm.store %data, %at : i64, !llvm.ptr
        }}
        {loaded("rank", "%form", 1)}
        {behind("after", "%sizes", "%rank")}
        scf.yield %like, %after : i1, !llvm.ptr
      }} else {{
        scf.yield %no, %at : i1, !llvm.ptr
      }}
      scf.yield %next#0, %next#1 : i1, !llvm.ptr
    }}
    return %end#0 : i1
  }}
"""

FUNCTIONS = _ARE_SAME + _IS_LIKE + _HOLD + _BIND
"""Text of these routines."""
