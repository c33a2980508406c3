"""The reference of a case: onnxruntime as far as it can be brought to run it, else ONNX's evaluator."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx2torch_mlir.hosting import OnnxruntimeSession
from onnx2torch_mlir.verification.reference import run_reference
from tools.fuzz_ops.case import Case
from tools.fuzz_ops.properties import formula_of
from tools.fuzz_ops.restate import Stated, restated
from tools.fuzz_ops.widen import Unsuitable, Wanted, declared, held_by_float, narrowed, widened


@dataclass(frozen=True)
class Oracle:
    """What a reference gives for ``case`` (the one that was asked for, or with numbers that the reference holds)."""

    name: str
    case: Case
    wanted: list[Wanted]

    @property
    def values(self) -> list[Any]:
        """The results as they were computed."""
        return [item.value for item in self.wanted]


def oracle(case: Case) -> Oracle:
    """The first reference that runs ``case``: a formula, onnxruntime, onnxruntime on the same node stated at another
    version, in other types, or both, and at last onnx.reference.

    Raises:
        Refusal: O2M-V002 where none does.
    """
    if formula := formula_of(case):
        return Oracle("a formula", case, [Wanted(value) for value in formula(case)])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model = case.model()
        found = _plain(case)
        if found is None:
            found = next(_elsewhere(case, declared(model)), None)
        if found is not None:
            return found
        run = run_reference(model, case.feeds())
    return Oracle(run.name, case, [Wanted(value) for value in run.outputs])


def _plain(case: Case) -> Oracle | None:
    try:
        session = OnnxruntimeSession(case.model())
        return Oracle(session.name, case, [Wanted(value) for value in session.run(case.feeds())])
    except Exception:
        return None


def _elsewhere(case: Case, dtypes: list[np.dtype[Any] | None]) -> Iterator[Oracle]:
    """onnxruntime on what means the same as ``case``, whose outputs are of ``dtypes``."""
    for stated in restated(case):
        found = _stated(case, stated, stated.case, dtypes)
        if found is not None:
            yield found
    held = held_by_float(case)
    for stated in itertools.chain([Stated(held)], restated(held)):
        for wide in widened(stated.case):
            found = _stated(held, stated, wide, dtypes)
            if found is not None:
                yield found


def _stated(case: Case, stated: Stated, model: Case, dtypes: list[np.dtype[Any] | None]) -> Oracle | None:
    try:
        session = OnnxruntimeSession(model.model())
        results = stated.finish(session.run(model.feeds()))
        wanted = narrowed(case, results, dtypes)
    except Unsuitable:
        return None
    except Exception:
        # A version, type or attribute that onnxruntime does not know, however it says so.
        return None
    return Oracle(" ".join(filter(None, (session.name, stated.how, _types(stated.case, model)))), case, wanted)


def _types(case: Case, model: Case) -> str:
    changed = {
        f"{before.array.dtype} as {after.array.dtype}"
        for before, after in zip(case.inputs, model.inputs, strict=True)
        if before is not None and after is not None and before.array.dtype != after.array.dtype
    }
    return f"({', '.join(sorted(changed))})" if changed else ""
