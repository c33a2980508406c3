"""What a verification found: per output, and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onnx2torch_mlir.diagnostics import Finding, Report
from onnx2torch_mlir.verification.comparison import Comparison, Statistics
from onnx2torch_mlir.verification.divergence import Divergence


@dataclass
class VerifyReport:
    """A model's outputs against the reference's.

    ``engine`` says what ran ours ("native" or "eager"), ``reference`` what ran theirs, ``note`` why that is not
    onnxruntime. ``inputs`` describes the inputs; ``expected`` holds comparisons with outputs that came with the
    inputs, if any did. ``divergence`` is the first node that differs, where it was asked for and there is one.
    ``report`` has the stages with their times and all findings.
    """

    engine: str
    reference: str
    note: str
    inputs: dict[str, Statistics]
    outputs: tuple[Comparison, ...]
    expected: tuple[Comparison, ...] = ()
    divergence: Divergence | None = None
    report: Report = field(default_factory=Report)

    @property
    def passed(self) -> bool:
        """Whether every output agrees."""
        return all(item.agrees for item in (*self.outputs, *self.expected))

    @property
    def findings(self) -> list[Finding]:
        """All findings: those of the conversion, and one for each output that differs."""
        return self.report.findings

    @property
    def exit_code(self) -> int:
        """0 where everything agrees."""
        return self.report.exit_code

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "passed": self.passed,
            "engine": self.engine,
            "reference": self.reference,
            "note": self.note,
            "inputs": {name: str(item) for name, item in self.inputs.items()},
            "outputs": [item.as_dict() for item in self.outputs],
            "expected": [item.as_dict() for item in self.expected],
            "divergence": None if self.divergence is None else self.divergence.as_dict(),
            **self.report.as_dict(),
        }

    def __str__(self) -> str:
        lines = [f"{'passed' if self.passed else 'FAILED'}: {self.engine} against {self.reference}"]
        lines += [f"  ({self.note})"] if self.note else []
        lines += [f"  input  {name}: {item}" for name, item in self.inputs.items()]
        for word, items in (("output", self.outputs), ("stored", self.expected)):
            lines += [f"  {word} {_line(item)}" for item in items]
        lines += [str(self.divergence)] if self.divergence is not None else []
        return "\n".join(lines)


def _line(item: Comparison) -> str:
    if item.problem in ("dtype", "shape", "run"):
        return item.reason()
    ulp = "" if item.max_ulp is None else f", {item.max_ulp} ULP"
    text = f"{item.name} {item.theirs.dtype}{list(item.theirs.shape)}: max error {item.max_abs:.3g}"
    text += f" ({item.max_rel:.3g} relative{ulp}); allowed {item.allowed}"
    if item.spread is not None:
        return f"{text}: as close as the reference is to itself ({item.spread:.3g})"
    return f"{text}; {item.reason()}" if item.problem else f"{text}: agrees"
