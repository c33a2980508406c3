"""The second opinion: torch dialect -> linalg by upstream's own pipelines -> run, in a worker process."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager
from torch_mlir.runtime import get_ranked_memref_descriptor, ranked_memref_to_numpy

from onnx2torch_mlir.handoff.context import parse
from onnx2torch_mlir.handoff.pipeline import TO_BACKEND

_TO_LLVM = (
    "func.func(refback-generalize-tensor-pad,refback-generalize-tensor-concat),canonicalize,"
    "one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map},"
    "refback-mlprogram-bufferize,canonicalize,func.func(tm-tensor-to-loops),func.func(refback-munge-memref-copy),"
    "func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,func.func(refback-expand-ops-for-llvm),"
    "func.func(arith-expand),func.func(convert-math-to-llvm),convert-math-to-libm,expand-strided-metadata,lower-affine,"
    "finalize-memref-to-llvm,func.func(convert-arith-to-llvm),convert-func-to-llvm{use-bare-ptr-memref-call-conv=0},"
    "convert-cf-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts"
)


def run(bytecode: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Run ``main``, the results in order."""
    import ctypes

    module = parse(bytecode)
    with module.context:
        for pipeline in (TO_BACKEND, "torch-backend-to-linalg-on-tensors-backend-pipeline"):
            PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        main = next(op for op in module.body if getattr(op, "name", None) and op.name.value == "main")
        main.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        results = [ir.RankedTensorType(t) for t in main.type.results]
        PassManager.parse(f"builtin.module({_TO_LLVM})").run(module.operation)
        engine = ExecutionEngine(module, opt_level=1)
    arrays = [np.array(array, order="C") for array in inputs]
    arguments = [get_ranked_memref_descriptor(array) for array in arrays]
    dtypes = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i1": np.bool_}

    class Results(ctypes.Structure):
        pass

    from torch_mlir.runtime import make_nd_memref_descriptor, make_zero_d_memref_descriptor

    types = []
    for result in results:
        ctp = np.ctypeslib.as_ctypes_type(dtypes[str(result.element_type)])
        types.append(make_nd_memref_descriptor(result.rank, ctp) if result.rank else make_zero_d_memref_descriptor(ctp))
    Results._fields_ = [(f"r{i}", t) for i, t in enumerate(types)]
    out = Results()
    engine.invoke("main", ctypes.pointer(ctypes.pointer(out)), *(ctypes.pointer(ctypes.pointer(a)) for a in arguments))
    return [np.array(ranked_memref_to_numpy(ctypes.pointer(getattr(out, f"r{i}")))) for i in range(len(types))]
