"""Runs a lowered program through the plainest pipeline of upstream passes: the reference for the rules alone."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch_mlir import ir
from torch_mlir._mlir_libs import _torchMlir  # noqa: F401  (registers the refback passes)
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager
from torch_mlir.runtime import get_ranked_memref_descriptor, make_nd_memref_descriptor

from onnx2torch_mlir.lowering import Lowered

PIPELINE = """builtin.module(
canonicalize,cse,
func.func(refback-generalize-tensor-pad,refback-generalize-tensor-concat),
one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map},
canonicalize,cse,
func.func(refback-munge-memref-copy),
func.func(llvm-request-c-wrappers),
convert-linalg-to-loops,lower-affine,convert-scf-to-cf,
expand-strided-metadata,lower-affine,
func.func(convert-math-to-llvm),math-expand-ops,convert-math-to-libm,
func.func(arith-expand{include-bf16=1}),
convert-arith-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,
convert-arith-to-llvm,convert-ub-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts,canonicalize,cse)"""

_VIEWS = {
    torch.bfloat16: ml_dtypes.bfloat16,
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float8_e4m3fnuz: ml_dtypes.float8_e4m3fnuz,
    torch.float8_e5m2: ml_dtypes.float8_e5m2,
    torch.float8_e5m2fnuz: ml_dtypes.float8_e5m2fnuz,
    torch.float8_e8m0fnu: ml_dtypes.float8_e8m0fnu,
}
_BITS = {1: (torch.uint8, np.uint8), 2: (torch.int16, np.int16), 4: (torch.int32, np.int32), 8: (torch.int64, np.int64)}


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    bits, _ = _BITS[tensor.dtype.itemsize]
    return tensor.contiguous().view(bits).numpy()


def run(lowered: Lowered, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Compile and call; results are copied out."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(lowered.bytecode)
        PassManager.parse(PIPELINE).run(module.operation)
        engine = ExecutionEngine(module, opt_level=1)
        arrays = [to_numpy(t) for t in inputs]
        results = []
        for spec in lowered.outputs:
            _, bits = _BITS[spec.dtype.itemsize]
            results.append(make_nd_memref_descriptor(len(spec.shape), np.ctypeslib.as_ctypes_type(bits))())
        struct = type(
            "Results", (ctypes.Structure,), {"_fields_": [(f"r{i}", type(r)) for i, r in enumerate(results)]}
        )()
        pointers = [ctypes.pointer(ctypes.pointer(struct))]
        pointers += [ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(a))) for a in arrays]
        engine.invoke("main", *pointers)
        out = []
        for i, spec in enumerate(lowered.outputs):
            out.append(_copy_out(getattr(struct, f"r{i}"), spec.dtype, len(spec.shape)))
        return out


def _copy_out(descriptor: Any, dtype: torch.dtype, rank: int) -> torch.Tensor:
    torch_bits, numpy_bits = _BITS[dtype.itemsize]
    shape = [descriptor.shape[i] for i in range(rank)] if rank else []
    strides = [descriptor.strides[i] * dtype.itemsize for i in range(rank)] if rank else []
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    base = ctypes.cast(descriptor.aligned, ctypes.POINTER(np.ctypeslib.as_ctypes_type(numpy_bits)))
    start = ctypes.addressof(base.contents) + int(descriptor.offset) * dtype.itemsize
    reach = sum((n - 1) * s for n, s in zip(shape, strides)) + dtype.itemsize
    raw = (ctypes.c_char * reach).from_address(start)
    view = np.ndarray(shape, numpy_bits, raw, 0, strides)
    return torch.from_numpy(view.copy()).view(dtype)
