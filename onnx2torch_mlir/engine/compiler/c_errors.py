"""How C functions tell what is wrong."""

from __future__ import annotations

from onnx2torch_mlir.engine.ahead_of_time import interface as c
from onnx2torch_mlir.engine.compiler.c_code import Function, Value


def given_error(f: Function, given: Value) -> Value:
    """Where errors go: to the caller, or nowhere."""
    error = f.choose(given.equals(0), f.memory(c.ERROR_BYTES), given)
    error.store(f.number(0, "i32"))
    error.store(f.number(0, "i8"), c.ERROR_TEXT)
    return error


def fail(f: Function, error: Value, code: int, form: str, *values: Value, give: Value | None = None) -> None:
    """End the function with an error; it gives the code if nothing else."""
    number = f.number(code, "i32")
    error.store(number)
    f.print_into(error.at(c.ERROR_TEXT), c.ERROR_BYTES - c.ERROR_TEXT, form, *values)
    f.give(give or number)
