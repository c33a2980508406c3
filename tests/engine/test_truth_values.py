"""Truth values in memory: bytes for LLVM, and the same numbers."""

import numpy as np
import pytest
import torch
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import truth_values
from tests.engine.programs import run_pointwise

B, F = torch.bool, torch.float32


def test_loads_and_stores_are_of_bytes():
    text = """llvm.func @f(%from: !llvm.ptr, %to: !llvm.ptr) {
      %x = llvm.load %from : !llvm.ptr -> i1
      %y = llvm.load %to : !llvm.ptr -> i32
      llvm.store %x, %to : i1, !llvm.ptr
      llvm.store %y, %from : i32, !llvm.ptr
      llvm.return
    }"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        truth_values.as_bytes(module)
        assert module.operation.verify()
        lines = [line.strip() for line in str(module).splitlines()]
    assert [line.split(" : ")[-1] for line in lines if "llvm.load" in line] == ["!llvm.ptr -> i8", "!llvm.ptr -> i32"]
    assert [line.split(" : ")[-1] for line in lines if "llvm.store" in line] == ["i8, !llvm.ptr", "i32, !llvm.ptr"]
    assert sum("llvm.trunc" in line or "llvm.zext" in line for line in lines) == 2


@pytest.mark.parametrize("count", [0, 1, 7, 16, 67, 1025])
def test_read_and_written(count):
    random = np.random.default_rng(count)
    one, other = (random.random(count) < 0.5 for _ in range(2))
    x = random.standard_normal(count).astype("f")
    chosen = run_pointwise("%r = arith.select %x0, %x1, %x1 : f32", [B, F], F, [one, x])
    np.testing.assert_array_equal(chosen, x)
    both = run_pointwise("%r = arith.andi %x0, %x1 : i1", [B, B], B, [one, other])
    assert both.dtype == np.bool_
    np.testing.assert_array_equal(both, one & other)
    np.testing.assert_array_equal(both.view(np.uint8), (one & other).astype(np.uint8))
    less = "%z = arith.constant 0.25 : f32\n %l = arith.cmpf olt, %x1, %z : f32\n %r = arith.xori %l, %x0 : i1"
    np.testing.assert_array_equal(run_pointwise(less, [B, F], B, [one, x]), (x < 0.25) ^ one)
