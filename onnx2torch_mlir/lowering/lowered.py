"""What the lowering hands to the engine: one MLIR module and all that is needed to call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy

from onnx2torch_mlir.core.signature import TensorSpec


@dataclass(frozen=True)
class Weight:
    """A constant tensor that the native code takes by pointer.

    ``array`` is a `torch.Tensor`, a numpy array, or a function of no arguments that returns one; it is asked for when
    the program is first run, and never copied unless it is strided or misaligned.
    """

    name: str
    array: Any | Callable[[], Any]
    spec: TensorSpec


@dataclass(frozen=True)
class Check:
    """A condition on the sizes of the inputs that has to hold before the program may be called.

    ``expression`` is a sympy boolean over the symbols of the inputs; ``message`` names the ONNX dims.
    """

    expression: sympy.Basic
    message: str


@dataclass(frozen=True)
class Lowered:
    """A program as linalg on tensors.

    ``bytecode`` is a module (bytecode or text) of the dialects linalg, tensor, arith, math, complex, scf, cf, func and
    index. Its ``func.func @main`` takes all inputs, then all weights, as ranked tensors with static or dynamic dims,
    and returns the outputs. Integers are signless, bool is ``i1``; the signedness is in the specs' dtypes. A
    ``cf.assert`` that fails ends the call with its message.

    A symbol that is by itself a dim of an input is bound by the inputs; other dims are expressions over these. A
    dim of an output whose symbol no input binds depends on the data. ``dim_names`` maps the name of a symbol to the
    ONNX dim it came from. ``defaults`` are inputs that may be left out, with what then takes their place.
    """

    bytecode: bytes
    inputs: tuple[TensorSpec, ...]
    weights: tuple[Weight, ...]
    outputs: tuple[TensorSpec, ...]
    checks: tuple[Check, ...] = ()
    dim_names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
