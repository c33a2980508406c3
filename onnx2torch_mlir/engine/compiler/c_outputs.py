"""What C functions do with results: they become tensors of the caller, who frees them."""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.ahead_of_time import interface as c
from onnx2torch_mlir.engine.ahead_of_time.interface import CValue
from onnx2torch_mlir.engine.compiler.c_code import POINTER, Fragment
from onnx2torch_mlir.engine.layout import RAW

_NUMBER, _SIZE, _RANK, _START, _ROW_BYTES = range(0, 40, 8)
"""Where a row of the table has the element type's number, its bytes, the rank, and the first word of the descriptor."""


def define_collect(fragment: Fragment, values: Sequence[CValue], results_at: int, flags_at: int) -> None:
    """``i32 o2m_c_collect(context, outputs)``: the results as tensors of the caller; 1 if memory runs out."""
    count = len(values)
    with fragment.function("o2m_c_collect", [POINTER, POINTER], "i32") as f:
        context, outputs = f.arguments
        table = f.numbers(_rows(values))
        failed = f.memory(4)
        failed.store(f.number(0, "i32"))
        # What a claimed block holds may be another output too: owners first, copies then.
        with f.loop(count) as index:
            tensor, row = outputs.at(index * c.TENSOR_BYTES), table.at(index * _ROW_BYTES)
            result = context.at(results_at).at(row.load(_START) * 8)
            rank = row.load(_RANK)
            for offset, type_ in ((c.DTYPE, _NUMBER), (c.RANK, _RANK)):
                tensor.store(row.load(type_).narrowed(), offset)
            tensor.store(result.load(8, POINTER).at(result.load(16) * row.load(_SIZE)), c.DATA)
            tensor.store(f.null(), c.MEMORY)
            with f.loop(rank) as axis:
                tensor.at(axis * 8).store(result.at(axis * 8).load(24), c.SHAPE)
            with f.when(context.at(index * 8).load(flags_at).differs(0)):
                block = result.load(0, POINTER)
                tensor.store(block.load(8 * RAW, POINTER), c.MEMORY)
        with f.loop(count) as index:
            tensor, row = outputs.at(index * c.TENSOR_BYTES), table.at(index * _ROW_BYTES)
            with f.when(tensor.load(c.MEMORY, POINTER).equals(0)):
                bytes_ = f.get("o2m_c_bytes", tensor, row.load(_SIZE))
                copy = f.get("malloc", f.choose(bytes_.equals(0), f.number(1), bytes_), result=POINTER)
                with f.when(copy.equals(0)):
                    failed.store(f.number(1, "i32"))
                with f.when(copy.differs(0)):
                    f.call("memcpy", copy, tensor.load(c.DATA, POINTER), bytes_, result=POINTER)
                tensor.store(copy, c.DATA)
                tensor.store(copy, c.MEMORY)
        f.give(failed.load(0, "i32"))
    with fragment.function("o2m_c_bytes", [POINTER, "i64"], "i64") as f:
        tensor, size = f.arguments
        total = f.memory(8)
        total.store(size)
        with f.loop(tensor.load(c.RANK, "i32").widened()) as axis:
            total.store(total.load() * tensor.at(axis * 8).load(c.SHAPE))
        f.give(total.load())


def define_free(fragment: Fragment, name: str, count: int) -> None:
    """Add ``name(outputs)``, which frees so many outputs."""
    with fragment.function(name, [POINTER], exported=True) as f:
        (outputs,) = f.arguments
        with f.when(outputs.differs(0)), f.loop(count) as index:
            tensor = outputs.at(index * c.TENSOR_BYTES)
            f.call("free", tensor.load(c.MEMORY, POINTER))
            tensor.store(f.null(), c.MEMORY)
            tensor.store(f.null(), c.DATA)
        f.give()


def _rows(values: Sequence[CValue]) -> list[int]:
    rows, start = [], 0
    for value in values:
        rows += [value.element.number, value.element.size, len(value.shape), start]
        start += 3 + 2 * len(value.shape)
    return rows
