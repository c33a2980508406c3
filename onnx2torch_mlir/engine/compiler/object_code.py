"""LLVM's part: object files of finished modules, by MLIR's execution engine."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import code_parts, elf_objects, mlir_c
from onnx2torch_mlir.engine.compiler.code_parts import Part

if TYPE_CHECKING:
    from onnx2torch_mlir.engine.compiler.written_code import WrittenCode


def generate(module: ir.Module, entry: str, written: WrittenCode, seen: Collection[str] = ()) -> bytes:
    """The object file of a module that begins at ``entry``, and of what is ``written`` beside, of which only the functions
    ``seen`` are so from outside. The module is taken apart on the way."""
    parts = code_parts.split(module, code_parts.number_of_parts(), written.names)
    names = [entry, *(part.offered[0] for part in parts[1:])]
    jobs = [functools.partial(compiled, part, written.level, name) for part, name in zip(parts, names, strict=True)]
    own = [written.later(job) for job in jobs]
    others = written.objects()
    codes = [code.result() for code in own] + others
    hidden = {name for part in parts for name in part.offered} | (written.names - set(seen))
    return codes[0] if len(codes) == 1 else elf_objects.joined(codes, hidden)


def compiled(part: Part, level: int, entry: str) -> bytes:
    """The object file of a part. Which of its functions is the ``entry`` is all the same: it is compiled as a whole."""
    with tempfile.TemporaryDirectory(prefix="o2m-") as folder:
        file = Path(folder, "part.o")
        _write(part, level, entry, file)
        return file.read_bytes()


def _write(part: Part, level: int, entry: str, file: Path) -> None:
    library = mlir_c.library()
    engine = library.mlirExecutionEngineCreate(mlir_c.handle(part.module), level, 0, None, True, True)
    if engine.pointer is None:
        raise ValueError("LLVM does not take the module")
    try:
        for name in part.missing:
            # The engine loads what it compiles; nothing of it is called.
            library.mlirExecutionEngineRegisterSymbol(engine, mlir_c.text(name), _somewhere())
        # The look-up is what makes the engine compile; without it the dump would look up every function by itself.
        library.mlirExecutionEngineLookup(engine, mlir_c.text(entry))
        library.mlirExecutionEngineDumpToObjectFile(engine, mlir_c.text(str(file)))
    finally:
        library.mlirExecutionEngineDestroy(engine)


@functools.cache
def _somewhere() -> int:
    return ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value or 0
