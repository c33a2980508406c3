"""What operations write into is their own before bufferization compares it with everything else."""

from __future__ import annotations

from collections import Counter

import pytest
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


CARRIED = """func.func @main(%n: index, %s: index) -> tensor<?xi64> {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %value = arith.constant 1 : i64
    %other = arith.constant 2 : i64
    {empty}
    %t = tensor.empty(%n) : tensor<?xi64>
    %r:3 = scf.for %i = %zero to %n step %one iter_args(%x = %e, %y = %e, %z = %t)
        -> (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) {{
      %p:2 = scf.for %j = %zero to %s step %one iter_args(%a = %x, %b = %y) -> (tensor<?xi64>, tensor<?xi64>) {{
        %c = tensor.insert %value into %a[%j] : tensor<?xi64>
        %d = tensor.insert %other into %b[%j] : tensor<?xi64>
        scf.yield %c, %d : tensor<?xi64>, tensor<?xi64>
      }}
      %u = tensor.extract %p#0[%i] : tensor<?xi64>
      %v = tensor.extract %p#1[%i] : tensor<?xi64>
      %w = arith.addi %u, %v : i64
      %q = tensor.insert %w into %z[%i] : tensor<?xi64>
      scf.yield %p#0, %p#1, %q : tensor<?xi64>, tensor<?xi64>, tensor<?xi64>
    }}
    return %r#2 : tensor<?xi64>
}}"""
OUTER = "%o = scf.for %h = %zero to %n step %one iter_args(%g = %t) -> (tensor<?xi64>) {{"
WITHIN = CARRIED.replace("%r:3 = ", f"{OUTER}\n    %r:3 = ")
WITHIN = WITHIN.replace("%z = %t", "%z = %g").replace("return %r#2", "scf.yield %r#2 : tensor<?xi64>\n    }}\n    return %o")
EMPTIES = {
    "open": "%e = tensor.empty(%s) : tensor<?xi64>",
    "known": "%k = tensor.empty() : tensor<8xi64>\n    %e = tensor.cast %k : tensor<8xi64> to tensor<?xi64>",
}


@pytest.mark.parametrize("text", [CARRIED, WITHIN], ids=["first", "within another"])
@pytest.mark.parametrize("empty", EMPTIES)
def test_a_loop_carries_two_places(empty: str, text: str) -> None:
    """Bufferization lets both be one, for nobody reads what is empty."""
    for separated in (True, False):
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(text.format(empty=EMPTIES[empty]))
            if separated:
                destinations.separate(module)
            passes.run(module, "bufferization", passes.BUFFERIZE, passes.Diagnostics())
            (outer,) = (each for each in nested(module.operation) if each.name == "scf.for" and len(each.results) == 3)
            one, other, _ = (value.owner for value in list(outer.operands)[3:])
            if empty == "known":
                one, other = one.operands[0].owner, other.operands[0].owner
            assert (one != other) == separated
