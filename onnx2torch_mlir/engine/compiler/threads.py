"""Loops over items on several threads: functions of a range of items, and the functions around them that share the items."""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler.code_text import called, declared

RANGE = "%begin: i64, %end: i64, %worker: i64"
"""The last arguments of a function of a range of items."""


def task_name(name: str) -> str:
    """The function that calls ``name`` for a part of a job's items."""
    return f"{name}_task"


def spread_name(name: str) -> str:
    """The function that calls ``name`` for all items, on as many threads as pay."""
    return f"{name}_on_all"


def spread(name: str, types: Sequence[str], back: int | None = None) -> str:
    """Two functions for @``name``(arguments of ``types``, begin, end, worker), which handles a range of items.

    @``spread_name``(context, count, work of one item, arguments) handles all ``count`` items. Arguments are pointers and
    scalars of at most 8 bytes. Ranges must not depend on each other; a ``worker`` is below the context's number of threads,
    and no two ranges are handled by the same one at a time. ``back``: which of the arguments, if any, says that ranges are
    taken from the last to the first.
    """
    given = [f"%a{i}" for i in range(len(types))]
    arguments = declared(list(zip(given, types, strict=True)))
    signature = ", ".join([*types, "i64", "i64", "i64"])
    places = [f"%p{i} = llvm.getelementptr %words[{i}] : (!llvm.ptr) -> !llvm.ptr, i64" for i in range(len(types))]
    loads = [line for i, type_ in enumerate(types) for line in _load(i, type_)]
    stores = [line for i, type_ in enumerate(types) for line in _store(i, type_)]
    newline = "\n"
    order, step = list[str](), "%grain"
    if back is not None:
        step = "%step"
        order = ["%less = arith.subi %none, %grain : i64", f"{step} = arith.select {given[back]}, %less, %grain : i64"]
    return f"""
  func.func private @{task_name(name)}(%words: !llvm.ptr, %begin: i64, %end: i64, %worker: i64) {{
    {newline.join([*places, *loads])}
    func.call @{name}({", ".join([*given, "%begin", "%end", "%worker"])}) : ({signature}) -> ()
    return
  }}
  func.func private @{spread_name(name)}(%ctx: !llvm.ptr, %count: i64, %work: i64{", " * bool(types)}{arguments}) {{
    %none = arith.constant 0 : i64
    %grain = func.call @o2m_grain(%ctx, %count, %work) : (!llvm.ptr, i64, i64) -> i64
    %alone = arith.cmpi eq, %grain, %none : i64
    scf.if %alone {{
      func.call @{name}({", ".join([*given, "%none", "%count", "%none"])}) : ({signature}) -> ()
    }} else {{
      %size = arith.constant {max(len(types), 1)} : i64
      %words = llvm.alloca %size x i64 : (i64) -> !llvm.ptr
      {newline.join([*places, *stores, *order])}
      %value = func.constant @{task_name(name)} : (!llvm.ptr, i64, i64, i64) -> ()
      %task = builtin.unrealized_conversion_cast %value : (!llvm.ptr, i64, i64, i64) -> () to !llvm.ptr
      func.call @o2m_parallel(%ctx, %count, {step}, %task, %words) : (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr) -> ()
    }}
    return
  }}"""


def on_all(name: str, items: str, arguments: Sequence[tuple[str, str]]) -> str:
    """A call of what `spread` makes of ``name``, with ``%ctx``; ``items``: how many there are, and the work of one."""
    return called(spread_name(name), [("%ctx", "!llvm.ptr"), *((item, "i64") for item in items.split(", ")), *arguments])


def _load(i: int, type_: str) -> list[str]:
    if type_ != "index":
        return [f"%a{i} = llvm.load %p{i} : !llvm.ptr -> {type_}"]
    return [f"%w{i} = llvm.load %p{i} : !llvm.ptr -> i64", f"%a{i} = arith.index_cast %w{i} : i64 to index"]


def _store(i: int, type_: str) -> list[str]:
    if type_ != "index":
        return [f"llvm.store %a{i}, %p{i} : {type_}, !llvm.ptr"]
    return [f"%w{i} = arith.index_cast %a{i} : index to i64", f"llvm.store %w{i}, %p{i} : i64, !llvm.ptr"]


SIGNATURES = """
  func.func private @o2m_threads(!llvm.ptr) -> i64
  func.func private @o2m_grain(!llvm.ptr, i64, i64) -> i64
  func.func private @o2m_parallel(!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr)
"""
"""What text that calls these routines has to declare where it is parsed by itself."""
