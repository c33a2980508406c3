"""Programs in MLIR text for the tests of the engine."""

import ml_dtypes
import numpy as np
import sympy
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.lowering.lowered import Lowered, Weight

N = sympy.Symbol("s0", integer=True)
M = sympy.Symbol("s1", integer=True)

MLIR = {
    torch.bool: "i1",
    **{getattr(torch, f"{sign}int{bits}"): f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}
NUMPY = {dtype: np.dtype(ml_dtypes.bfloat16 if name == "bf16" else str(dtype)[6:]) for dtype, name in MLIR.items()}


def tensor(dtype, shape):
    """The type of a tensor; symbolic dims are dynamic."""
    dims = "".join(f"{dim if isinstance(dim, int) else '?'}x" for dim in shape)
    return f"tensor<{dims}{MLIR[dtype]}>"


def lowered(body, inputs, outputs, weights=(), checks=(), dim_names=None):
    """A `Lowered` whose @main has ``body``, inputs ``%a0``… (then weights) of (dtype, shape)."""
    specs = [TensorSpec(f"a{i}", *spec) for i, spec in enumerate(inputs)]
    constants = [
        Weight(f"w{i}", array, TensorSpec(f"w{i}", dtype, tuple(shape)))
        for i, (array, dtype, shape) in enumerate(weights)
    ]
    results = [TensorSpec(f"r{i}", *spec) for i, spec in enumerate(outputs)]
    arguments = [*specs, *(weight.spec for weight in constants)]
    parameters = ", ".join(f"%a{i}: {tensor(s.dtype, s.shape)}" for i, s in enumerate(arguments))
    types = ", ".join(tensor(s.dtype, s.shape) for s in results)
    text = f"func.func @main({parameters}) -> ({types}) {{\n{body}\n}}"
    names = dim_names or {"s0": "batch", "s1": "time"}
    return Lowered(text.encode(), tuple(specs), tuple(constants), tuple(results), tuple(checks), names)


def run(body, inputs, outputs, arrays, **more):
    """Compile and run."""
    return engine.compile(lowered(body, inputs, outputs, **more)).run(arrays)


def pointwise(scalar, sources, target):
    """A body that applies ``scalar`` (%x0 … to %r) along one dynamic dim; for `run` with dim N."""
    count = len(sources)
    maps = ", ".join(["affine_map<(d) -> (d)>"] * (count + 1))
    values = ", ".join(f"%a{i}" for i in range(count))
    types = ", ".join(tensor(dtype, (N,)) for dtype in sources)
    arguments = ", ".join(f"%x{i}: {MLIR[dtype]}" for i, dtype in enumerate(sources))
    result = tensor(target, (N,))
    return f"""
  %zero = arith.constant 0 : index
  %n = tensor.dim %a0, %zero : {tensor(sources[0], (N,))}
  %e = tensor.empty(%n) : {result}
  %t = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({values} : {types}) outs(%e : {result}) {{
  ^bb0({arguments}, %out: {MLIR[target]}):
    {scalar}
    linalg.yield %r : {MLIR[target]}
  }} -> {result}
  return %t : {result}"""


def run_pointwise(scalar, sources, target, arrays):
    """Compile and run `pointwise`; the one result."""
    return run(pointwise(scalar, sources, target), [(d, (N,)) for d in sources], [(target, (N,))], arrays)[0]
