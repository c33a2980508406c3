"""Code that is made in the test's own process, so that what a test replaces or looks into is what compiles."""

from onnx2torch_mlir.engine.compiler import contraction_plan, contractions, task
from onnx2torch_mlir.engine.engine import Engine
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.options import Options


def entry_of(program, *, disabled=()):
    """What compiling a `Lowered` gives, with every matcher but those ``disabled``."""
    return task.build(program.bytecode, Options(inputs=len(program.inputs), disabled=frozenset(disabled)))


def assume_vectors(monkeypatch, unit):
    """Let contractions be made for another vector unit: LLVM splits or widens vectors that this machine does not have."""
    for where in (contractions, contraction_plan):
        monkeypatch.setattr(where, "of_host", lambda: unit)


def engine_of(program, entry=None, *, threads=1):
    """The engine of a `Lowered`: of the ``entry`` that `task.build` gave for it, if that is not just made."""
    made = entry_of(program) if entry is None else entry
    packings = [Packing(*fields) for fields in made["packings"]]
    return Engine(program, made["object"], made["messages"], packings, made["derived"], read=made["weights"], threads=threads)
