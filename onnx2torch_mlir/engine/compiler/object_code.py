"""LLVM's part: object files of finished modules, by MLIR's execution engine (mlir-c/ExecutionEngine.h of the torch-mlir wheel).

Python's binding of it holds the interpreter's lock while LLVM works; called through ctypes it does not.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch_mlir import _mlir_libs, ir

from onnx2torch_mlir.engine.compiler import code_parts, elf_objects
from onnx2torch_mlir.engine.compiler.code_parts import Part

_WRAPPER = "_mlir_"
"""How the functions begin by which the execution engine would call those that it finds offered."""


class _Handle(ctypes.Structure):
    """MlirModule, MlirExecutionEngine."""

    _fields_ = (("pointer", ctypes.c_void_p),)


class _Text(ctypes.Structure):
    """MlirStringRef."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


def generate(module: ir.Module, level: int, entry: str) -> bytes:
    """The object file of a module that begins at ``entry``. The module is taken apart on the way."""
    parts = code_parts.split(module, code_parts.number_of_parts())
    with tempfile.TemporaryDirectory(prefix="o2m-") as folder, ThreadPoolExecutor(len(parts)) as pool:
        files = [Path(folder, f"{number}.o") for number in range(len(parts))]
        # Which function is looked up is all the same: a module is compiled as a whole.
        names = [entry, *(part.offered[0] for part in parts[1:])]
        list(pool.map(_write, parts, [level] * len(parts), names, files))
        codes = [file.read_bytes() for file in files]
    offered = {name for part in parts for name in part.offered}
    return codes[0] if len(codes) == 1 else elf_objects.joined(codes, offered | {_WRAPPER + name for name in offered})


def _write(part: Part, level: int, entry: str, file: Path) -> None:
    library = _library()
    engine = library.mlirExecutionEngineCreate(_handle(part.module), level, 0, None, True, True)
    if engine.pointer is None:
        raise ValueError("LLVM does not take the module")
    try:
        for name in part.missing:
            # The engine loads what it compiles; nothing of it is called.
            library.mlirExecutionEngineRegisterSymbol(engine, _text(name), _somewhere())
        # The look-up is what makes the engine compile; without it the dump would look up every function by itself.
        library.mlirExecutionEngineLookup(engine, _text(entry))
        library.mlirExecutionEngineDumpToObjectFile(engine, _text(str(file)))
    finally:
        library.mlirExecutionEngineDestroy(engine)


def _text(text: str) -> _Text:
    encoded = text.encode()
    return _Text(encoded, len(encoded))


def _handle(module: ir.Module) -> _Handle:
    capsule = module._CAPIPtr
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Handle(pointer(capsule, name(capsule)))


@functools.cache
def _somewhere() -> int:
    return ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value or 0


@functools.cache
def _library() -> ctypes.CDLL:
    """The library that MLIR's bindings load, too."""
    (file,) = Path(_mlir_libs.__file__).parent.glob("libTorchMLIRAggregateCAPI.*")
    library = ctypes.CDLL(str(file))
    paths = ctypes.POINTER(_Text)
    signatures = {
        "Create": (_Handle, [_Handle, ctypes.c_int, ctypes.c_int, paths, ctypes.c_bool, ctypes.c_bool]),
        "RegisterSymbol": (None, [_Handle, _Text, ctypes.c_void_p]),
        "Lookup": (ctypes.c_void_p, [_Handle, _Text]),
        "DumpToObjectFile": (None, [_Handle, _Text]),
        "Destroy": (None, [_Handle]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"mlirExecutionEngine{name}")
        function.restype, function.argtypes = result, arguments
    return library
