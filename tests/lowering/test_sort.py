"""Sorts of rows, and of rows of which only the first few are read: the same as PyTorch's stable sort, bit by bit."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import passes
from onnx2torch_mlir.lowering import counting_sort, lower
from tests.lowering.execution import run, run_lowered
from tests.lowering.programs import call, program

aten = torch.ops.aten

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)
LENGTHS = (0, 1, 2, 5, 31, 33, 100, 129, 300, 1030)


def rows_of(dtype: torch.dtype, length: int) -> torch.Tensor:
    """Rows in order, in the other order, of few different numbers, of one, and of what is special."""
    torch.manual_seed(length)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        x = torch.randint(max(limits.min, -(2**62)), min(limits.max, 2**62), (6, length)).to(dtype)
        x[2], x[3, ::2] = torch.randint(0, 3, (length,)).to(dtype), limits.max
        x[4], x[5, ::3] = limits.max, limits.min
        return x
    x = torch.randn(6, length).to(dtype)
    x[0], x[1] = x[0].sort().values, x[1].sort(descending=True).values
    x[2], x[3] = (x[2] * 2).round(), 1.5
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, -torch.nan, 1.0], dtype=dtype)
    x[4], x[5, ::2] = special[torch.randint(0, 7, (length,))], torch.nan
    return x


def close_together(dtype: torch.dtype, length: int) -> torch.Tensor:
    """Rows of numbers in a range as wide as half the room there is for so many, one wider, of few, and at either end."""
    limits = torch.iinfo(dtype)
    x = torch.randint(0, 128, (6, length), dtype=dtype) % 100
    if length:
        half = max(4, 1 << (length - 1).bit_length())
        for row, far in enumerate((half - 1, half)):
            x[row], x[row, 0], x[row, -1] = torch.randint(far, (length,)), min(far, limits.max), 0
        x[2:4] = x[2:4] % 3
        x[3], x[4] = limits.max - x[3], limits.min + x[4]
    return x


def sorted_and_cut(
    x: torch.Tensor, few: tuple[int | None, int | None], descending: bool, dim: int = 1, dims: tuple[Any, ...] = ()
) -> ExportedProgram:
    """A program that sorts and cuts off the values and the positions after the first ``few``, or gives all for None."""

    def build(graph: torch.fx.Graph, node: torch.fx.Node) -> list[torch.fx.Node]:
        whole = call(graph, aten.sort.stable, node, stable=True, dim=dim, descending=descending)
        parts = [call(graph, operator.getitem, whole, number) for number in range(2)]
        return [
            part if count is None else call(graph, aten.slice.Tensor, part, dim, 0, count)
            for part, count in zip(parts, few, strict=True)
        ]

    return program(build, [x], [dims] if dims else ())


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize])


def agrees(results: list[torch.Tensor], x: torch.Tensor, few: int | None, descending: bool) -> None:
    wanted = torch.sort(x, dim=1, descending=descending, stable=True)
    values, positions = results
    assert torch.equal(positions, wanted.indices[:, :few]), (x.shape, few)
    assert torch.equal(bits(values), bits(wanted.values[:, :few])), (x.shape, few)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_first_few_and_all_of_rows(dtype: torch.dtype, descending: bool) -> None:
    for few in (7, 60, None):
        lowered = lower(sorted_and_cut(rows_of(dtype, 3), (few, few), descending, 1, ("rows", "columns")))
        for length in LENGTHS:
            x = rows_of(dtype, length)
            agrees(run_lowered(lowered, [x]), x, few, descending)


@pytest.mark.parametrize("few", [40, None])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_numbers_close_together(dtype: torch.dtype, few: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted: without a merge sort, rows of more than a few come out just as well."""
    for merges in (True, False) if few is None else (True,):
        if not merges:
            monkeypatch.setattr(counting_sort, "merge_sort", lambda ctx, pairs, count: (pairs, ctx.b.idx(0)))
        lowered = lower(sorted_and_cut(close_together(dtype, 3), (few, few), True, 1, ("rows", "columns")))
        for length in (1, 63, 65, 128, 129, 1000) if merges else (128, 1000):
            x = close_together(dtype, length)
            x = x if merges else x[2:]
            agrees(run_lowered(lowered, [x]), x, few, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_known_sizes(dtype: torch.dtype) -> None:
    for length in (*LENGTHS[:-1], 64):
        x = rows_of(dtype, length)
        for few in sorted({0, min(1, length), length // 9, length // 2, length}):
            agrees(run(sorted_and_cut(x, (few, few), True), [x]), x, few, True)


@pytest.mark.parametrize("shape", [(5, 40, 3), (2, 0, 3), (3, 5, 1), (2, 500, 2)])
@pytest.mark.parametrize("few", [(3, 3), (3, None), (3, 2), (None, None)])
def test_other_axes_open_sizes_and_who_reads_more(few: tuple[int | None, int | None], shape: tuple[int, ...]) -> None:
    """What is read by two of them in different numbers, or as a whole, is all sorted."""
    x = (torch.randn(shape) * 2).round()
    wanted = torch.sort(x, dim=1, descending=True, stable=True)
    found = run(sorted_and_cut(x, few, True, 1, ("a", "b", "c")), [x])
    for one, want, count in zip(found, wanted, few, strict=True):
        assert torch.equal(one, want[:, :count])


@pytest.mark.parametrize(("few", "whole"), [((5, 5), False), ((5, None), True), ((5, 6), True)])
def test_only_the_first_few_are_made(few: tuple[int | None, int | None], whole: bool) -> None:
    x = torch.randn(3, 400)
    lowered = lower(sorted_and_cut(x, few, True))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(lowered.bytecode)
        passes.run(module, "simplification", passes.SIMPLIFY, passes.Diagnostics())
        text = str(module)
    assert ("tensor<3x400xi64>" in text) == whole
    assert ("tensor<3x5xi64>" in text) or whole
