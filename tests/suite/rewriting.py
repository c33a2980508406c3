"""The suite's cases in other forms: with symbolic dims, and with their run-time parameters as initializers.

The published node cases have static shapes, and take at run time what real files store: axes, sizes, weights. A case
keeps its name in every form, so that results can be held against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from tests.suite.cases import Case
from tests.suite.parameters import parameters

IR_VERSION_WITHOUT_INPUTS = 4
"""Since this version of the file format an initializer need not be an input too."""

_RANK_IN_LAST_SIZE = frozenset({"GatherND", "ScatterND"})
"""Operators whose indices say with their last size how many axes they index."""


def dynamic(cases: Sequence[Case]) -> list[Case]:
    """Those of ``cases`` whose inputs have dims, each dim made a symbol of its own.

    What files declare stays: the shapes of parameters (how many axes there are is part of a model, and weights have known
    sizes), a 1 (which may be there to be broadcast), and a size that decides a rank. What the operator needs to be equal
    is for the program to check when it runs. Declared results keep their rank alone.
    """
    known = _ParametersByName(cases)
    made = (_dynamic(case, known) for case in cases if isinstance(case.model, bytes))
    return [case for case in made if case is not None]


def baked(cases: Sequence[Case]) -> list[Case]:
    """Those of ``cases`` that take parameters at run time, with these as initializers."""
    known = _ParametersByName(cases)
    made = (_baked(case, known) for case in cases if isinstance(case.model, bytes))
    return [case for case in made if case is not None]


class _ParametersByName:
    """The parameters of a case; those of an operator's expanded body are the operator's."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = {case.id: case for case in cases}

    def __call__(self, case: Case, model: onnx.ModelProto) -> list[str]:
        whole = self._cases.get(case.id.partition("_expanded")[0])
        names = set(parameters(model))
        if whole is not None and whole is not case and isinstance(whole.model, bytes):
            names |= set(parameters(onnx.ModelProto.FromString(whole.model)))
        return [value.name for value in model.graph.input if value.name in names]


def _dynamic(case: Case, known: _ParametersByName) -> Case | None:
    model = onnx.ModelProto.FromString(_bytes(case))
    kept = {*known(case, model), *(tensor.name for tensor in model.graph.initializer)}
    ranks = {node.input[1] for node in model.graph.node if node.op_type in _RANK_IN_LAST_SIZE}
    changed = [_rename(value, value.name in ranks) for value in model.graph.input if value.name not in kept]
    if not any(changed):
        return None
    for value in model.graph.output:
        _forget(value)
    del model.graph.value_info[:]
    return replace(case, model=model.SerializeToString())


def _rename(value: onnx.ValueInfoProto, keep_last: bool) -> bool:
    tensor = _tensor_type(value.type)
    if tensor is None or not tensor.HasField("shape"):
        return False
    dims = list(enumerate(tensor.shape.dim))
    renamed = [(axis, dim) for axis, dim in (dims[:-1] if keep_last else dims) if dim.dim_value != 1]
    for axis, dim in renamed:
        dim.dim_param = f"{value.name}_dim{axis}"
    return bool(renamed)


def _forget(value: onnx.ValueInfoProto) -> None:
    tensor = _tensor_type(value.type)
    for dim in tensor.shape.dim if tensor is not None else ():
        dim.ClearField("dim_value")


def _tensor_type(type_: onnx.TypeProto) -> onnx.TypeProto.Tensor | None:
    """The tensor's type, also inside an optional or a sequence; None for a type without tensors."""
    if type_.HasField("tensor_type"):
        return type_.tensor_type
    for field in ("optional_type", "sequence_type"):
        if type_.HasField(field):
            return _tensor_type(getattr(type_, field).elem_type)
    return None


def _baked(case: Case, known: _ParametersByName) -> Case | None:
    model = onnx.ModelProto.FromString(_bytes(case))
    stored = {tensor.name for tensor in model.graph.initializer}
    fed = [value.name for value in model.graph.input if value.name not in stored]
    names = set(known(case, model))
    for name in sorted(names):
        contents = [inputs[fed.index(name)] for inputs, _ in case.data_sets]
        same = all(isinstance(item, np.ndarray | np.generic) and np.array_equal(item, contents[0]) for item in contents)
        if not contents or not same:
            names.remove(name)
            continue
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(contents[0]), name))
    if not names:
        return None
    remaining = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(remaining)
    model.ir_version = max(model.ir_version, IR_VERSION_WITHOUT_INPUTS)
    data = tuple(
        ([item for name, item in zip(fed, inputs, strict=True) if name not in names], outputs)
        for inputs, outputs in case.data_sets
    )
    return replace(case, model=model.SerializeToString(), data_sets=data)


def _bytes(case: Case) -> bytes:
    assert isinstance(case.model, bytes)
    return case.model
