"""The reference of a case: onnxruntime as far as it can be brought to run it, else ONNX's evaluator."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx2torch_mlir.hosting import OnnxruntimeSession
from tools.fuzz_ops.buffers import run_shared, shared_by
from tools.fuzz_ops.case import Case
from tools.fuzz_ops.properties import formula_of
from tools.fuzz_ops.restate import detour, restated
from tools.fuzz_ops.stated import Stated
from tools.fuzz_ops.widen import Unsuitable, Wanted, declared, held_by_float, narrowed, widened


@dataclass(frozen=True)
class Oracle:
    """What a reference gives for ``case`` (the one that was asked for, or with numbers that the reference holds)."""

    name: str
    case: Case
    wanted: list[Wanted]

    @property
    def values(self) -> list[Any]:
        """The results in the types of the case."""
        return [item.plain for item in self.wanted]


def oracle(case: Case) -> Oracle:
    """The first reference that runs ``case``: a formula, onnxruntime, onnxruntime on the same node stated at another
    version, in other types, or both, and at last onnx.reference.

    Raises:
        Refusal: O2M-V002 where none does.
    """
    # Late, for it imports torch.
    from onnx2torch_mlir.verification.reference import run_reference

    if formula := formula_of(case):
        return Oracle("a formula", case, [value if isinstance(value, Wanted) else Wanted(value) for value in formula(case)])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        around = detour(case)
        found = _plain(case) if around is None else _stated(case, around, around.case, declared(case))
        found = found or next(_elsewhere(case), None) or _by_parts(case)
        if found is not None:
            return found
        run = run_reference(case.model(), case.feeds())
    return Oracle(run.name, case, [Wanted(value) for value in run.outputs])


def _plain(case: Case) -> Oracle | None:
    try:
        if shared_by(case):
            name, results = run_shared(case)
            return Oracle(name, case, [Wanted(value) for value in results])
        session = OnnxruntimeSession(case.model())
        return Oracle(session.name, case, [Wanted(value) for value in session.run(case.feeds())])
    except Exception:
        return None


def _elsewhere(case: Case) -> Iterator[Oracle]:
    """onnxruntime on what means the same as ``case``."""
    dtypes = declared(case)
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


_LINEAR = "Resize|GridSample|Pad|Concat|Expand|Tile|Gather|GatherElements|GatherND|Slice|Split|Trilu|CenterCropPad|Col2Im"


def _by_parts(case: Case) -> Oracle | None:
    """The real and the imaginary part each by onnxruntime, which knows no complex numbers, for operators that are linear."""
    complexes = [item is not None and getattr(item.array, "dtype", np.dtype(bool)).kind == "c" for item in case.inputs]
    if not any(complexes) or not re.fullmatch(_LINEAR, case.op):
        return None
    held = held_by_float(case)
    kind = next(item.array.dtype for item, found in zip(held.inputs, complexes, strict=True) if found and item is not None)
    parts = []
    for part in (np.real, np.imag):
        inputs = tuple(
            replace(item, array=np.ascontiguousarray(part(item.array))) if found and item is not None else item
            for item, found in zip(held.inputs, complexes, strict=True)
        )
        result = oracle(replace(held, inputs=inputs))
        if not result.name.startswith("onnxruntime"):
            return None
        parts.append(result)
    pairs = zip(parts[0].wanted, parts[1].wanted, strict=True)
    wanted = [Wanted(np.asarray(real.value + 1j * imaginary.value), kind) for real, imaginary in pairs]
    return Oracle(f"{parts[0].name} by parts", held, wanted)


def _stated(case: Case, stated: Stated, model: Case, dtypes: list[np.dtype[Any] | None]) -> Oracle | None:
    try:
        session = OnnxruntimeSession(model.model())
        results = stated.finish(session.run(model.feeds()))
        known = dtypes if all(dtypes) or case.op != model.op else declared(stated.case)
        wanted = narrowed(case, results, known)
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
