"""Notes on what stands for sequences and optionals where a program is written out: it takes and gives tensors alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx2torch_mlir.core.signature import OptionalSpec, SequenceSpec, Spec, TensorSpec
from onnx2torch_mlir.diagnostics import Finding, Severity


def border_notes(inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[Finding]:
    """One note (O2M-C008) for each value that is no tensor: which arguments or results stand for it, and how."""
    return [*_notes("input", "argument", inputs), *_notes("output", "result", outputs)]


def _notes(role: str, place: str, specs: Sequence[Spec]) -> Iterator[Finding]:
    start = 0
    for spec in specs:
        count = len(spec.flat)
        if not isinstance(spec, TensorSpec):
            first, last = start, start + count - 1
            numbers = f"{place} {first}" if count == 1 else f"no {place}" if not count else f"{place}s {first} to {last}"
            told = "; ".join(_told(spec))
            reason = f"the {role} {spec} is no tensor; in the program {numbers} stand for it: {told or 'it is empty'}"
            yield Finding("O2M-C008", reason, case=spec.name, severity=Severity.NOTE)
        start += count


def _told(spec: Spec) -> Iterator[str]:
    """The parts of ``spec`` in their order."""
    if isinstance(spec, OptionalSpec):
        yield f"{spec.has} is whether it is there"
        if isinstance(spec.value, TensorSpec):
            yield f"{spec.value} is what is there, and anything of such a shape if it is absent"
        else:
            yield from _told(spec.value)
    elif isinstance(spec, SequenceSpec) and spec.packed:
        data, shapes = spec.flat
        yield f"{data} holds the elements of all its tensors, one tensor after another"
        yield f"{shapes} has a row of sizes for each tensor, filled up with -1 where its rank is lower"
    elif isinstance(spec, SequenceSpec):
        yield from (f"{item} is element {index}" for index, item in enumerate(spec.flat))
