"""Loops that go from where they are in memory to where what they read there sends them, as a walk down a tree does.

LLVM sees several walks side by side and reads for them by gathers, each of which waits for the slowest and the one before.
Plain loads of walks that know nothing of each other are all under way at once: on AMD's Zen 4 they take a fourth of the time.
"""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.walks import functions, nested, symbol

_LOOPS = ("scf.while", "scf.for", "scf.parallel")
_LOAD = "memref.load"


def functions_that_chase(module: ir.Module) -> frozenset[str]:
    """The names of the functions in which such a loop is."""
    return frozenset(symbol(function) for function in functions(module) if any(map(_chases, nested(function))))


def _chases(loop: ir.Operation) -> bool:
    """Whether it is an innermost loop whose end only the run tells, and reads at a place that it has read before."""
    if loop.name != "scf.while":
        return False
    known: set[ir.Value] = set()
    chases = False
    for operation in nested(loop):
        if operation.name in _LOOPS:
            return False
        follows = any(operand in known for operand in operation.operands)
        chases = chases or (follows and operation.name == _LOAD)
        if follows or operation.name == _LOAD:
            known.update(operation.results)
    return chases
