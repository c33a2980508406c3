from __future__ import annotations

import numpy as np
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.handoff.view_plan import plan_view

B, S, U = sympy.symbols("B S U", integer=True, nonnegative=True)
_VALUES = {B: 2, S: 7, U: 3}


def _size(dim):
    return dim if isinstance(dim, int) else int(dim.subs(_VALUES))


def _follow(source, result):
    """Apply the plan to real numbers and compare with a reshape."""
    start = tuple(map(_size, source))
    array = np.arange(np.prod(start, dtype=int)).reshape(start)
    shape = list(start)
    for step in plan_view(tuple(source), tuple(result)):
        at, count = step.dim, step.count
        if step.kind == "flatten":
            shape[at : at + count] = [int(np.prod(shape[at : at + count]))]
        elif step.kind == "unflatten":
            parts = [_size(dim) for dim in result[step.result_dim : step.result_dim + count]]
            assert np.prod(parts, dtype=int) == shape[at]
            shape[at : at + 1] = parts
        elif step.kind == "squeeze":
            assert shape.pop(at) == 1
        elif step.kind == "unsqueeze":
            shape.insert(at, 1)
        assert tuple(shape) == tuple(map(_size, step.shape)), step
        array = array.reshape(shape)
    assert tuple(shape) == tuple(map(_size, result))


_ATOMS = st.lists(st.sampled_from([B, S, U, 1, 2, 3, 4]), max_size=6)


def _grouped(draw, atoms):
    dims = []
    position = 0
    while position < len(atoms):
        take = draw(st.integers(1, 3))
        dims.append(to_dim(sympy.Mul(*atoms[position : position + take])))
        position += take
        if draw(st.booleans()):
            dims.append(1)
    return dims


@settings(deadline=None, max_examples=60)
@given(st.data(), _ATOMS)
def test_any_regrouping_of_sizes_is_followed(data, atoms):
    _follow(_grouped(data.draw, atoms), _grouped(data.draw, atoms))


def test_what_belongs_together_is_found():
    steps = plan_view(
        (
            B,
            S,
            64,
        ),
        (
            B * S,
            64,
        ),
    )
    assert [(step.kind, step.dim, step.count) for step in steps] == [("flatten", 0, 2)]
    steps = plan_view(
        (
            B * S,
            64,
        ),
        (
            B,
            S,
            4,
            16,
        ),
    )
    assert [(step.kind, step.dim, step.count) for step in steps] == [("unflatten", 0, 2), ("unflatten", 2, 2)]


def test_what_cannot_be_proven_is_flattened_and_split():
    unknown = sympy.Symbol("unknown", integer=True)
    assert [
        step.kind
        for step in plan_view(
            (
                B,
                S,
                64,
            ),
            (
                unknown,
                32,
            ),
        )
    ] == ["flatten", "unflatten"]
    assert [step.kind for step in plan_view((B,), ())] == ["assume", "squeeze"]
    assert [step.kind for step in plan_view((), (B,))] == ["unsqueeze", "assume"]
