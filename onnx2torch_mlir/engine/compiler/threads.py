"""Loops over items on several threads: functions of a range of items, and the functions around them that share the items."""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler.code_text import called, declared

RANGE = "%begin: i64, %end: i64, %worker: i64"
"""The last arguments of a function of a range of items."""

ON_ALL = "o2m_on_all"
"""The routine (pool_code.py) that has all items of a job done: @o2m_on_all(context, count, how many go together, work of one
item, whether ranges are taken from the last to the first, the function that does a range, its words)."""


def task_name(name: str) -> str:
    """The function that calls ``name`` for a part of a job's items."""
    return f"{name}_task"


def spread_name(name: str) -> str:
    """The function that calls ``name`` for all items, on as many threads as pay."""
    return f"{name}_on_all"


def spread(name: str, types: Sequence[str], back: int | None = None, *, together: bool = False) -> str:
    """Two functions for @``name``(arguments of ``types``, begin, end, worker), which handles a range of items.

    @``spread_name``(context, count, work of one item, arguments) handles all ``count`` items. With ``together`` the count is
    followed by how many neighbours cost less together: ranges are of so many or a multiple, but for the end of a share.
    Arguments are pointers and scalars of at most 8 bytes. Ranges must not depend on each other; a ``worker`` is below the
    context's number of threads, and no two ranges are handled by the same one at a time. ``back``: which of the arguments, if
    any, says that ranges are taken from the last to the first.
    """
    given = [f"%a{i}" for i in range(len(types))]
    arguments = declared(list(zip(given, types, strict=True)))
    signature = ", ".join([*types, "i64", "i64", "i64"])
    places = [f"%p{i} = llvm.getelementptr %words[{i}] : (!llvm.ptr) -> !llvm.ptr, i64" for i in range(len(types))]
    loads = [f"%a{i} = llvm.load %p{i} : !llvm.ptr -> {type_}" for i, type_ in enumerate(types)]
    stores = [f"llvm.store %a{i}, %p{i} : {type_}, !llvm.ptr" for i, type_ in enumerate(types)]
    newline = "\n"
    order = "%no" if back is None else given[back]
    head = ["%ctx: !llvm.ptr", "%count: i64", *(["%together: i64"] if together else []), "%work: i64"]
    return f"""
  func.func private @{task_name(name)}(%words: !llvm.ptr, %begin: i64, %end: i64, %worker: i64) {{
    {newline.join([*places, *loads])}
    func.call @{name}({", ".join([*given, "%begin", "%end", "%worker"])}) : ({signature}) -> ()
    return
  }}
  func.func private @{spread_name(name)}({", ".join(head)}{", " * bool(types)}{arguments}) {{
    %no = arith.constant false
    {"" if together else "%together = arith.constant 1 : i64"}
    %size = arith.constant {max(len(types), 1)} : i64
    %words = llvm.alloca %size x i64 : (i64) -> !llvm.ptr
    {newline.join([*places, *stores])}
    %value = func.constant @{task_name(name)} : (!llvm.ptr, i64, i64, i64) -> ()
    %task = builtin.unrealized_conversion_cast %value : (!llvm.ptr, i64, i64, i64) -> () to !llvm.ptr
    func.call @{ON_ALL}(%ctx, %count, %together, %work, {order}, %task, %words)
      : (!llvm.ptr, i64, i64, i64, i1, !llvm.ptr, !llvm.ptr) -> ()
    return
  }}"""


def on_all(name: str, items: str, arguments: Sequence[tuple[str, str]]) -> str:
    """A call of what `spread` makes of ``name``, with ``%ctx``; ``items``: how many there are, how many go together if
    it asks for that, and the work of one."""
    return called(spread_name(name), [("%ctx", "!llvm.ptr"), *((item, "i64") for item in items.split(", ")), *arguments])


SIGNATURES = f"""
  func.func private @o2m_threads(!llvm.ptr) -> i64
  func.func private @{ON_ALL}(!llvm.ptr, i64, i64, i64, i1, !llvm.ptr, !llvm.ptr)
"""
"""What text that calls these routines has to declare where it is parsed by itself."""
