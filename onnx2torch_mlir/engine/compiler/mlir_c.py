"""Calls of MLIR's C interface (mlir-c/ExecutionEngine.h, mlir-c/Pass.h), by the library that Python's binding loads, too.

The binding holds the interpreter's lock while passes and LLVM work; called through ctypes, they let other threads go on.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from torch_mlir import _mlir_libs, ir
from torch_mlir.passmanager import PassManager


class Handle(ctypes.Structure):
    """MlirModule, MlirOperation, MlirPassManager, MlirExecutionEngine."""

    _fields_ = (("pointer", ctypes.c_void_p),)


class Text(ctypes.Structure):
    """MlirStringRef."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Result(ctypes.Structure):
    """MlirLogicalResult."""

    _fields_ = (("value", ctypes.c_int8),)


def run(manager: PassManager, operation: ir.Operation) -> bool:
    """Let the passes of ``manager`` change the operation; whether they succeed. Diagnostics go to the context's handlers.

    Python's objects for operations inside are not to be used any more.
    """
    return bool(library().mlirPassManagerRunOnOp(handle(manager), handle(operation)).value)


def text(written: str) -> Text:
    """A string for the interface."""
    encoded = written.encode()
    return Text(encoded, len(encoded))


def handle(binding: Any) -> Handle:
    """What one of the binding's objects stands for; it is valid as long as that is."""
    capsule = binding._CAPIPtr
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Handle(pointer(capsule, name(capsule)))


@functools.cache
def library() -> ctypes.CDLL:
    """The interface's functions that this package calls."""
    (file,) = Path(_mlir_libs.__file__).parent.glob("libTorchMLIRAggregateCAPI.*")
    found = ctypes.CDLL(str(file))
    paths = ctypes.POINTER(Text)
    signatures = {
        "ExecutionEngineCreate": (Handle, [Handle, ctypes.c_int, ctypes.c_int, paths, ctypes.c_bool, ctypes.c_bool]),
        "ExecutionEngineRegisterSymbol": (None, [Handle, Text, ctypes.c_void_p]),
        "ExecutionEngineLookup": (ctypes.c_void_p, [Handle, Text]),
        "ExecutionEngineDumpToObjectFile": (None, [Handle, Text]),
        "ExecutionEngineDestroy": (None, [Handle]),
        "PassManagerRunOnOp": (_Result, [Handle, Handle]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(found, f"mlir{name}")
        function.restype, function.argtypes = result, arguments
    return found
