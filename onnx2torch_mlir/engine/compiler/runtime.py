"""The routines that every object file carries: memory of one call, failed assertions, and the entry.

A *context* is one call's private block of memory, zeroed by the caller once and then used by one call at a time. Blocks
of memory are 64-byte aligned and have a header before them. Both are laid out in layout.py.

Live blocks form a list from the newest to the oldest, so "all that were made since" is the head of the list. Freed
blocks are kept for reuse: fresh pages from the system cost more than most operators. Sizes are rounded up to a quarter of
the power of two below them (of which only what is used takes pages), so that a value which grows from turn to turn of a loop
finds its old blocks again. At the end of a call the blocks that the call did not use are given back.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.layout import (
    AGE,
    CAPACITY,
    ENTRY,
    ERROR,
    FREE,
    HEAD,
    HEADER_BYTES,
    JMP_BUF_OFFSET,
    KEPT,
    NEXT,
    OUT_OF_MEMORY,
    PREVIOUS,
    RAW,
    SERIAL,
    START,
)

DECLARATIONS = """
  llvm.func @_setjmp(!llvm.ptr) -> i32 attributes {passthrough = ["returns_twice"]}
  llvm.func @longjmp(!llvm.ptr, i32) attributes {passthrough = ["noreturn"]}
  llvm.func @malloc(i64) -> !llvm.ptr
  llvm.func @free(!llvm.ptr)
"""

SIGNATURES = """
  func.func private @o2m_alloc(!llvm.ptr, i64) -> !llvm.ptr
  func.func private @o2m_free(!llvm.ptr, !llvm.ptr)
"""
"""What text that calls these routines has to declare where it is parsed by itself."""


def _field(name: str, base: str, index: int) -> str:
    return f"%{name} = llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, i64"


def _unlink(block: str, head: int, tag: str) -> str:
    """Take ``block`` out of the doubly linked list that starts in the context's word ``head``."""
    return f"""
    {_field(f"{tag}pp", block, PREVIOUS)}
    {_field(f"{tag}np", block, NEXT)}
    %{tag}p = llvm.load %{tag}pp : !llvm.ptr -> !llvm.ptr
    %{tag}n = llvm.load %{tag}np : !llvm.ptr -> !llvm.ptr
    %{tag}first = llvm.icmp "eq" %{tag}p, %null : !llvm.ptr
    {_field(f"{tag}head", "%ctx", head)}
    {_field(f"{tag}link", f"%{tag}p", NEXT)}
    %{tag}from = llvm.select %{tag}first, %{tag}head, %{tag}link : i1, !llvm.ptr
    llvm.store %{tag}n, %{tag}from : !llvm.ptr, !llvm.ptr
    %{tag}more = llvm.icmp "ne" %{tag}n, %null : !llvm.ptr
    scf.if %{tag}more {{
      {_field(f"{tag}back", f"%{tag}n", PREVIOUS)}
      llvm.store %{tag}p, %{tag}back : !llvm.ptr, !llvm.ptr
    }}"""


def _link(block: str, head: int, tag: str) -> str:
    """Put ``block`` at the start of the list of the context's word ``head``."""
    return f"""
    {_field(f"{tag}head", "%ctx", head)}
    %{tag}old = llvm.load %{tag}head : !llvm.ptr -> !llvm.ptr
    {_field(f"{tag}pp", block, PREVIOUS)}
    {_field(f"{tag}np", block, NEXT)}
    llvm.store %null, %{tag}pp : !llvm.ptr, !llvm.ptr
    llvm.store %{tag}old, %{tag}np : !llvm.ptr, !llvm.ptr
    llvm.store {block}, %{tag}head : !llvm.ptr, !llvm.ptr
    %{tag}any = llvm.icmp "ne" %{tag}old, %null : !llvm.ptr
    scf.if %{tag}any {{
      {_field(f"{tag}back", "%" + tag + "old", PREVIOUS)}
      llvm.store {block}, %{tag}back : !llvm.ptr, !llvm.ptr
    }}"""


_HUGE_PAGE = 2 << 20
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
    %huge = arith.constant {_HUGE_PAGE} : i64
    %many = arith.constant {2 * _HUGE_PAGE} : i64
    %is_large = arith.cmpi uge, %size, %many : i64
    %raw = scf.if %is_large -> !llvm.ptr {{
      %below = arith.constant {_HUGE_PAGE - 1} : i64
      %mask = arith.constant {-_HUGE_PAGE} : i64
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


FUNCTIONS = f"""
  func.func private @o2m_fail(%ctx: !llvm.ptr, %index: i64) {{
    {_field("slot", "%ctx", ERROR)}
    llvm.store %index, %slot : i64, !llvm.ptr
    %one = llvm.mlir.constant(1 : i32) : i32
    {_field("buffer", "%ctx", JMP_BUF_OFFSET // 8)}
    llvm.call @longjmp(%buffer, %one) : (!llvm.ptr, i32) -> ()
    return
  }}

  func.func private @o2m_alloc(%ctx: !llvm.ptr, %size: i64) -> !llvm.ptr {{
    %null = llvm.mlir.zero : !llvm.ptr
    %one = arith.constant 1 : i64
    %mask = arith.constant -64 : i64
    %limit = arith.constant {1 << 46} : i64
    %bad = arith.cmpi ugt, %size, %limit : i64
    %oom = arith.constant {OUT_OF_MEMORY} : i64
    scf.if %bad {{
      func.call @o2m_fail(%ctx, %oom) : (!llvm.ptr, i64) -> ()
    }}
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
    {_field("freep", "%ctx", FREE)}
    %free = llvm.load %freep : !llvm.ptr -> !llvm.ptr
    %found:3 = scf.while (%cur = %free, %best = %null, %size_of_best = %twice)
        : (!llvm.ptr, !llvm.ptr, i64) -> (!llvm.ptr, !llvm.ptr, i64) {{
      %go = llvm.icmp "ne" %cur, %null : !llvm.ptr
      scf.condition(%go) %cur, %best, %size_of_best : !llvm.ptr, !llvm.ptr, i64
    }} do {{
    ^bb0(%cur: !llvm.ptr, %best: !llvm.ptr, %size_of_best: i64):
      {_field("capp", "%cur", CAPACITY)}
      {_field("nextp", "%cur", NEXT)}
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
      {_unlink("%found#1", FREE, "u")}
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
      {_field("rawp", "%fresh", RAW)}
      {_field("fcapp", "%fresh", CAPACITY)}
      llvm.store %raw, %rawp : !llvm.ptr, !llvm.ptr
      llvm.store %need, %fcapp : i64, !llvm.ptr
      scf.yield %fresh : !llvm.ptr
    }}
    {_field("serialp", "%ctx", SERIAL)}
    %serial = llvm.load %serialp : !llvm.ptr -> i64
    %age = arith.addi %serial, %one : i64
    llvm.store %age, %serialp : i64, !llvm.ptr
    {_field("agep", "%block", AGE)}
    llvm.store %age, %agep : i64, !llvm.ptr
    {_field("keptp", "%block", KEPT)}
    %zero = arith.constant 0 : i64
    llvm.store %zero, %keptp : i64, !llvm.ptr
    {_link("%block", HEAD, "l")}
    return %block : !llvm.ptr
  }}

  func.func private @o2m_free(%ctx: !llvm.ptr, %block: !llvm.ptr) {{
    %null = llvm.mlir.zero : !llvm.ptr
    {_unlink("%block", HEAD, "u")}
    {_link("%block", FREE, "l")}
    return
  }}

  func.func private @o2m_mark(%ctx: !llvm.ptr) -> i64 {{
    {_field("serialp", "%ctx", SERIAL)}
    %serial = llvm.load %serialp : !llvm.ptr -> i64
    return %serial : i64
  }}

  func.func private @o2m_find(%ctx: !llvm.ptr, %mark: i64, %address: i64) -> !llvm.ptr {{
    %null = llvm.mlir.zero : !llvm.ptr
    %wanted = llvm.inttoptr %address : i64 to !llvm.ptr
    {_field("head", "%ctx", HEAD)}
    %newest = llvm.load %head : !llvm.ptr -> !llvm.ptr
    %found:2 = scf.while (%cur = %newest, %hit = %null) : (!llvm.ptr, !llvm.ptr) -> (!llvm.ptr, !llvm.ptr) {{
      %some = llvm.icmp "ne" %cur, %null : !llvm.ptr
      %not_yet = llvm.icmp "eq" %hit, %null : !llvm.ptr
      %go = arith.andi %some, %not_yet : i1
      scf.condition(%go) %cur, %hit : !llvm.ptr, !llvm.ptr
    }} do {{
    ^bb0(%cur: !llvm.ptr, %hit: !llvm.ptr):
      {_field("agep", "%cur", AGE)}
      {_field("nextp", "%cur", NEXT)}
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
      {_field("keptp", "%block", KEPT)}
      llvm.store %one, %keptp : i64, !llvm.ptr
    }}
    return
  }}

  func.func private @o2m_release(%ctx: !llvm.ptr, %mark: i64) {{
    %null = llvm.mlir.zero : !llvm.ptr
    %zero = arith.constant 0 : i64
    {_field("head", "%ctx", HEAD)}
    %newest = llvm.load %head : !llvm.ptr -> !llvm.ptr
    %end = scf.while (%cur = %newest) : (!llvm.ptr) -> !llvm.ptr {{
      %some = llvm.icmp "ne" %cur, %null : !llvm.ptr
      scf.condition(%some) %cur : !llvm.ptr
    }} do {{
    ^bb0(%cur: !llvm.ptr):
      {_field("agep", "%cur", AGE)}
      {_field("nextp", "%cur", NEXT)}
      {_field("keptp", "%cur", KEPT)}
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
      {_unlink("%block", HEAD, "u")}
    }}
    %is = arith.select %some, %one, %zero : i64
    return %is : i64
  }}

  func.func private @o2m_end(%ctx: !llvm.ptr) {{
    %null = llvm.mlir.zero : !llvm.ptr
    %minus = arith.constant -1 : i64
    func.call @o2m_release(%ctx, %minus) : (!llvm.ptr, i64) -> ()
    {_field("startp", "%ctx", START)}
    %start = llvm.load %startp : !llvm.ptr -> i64
    {_field("freep", "%ctx", FREE)}
    %free = llvm.load %freep : !llvm.ptr -> !llvm.ptr
    %end = scf.while (%cur = %free) : (!llvm.ptr) -> !llvm.ptr {{
      %some = llvm.icmp "ne" %cur, %null : !llvm.ptr
      scf.condition(%some) %cur : !llvm.ptr
    }} do {{
    ^bb0(%cur: !llvm.ptr):
      {_field("agep", "%cur", AGE)}
      {_field("nextp", "%cur", NEXT)}
      %age = llvm.load %agep : !llvm.ptr -> i64
      %next = llvm.load %nextp : !llvm.ptr -> !llvm.ptr
      %stale = arith.cmpi sle, %age, %start : i64
      scf.if %stale {{
        {_unlink("%cur", FREE, "u")}
        {_field("rawp", "%cur", RAW)}
        %raw = llvm.load %rawp : !llvm.ptr -> !llvm.ptr
        llvm.call @free(%raw) : (!llvm.ptr) -> ()
      }}
      scf.yield %next : !llvm.ptr
    }}
    return
  }}
"""
"""Text of the routines, to be put into a module before its conversion to the LLVM dialect."""


def entry(words: int, result_words: list[int]) -> str:
    """Text of ``i32 o2m_entry(context, packed)`` in the LLVM dialect.

    ``packed`` points to the ``words`` of the arguments (arrays.arguments), then a pointer to where the results'
    descriptors go one after the other (``result_words`` words each), then a pointer to one word per result that says
    whether the result's memory is the caller's to free. Returns 0, or 1 after a failure.
    """
    operands = [*(["%results"] if result_words else []), "%ctx", "%packed"]
    types = ", ".join(["!llvm.ptr"] * len(operands))
    lines = [
        _field("resultsp", "%packed", words),
        _field("flagsp", "%packed", words + 1),
        "%results = llvm.load %resultsp : !llvm.ptr -> !llvm.ptr",
        "%flags = llvm.load %flagsp : !llvm.ptr -> !llvm.ptr",
        f"llvm.call @_mlir_ciface_main({', '.join(operands)}) : ({types}) -> ()",
    ]
    offset = 0
    for number, count in enumerate(result_words):
        lines += [
            _field(f"r{number}", "%results", offset),
            f"%b{number} = llvm.load %r{number} : !llvm.ptr -> i64",
            f"%c{number} = llvm.call @o2m_claim(%ctx, %b{number}) : (!llvm.ptr, i64) -> i64",
            _field(f"f{number}", "%flags", number),
            f"llvm.store %c{number}, %f{number} : i64, !llvm.ptr",
        ]
        offset += count
    body = "\n    ".join(lines)
    # The declarations make the text stand by itself; the module it is merged into has the functions.
    return f"""
  llvm.func @_setjmp(!llvm.ptr) -> i32
  llvm.func @_mlir_ciface_main({types})
  llvm.func @o2m_claim(!llvm.ptr, i64) -> i64
  llvm.func @o2m_end(!llvm.ptr)
  llvm.func @{ENTRY}(%ctx: !llvm.ptr, %packed: !llvm.ptr) -> i32 {{
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    {_field("serialp", "%ctx", SERIAL)}
    %serial = llvm.load %serialp : !llvm.ptr -> i64
    {_field("startp", "%ctx", START)}
    llvm.store %serial, %startp : i64, !llvm.ptr
    {_field("buffer", "%ctx", JMP_BUF_OFFSET // 8)}
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
