"""Which operations on f32 and f64 become the arithmetic of vector_math.py, and what is made of several of them at once."""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import vector_doubles, vector_math
from onnx2torch_mlir.engine.compiler.scalar_code import Scalar
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, nested
from onnx2torch_mlir.hints import NOT_POSITIVE

_EASY_EXPONENTS = (-1, 0, 0.5, 1, 2)
"""Of powers that LLVM makes quotients, roots and products of."""


def expand(module: ir.Module) -> None:
    """Replace the functions of `vector_math.FUNCTIONS` on f32, and those of vector_doubles.py on f64, by their expansions."""
    tables = {ir.F32Type.get(): vector_math.FUNCTIONS, ir.F64Type.get(): vector_doubles.FUNCTIONS}
    for function in functions(module):
        _expand_sigmoids(function)
        _expand_gelus(function)
        for operation in nested(function):
            table = tables.get(operation.results[0].type, {}) if len(operation.results) == 1 else {}
            expansion = table.get(operation.name)
            is_easy = operation.name == "math.powf" and constant_of(operation.operands[1]) in _EASY_EXPONENTS
            if expansion is None or is_easy:
                continue
            if expansion is vector_math.exp and NOT_POSITIVE in operation.attributes:
                expansion = vector_math.exp_at_most_1
            with ir.InsertionPoint(operation), operation.location:
                if expansion is vector_math.erf:
                    # Of a normal distribution's function, one product less.
                    source, factor = _multiple(operation.operands[0])
                    result = vector_math.erf(Scalar(source), factor)
                else:
                    result = expansion(*(Scalar(operand) for operand in operation.operands))
            operation.results[0].replace_all_uses_with(result.value)
            operation.erase()


def _expand_sigmoids(function: ir.Operation) -> None:
    """Replace what divides 1 by the sum of 1 and e to the -x."""
    for operation in _named_of_single(function, "arith.divf"):
        one, total = operation.operands
        power = _term_beside_1(total, "math.exp")
        if power is None or constant_of(one) != 1:
            continue
        (exponent,) = power.owner.operation.operands
        negated = _operands_of(exponent, "arith.negf")
        if negated and _are_used_once(total, power, exponent):
            with ir.InsertionPoint(operation), operation.location:
                result = vector_math.sigmoid(Scalar(negated[0]))
            _replace(operation, result, total, power, exponent)


def _expand_gelus(function: ir.Operation) -> None:
    """Replace what multiplies x, or a positive multiple, by the sum of 1 and the error function of another."""
    for operation in _named_of_single(function, "arith.mulf"):
        for number, total in (operation.operands, list(operation.operands)[::-1]):
            error = _term_beside_1(total, "math.erf")
            if error is None or not _are_used_once(total, error):
                continue
            source, factor = _multiple(error.owner.operation.operands[0])
            if _multiple(number)[0] != source:
                continue
            with ir.InsertionPoint(operation), operation.location:
                result = vector_math.times_1_plus_erf(Scalar(number), Scalar(source), factor)
            _replace(operation, result, total, error)
            break


def _named_of_single(function: ir.Operation, name: str) -> list[ir.Operation]:
    """The operations ``name`` on f32."""
    return [one for one in nested(function) if one.name == name and isinstance(one.results[0].type, ir.F32Type)]


def _term_beside_1(total: ir.Value, name: str) -> ir.Value | None:
    """The result of an operation ``name``, if ``total`` is the sum of it and 1."""
    terms = _operands_of(total, "arith.addf")
    found = next((value for value in terms if _operands_of(value, name)), None)
    return found if any(constant_of(value) == 1 for value in terms) else None


def _are_used_once(*values: ir.Value) -> bool:
    return all(len(list(value.uses)) == 1 for value in values)


def _replace(operation: ir.Operation, result: Scalar, *gone: ir.Value) -> None:
    """Let ``result`` stand for an operation's, which goes, and then what only it used, users first."""
    operation.results[0].replace_all_uses_with(result.value)
    for done in (operation, *(value.owner.operation for value in gone)):
        done.erase()


def _operands_of(value: ir.Value, name: str) -> list[ir.Value]:
    """What the operation ``name`` makes the value of; nothing if another makes it."""
    made = made_by(value, name)
    return [] if made is None else list(made.operands)


def _multiple(value: ir.Value) -> tuple[ir.Value, float]:
    """What the value is a multiple of, and the factor: positive, and not far from 1."""
    factors, quotient = _operands_of(value, "arith.mulf"), _operands_of(value, "arith.divf")
    for operands in (factors, factors[::-1], quotient):
        number = constant_of(operands[1]) if operands else None
        if number is not None and 0.25 <= number <= 4:
            return operands[0], 1 / number if quotient else float(number)
    return value, 1.0
