"""From core programs to linalg on tensors.

`lower` walks the graph and calls one *rule* per primitive. To write a rule, put a function into the file of its family
(and the family's module name into `registry._FAMILIES`)::

    @rule("aten.mm.default")
    def mm(ctx, node, x, y):
        out = ctx.spec(node)               # dtype and sizes that the program declares
        ...
        return Operand(out.dtype, out.shape, value)

Its parameters are the primitive's own, with the schema's defaults. Tensors come as `Operand` (value, dtype, shape);
sizes and numbers as Python numbers or, where they are symbolic, as sympy expressions, which `ctx.sizes.value(dim)`
turns into an index value. A rule may refuse (O2M-L002). It never assumes that two sizes are equal:
`ctx.require_equal` checks them where they are not known to be. The driver compares what it returns with the
program's declaration.

Helpers: `pointwise.pointwise(ctx, out, "sub", x, y)` applies a row of the scalar table with promotion and broadcasting,
`pointwise.elementwise` takes a body on elements, `ctx.b.generic` is any linalg.generic, `ctx.loop`, `ctx.branch` and
`ctx.repeat_while` are scf. Within a body `casts.cast` converts an element.
"""

from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.lowering.lowered import Check, Lowered, Weight

if TYPE_CHECKING:
    from onnx2torch_mlir.lowering.driver import lower

__all__ = ["Check", "Lowered", "Weight", "lower"]


def __getattr__(name: str) -> Any:
    # Running what was lowered needs no MLIR; lowering does.
    if name != "lower":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onnx2torch_mlir.lowering.driver import lower

    return lower
