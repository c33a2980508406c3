"""The second opinion: torch dialect -> linalg by upstream's own pipelines -> run, in a worker process."""

from __future__ import annotations

import ctypes

import numpy as np
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager
from torch_mlir.runtime import (
    get_ranked_memref_descriptor,
    make_nd_memref_descriptor,
    make_zero_d_memref_descriptor,
    ranked_memref_to_numpy,
)

from onnx2torch_mlir.handoff.context import parse
from onnx2torch_mlir.handoff.pipeline import TO_BACKEND

_TO_LLVM = (
    "func.func(refback-generalize-tensor-pad,refback-generalize-tensor-concat),canonicalize,func.func(tm-tensor-bufferize),"
    "one-shot-bufferize{bufferize-function-boundaries=1 allow-return-allocs-from-loops=1 "
    "function-boundary-type-conversion=identity-layout-map},"
    "refback-mlprogram-bufferize,canonicalize,func.func(tm-tensor-to-loops),func.func(refback-munge-memref-copy),"
    "func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,func.func(refback-expand-ops-for-llvm),"
    "func.func(arith-expand),func.func(convert-math-to-llvm),convert-math-to-libm,expand-strided-metadata,lower-affine,"
    "finalize-memref-to-llvm,func.func(convert-arith-to-llvm),convert-func-to-llvm{use-bare-ptr-memref-call-conv=0},"
    "convert-cf-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts"
)

_DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i8": np.int8, "i1": np.bool_}


def run(bytecode: bytes, cases: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Compile once, run ``main`` on each of the lists of inputs; the results in order."""
    module = parse(bytecode)
    with module.context:
        for pipeline in (TO_BACKEND, "torch-backend-to-linalg-on-tensors-backend-pipeline"):
            PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        main = next(op for op in module.body if getattr(op, "name", None) and op.name.value == "main")
        main.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        results = [ir.RankedTensorType(t) for t in main.type.results]
        PassManager.parse(f"builtin.module({_TO_LLVM})").run(module.operation)
        engine = ExecutionEngine(module, opt_level=1)
    return [_invoke(engine, results, inputs) for inputs in cases]


def _invoke(engine: ExecutionEngine, results: list[ir.RankedTensorType], inputs: list[np.ndarray]) -> list[np.ndarray]:
    arrays = [np.array(array, order="C") for array in inputs]
    arguments = [get_ranked_memref_descriptor(array) for array in arrays]
    out = _results(results)
    engine.invoke("main", ctypes.pointer(ctypes.pointer(out)), *(ctypes.pointer(ctypes.pointer(a)) for a in arguments))
    descriptors = [getattr(out, name) for name, _ in out._fields_]
    return [
        np.array(ranked_memref_to_numpy(ctypes.pointer(descriptor)))
        if result.rank
        else np.array(np.ctypeslib.as_array(descriptor.aligned, (1,))[descriptor.offset])
        for descriptor, result in zip(descriptors, results, strict=True)
    ]


def _results(results: list[ir.RankedTensorType]) -> ctypes.Structure:
    fields = []
    for index, result in enumerate(results):
        element = np.ctypeslib.as_ctypes_type(_DTYPES[str(result.element_type)])
        one = make_nd_memref_descriptor(result.rank, element) if result.rank else make_zero_d_memref_descriptor(element)
        fields.append((f"result_{index}", one))
    return type("Results", (ctypes.Structure,), {"_fields_": fields})()
