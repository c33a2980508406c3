"""Clocks around what @main does for a node, in a build of its own (`Options.profile`): other programs carry nothing of it.

Before the loop nests become calls, `mark` notes what each one is about to do: its node, its floating-point operations and the
bytes of its operands, as values of the sizes that a call has. `measure` then puts two clocks around what each has become,
whoever replaced it: the calls between one mark and the next. Times go to a table of the call's context (layout.py).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from onnx2torch_mlir.engine.compiler.extents import emitted, size_of
from onnx2torch_mlir.engine.compiler.flatten import value_of
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps, iterators
from onnx2torch_mlir.engine.compiler.walks import append, function_around, functions, nested, symbol, word_of
from onnx2torch_mlir.engine.layout import PROFILE, PROFILE_EVENT, PROFILE_HEADER, PROFILE_SITE

_MARK = "o2m.mark"
_AND = " + "
_LOOPS = ("scf.for", "scf.while", "scf.parallel", "scf.forall")
_NAME = re.compile(r'"((?:[^"\\]|\\.)+)"(?!:\d)')
_PRODUCTS = {"arith.mulf": "arith.addf", "arith.muli": "arith.addi"}

_FUNCTIONS = f"""
  llvm.func @clock_gettime(i32, !llvm.ptr) -> i32

  func.func private @o2m_clock() -> i64 {{
    %two = llvm.mlir.constant(2 : i64) : i64
    %which = llvm.mlir.constant({time.CLOCK_MONOTONIC} : i32) : i32
    %billion = llvm.mlir.constant(1000000000 : i64) : i64
    %place = llvm.alloca %two x i64 : (i64) -> !llvm.ptr
    %done = llvm.call @clock_gettime(%which, %place) : (i32, !llvm.ptr) -> i32
    %second = llvm.getelementptr %place[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %s = llvm.load %place : !llvm.ptr -> i64
    %ns = llvm.load %second : !llvm.ptr -> i64
    %whole = llvm.mul %s, %billion : i64
    %all = llvm.add %whole, %ns : i64
    return %all : i64
  }}

  func.func private @o2m_measured(%ctx: !llvm.ptr, %site: i64, %start: i64, %flops: i64, %bytes: i64) {{
    %end = func.call @o2m_clock() : () -> i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %slot = llvm.getelementptr %ctx[{PROFILE}] : (!llvm.ptr) -> !llvm.ptr, i64
    %table = llvm.load %slot : !llvm.ptr -> !llvm.ptr
    %width = llvm.mlir.constant({PROFILE_SITE} : i64) : i64
    %row = llvm.mul %site, %width : i64
    %took = llvm.sub %end, %start : i64
    %base = llvm.getelementptr %table[{PROFILE_HEADER}] : (!llvm.ptr) -> !llvm.ptr, i64
    %calls = llvm.getelementptr %base[%row] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    {
    "".join(
        f'''
    %at{n} = llvm.getelementptr %calls[{n}] : (!llvm.ptr) -> !llvm.ptr, i64
    %was{n} = llvm.load %at{n} : !llvm.ptr -> i64
    %is{n} = llvm.add %was{n}, {value} : i64
    llvm.store %is{n}, %at{n} : i64, !llvm.ptr'''
        for n, value in enumerate(("%one", "%took", "%flops", "%bytes"))
    )
}
    %capacity = llvm.load %table : !llvm.ptr -> i64
    %countp = llvm.getelementptr %table[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %startp = llvm.getelementptr %table[2] : (!llvm.ptr) -> !llvm.ptr, i64
    %count = llvm.load %countp : !llvm.ptr -> i64
    %events = llvm.load %startp : !llvm.ptr -> i64
    %room = llvm.icmp "ult" %count, %capacity : i64
    scf.if %room {{
      %step = llvm.mlir.constant({PROFILE_EVENT} : i64) : i64
      %past = llvm.mul %count, %step : i64
      %index = llvm.add %events, %past : i64
      %event = llvm.getelementptr %table[%index] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      {
    "".join(
        f'''
      %e{n} = llvm.getelementptr %event[{n}] : (!llvm.ptr) -> !llvm.ptr, i64
      llvm.store {value}, %e{n} : i64, !llvm.ptr'''
        for n, value in enumerate(("%site", "%start", "%end"))
    )
}
      %more = llvm.add %count, %one : i64
      llvm.store %more, %countp : i64, !llvm.ptr
    }}
    return
  }}
"""


@dataclass
class Marks:
    """What `mark` noted: for each mark its location, operations and bytes, and whether an array is read; the functions that
    were there before."""

    locations: list[ir.Location] = field(default_factory=list)
    work: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)
    reads: list[bool] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)


def mark(module: ir.Module) -> Marks:
    """Mark every ``linalg.generic`` and ``memref.copy`` of @main by arithmetic before it, which disturbs no matcher."""
    marks = Marks(helpers={symbol(function) for function in functions(module)})
    _main(module).attributes[_MARK] = ir.UnitAttr.get()
    for operation in nested(_main(module)):
        if operation.name in ("linalg.generic", "memref.copy"):
            with ir.InsertionPoint(operation), operation.location:
                work = (_operations(operation), _bytes(operation))
                constant = value_of(len(marks.work))
                constant.owner.operation.attributes[_MARK] = ir.UnitAttr.get()
            marks.work.append(work)
            marks.reads.append(sum(isinstance(value.type, ir.MemRefType) for value in operation.operands) > 1)
            marks.locations.append(operation.location)
    return marks


def bring(operations: list[ir.Operation]) -> None:
    """Let the marks of operations of one block stand where the last of them is: what they do is done there."""
    if _MARK not in function_around(operations[0]).attributes:
        return
    found: list[ir.Operation] = []
    wanted, before = set(operations), operations[0]
    for view in list(operations[0].block.operations):
        operation = view.operation
        if operation in wanted and _MARK in before.attributes:
            found.append(before)
        before = operation
    for one in found:
        one.move_before(operations[-1])


def measure(module: ir.Module, marks: Marks) -> list[str]:
    """Put the clocks around what became of the marked operations, and around loops without any; the sites' nodes, by number."""
    main = _main(module)
    append(module, _FUNCTIONS)
    clocks = _Clocks(main.regions[0].blocks[0].arguments[0], marks)
    for block in main.regions[0].blocks:
        clocks.through(block)
    return clocks.sites


def _main(module: ir.Module) -> ir.Operation:
    return next(function for function in functions(module) if symbol(function) == "main")


@dataclass
class _Clocks:
    context: ir.Value
    marks: Marks
    sites: list[str] = field(default_factory=list)

    def through(self, block: ir.Block) -> None:
        """Measure what the block does."""
        first = len(self.sites)
        pending: list[int] = []
        group: list[ir.Operation] = []
        for operation in [op.operation for op in block.operations]:
            if _MARK in operation.attributes:
                self._close(group, pending)
                number = int(ir.IntegerAttr(operation.attributes["value"]))
                self._follow(pending, first, _names(self.marks.locations[number]))
                pending.append(number)
            elif self._is_call(operation) or operation.name in ("linalg.generic", "memref.copy"):
                group.append(operation)
            elif operation.name.startswith("scf.") and len(operation.regions):
                self._nest(operation, group, pending)
        self._close(group, pending)
        self._follow(pending, first, [])

    def _follow(self, pending: list[int], first: int, upcoming: list[str]) -> None:
        """What read an array and left nothing behind its mark has become part of the site before, if this block has one.

        Not so what belongs to a node that is still to come: a sum's first values.
        """
        for number in list(pending):
            names = _names(self.marks.locations[number])
            if self.marks.reads[number] and len(self.sites) > first and not set(names) & set(upcoming):
                self.sites[-1] = _AND.join(dict.fromkeys([*self.sites[-1].split(_AND), *names]))
                pending.remove(number)

    def _nest(self, operation: ir.Operation, group: list[ir.Operation], pending: list[int]) -> None:
        """Measure a loop or branch: inside, where nodes are marked there; else as a whole, with the marks before it."""
        inside = nested(operation)
        calls = any(self._is_call(other) for other in inside)
        if any(_MARK in other.attributes for other in inside):
            self._close(group, pending)
            for region in operation.regions:
                for block in region.blocks:
                    self.through(block)
        elif pending and (calls or _names(operation.location) == self._nodes(pending)):
            group.append(operation)
        elif calls or any(other.name in _LOOPS for other in (operation, *inside)):
            self._close(group, pending)
            self._close([operation], [])

    def _is_call(self, operation: ir.Operation) -> bool:
        if operation.name != "func.call":
            return False
        return ir.FlatSymbolRefAttr(operation.attributes["callee"]).value not in self.marks.helpers

    def _nodes(self, pending: list[int]) -> list[str]:
        return list(dict.fromkeys(name for number in pending for name in _names(self.marks.locations[number])))

    def _close(self, group: list[ir.Operation], pending: list[int]) -> None:
        """Put clocks before the first and after the last operation of ``group``; both lists are empty then.

        Marks of fills that nothing stands behind have become part of what comes next.
        """
        if not group:
            return
        nodes = self._nodes(pending) or _names(group[0].location)
        work = [self.marks.work[number] for number in pending]
        location = group[0].location
        with ir.InsertionPoint(group[0]), location:
            start = func.CallOp([ir.IntegerType.get_signless(64)], ir.FlatSymbolRefAttr.get("o2m_clock"), []).results[0]
            site = value_of(len(self.sites))
            flops, moved = (_sum([pair[place] for pair in work]) for place in (0, 1))
        with ir.InsertionPoint.after(group[-1]), location:
            given = [self.context, site, start, flops, moved]
            func.CallOp([], ir.FlatSymbolRefAttr.get("o2m_measured"), given)
        self.sites.append(_AND.join(nodes) or group[0].name)
        group.clear()
        pending.clear()


def _names(location: ir.Location) -> list[str]:
    return _NAME.findall(str(location))


def _sum(values: list[ir.Value]) -> ir.Value:
    total = values[0] if values else value_of(0)
    for value in values[1:]:
        total = arith.AddIOp(total, value).result
    return total


def _product(fixed: int, sizes: list[tuple[ir.Value, int]]) -> ir.Value:
    """``fixed`` times the sizes of these axes of memrefs, those that are numbers and those that are not."""
    varying = []
    for value, axis in sizes:
        type_ = ir.MemRefType(value.type)
        if type_.is_dynamic_dim(axis):
            varying.append((value, axis))
        else:
            fixed *= type_.get_dim_size(axis)
    total = value_of(fixed)
    for value, axis in varying:
        size = word_of(emitted(size_of(value, axis)))
        total = arith.MulIOp(total, size).result
    return total


def _operations(operation: ir.Operation) -> ir.Value:
    """Two for each turn of a sum of products; other loop nests are not counted."""
    if operation.name != "linalg.generic" or not any(iterators(operation)) or not _sums_products(operation):
        return value_of(0)
    return _product(2, _extents(operation))


def _sums_products(generic: ir.Operation) -> bool:
    names = {inner.name for inner in nested(generic)}
    return any(product in names and total in names for product, total in _PRODUCTS.items())


def _extents(generic: ir.Operation) -> list[tuple[ir.Value, int]]:
    """An operand and one of its axes for each loop."""
    found: dict[int, tuple[ir.Value, int]] = {}
    maps = indexing_maps(generic)
    for operand, map_ in zip(generic.operands, maps, strict=True):
        for axis, expression in enumerate(map_.results):
            if isinstance(expression, ir.AffineDimExpr):
                found.setdefault(expression.position, (operand, axis))
    return list(found.values())


def _bytes(operation: ir.Operation) -> ir.Value:
    """Of all arrays that are read or written, each once."""
    return _sum([_size(value) for value in operation.operands if isinstance(value.type, ir.MemRefType)])


def _size(value: ir.Value) -> ir.Value:
    type_ = ir.MemRefType(value.type)
    return _product(_width(type_.element_type), [(value, axis) for axis in range(type_.rank)])


def _width(type_: ir.Type) -> int:
    if isinstance(type_, ir.ComplexType):
        return 2 * _width(type_.element_type)
    if isinstance(type_, ir.IndexType):
        return 8
    return -(-int(type_.width) // 8)
