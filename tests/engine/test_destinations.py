"""What operations write into is their own before bufferization compares it with everything else."""

from __future__ import annotations

from collections import Counter

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import destinations, passes
from onnx2torch_mlir.engine.compiler.walks import nested

LAYERS = 5
PRODUCT = """
    %p{n} = linalg.matmul ins(%p{m}, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>"""
MODULE = """func.func @main(%p0: tensor<?x8xf32>, %w: tensor<8x8xf32>, %n: index, %s: index)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {{
    %z = arith.constant 0.0 : f32
    %e = tensor.empty(%s) : tensor<?x8xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>{products}
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %r = scf.for %i = %zero to %n step %one iter_args(%x = %p0) -> (tensor<?x8xf32>) {{
      %y = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
      %t = linalg.add ins(%y, %f : tensor<?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
      scf.yield %t : tensor<?x8xf32>
    }}
    return %p{last}, %r : tensor<?x8xf32>, tensor<?x8xf32>
}}"""


def test_each_product_of_a_block_fills_its_own() -> None:
    products = "".join(PRODUCT.format(n=n + 1, m=n) for n in range(LAYERS))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(MODULE.format(products=products, last=LAYERS))
        destinations.separate(module)
        assert module.operation.verify()
        found = list(nested(module.operation))
        (loop,) = (operation for operation in found if operation.name == "scf.for")
        inside = list(nested(loop))
        outside = [operation for operation in found if operation not in inside]
        written = [operation.operands[2] for operation in outside if operation.name == "linalg.matmul"]
        assert len(set(written)) == len(written) == LAYERS
        assert len({value.owner.operation.operands[1] for value in written}) == LAYERS
        assert not [operation for operation in inside if operation.name in ("linalg.fill", "tensor.empty")]
        passes.run(module, "bufferization", passes.BUFFERIZE, passes.Diagnostics())
        names = Counter(operation.name for operation in nested(module.operation) if operation not in inside)
        assert names["linalg.fill"] > LAYERS
