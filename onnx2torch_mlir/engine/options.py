"""What changes the machine code besides the program: LLVM's level, and which matchers are left out.

``ONNX2MLIR_OPT_LEVEL`` (0 to 3) replaces LLVM's optimization level, which is 3: at 0 a program compiles in less than half
the time and runs slower; its numbers may differ in the last place. ``ONNX2MLIR_DISABLE`` is a comma-separated list of
matchers (`MATCHERS`) whose work is left to plain loops, or ``all``: results agree within the tests' tolerances either way.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import objects

MATCHERS = (
    "arena",
    "attention",
    "contractions",
    "channels_last",
    "long_sums",
    "rows",
    "turns",
    "vector_math",
    "windows",
    "winograd",
)
"""arena: intermediate results as parts of one block of memory; attention: scores, what is done with their rows,
and products as one loop; contractions: sums of products as register tiles; channels_last: the layout of convolutions;
long_sums: a few sums or extremes of many numbers by parts; rows: nests over the same rows as one; turns: copies between arrays
that are dense along different axes; vector_math: functions as polynomials; windows: depthwise convolutions and pools over
channels that lie side by side, and pools over images by rows and by columns; winograd: convolutions with windows of 3 by 3 by
fewer products."""


@dataclass(frozen=True)
class Options:
    """How a program is compiled; ``inputs`` of @main's arguments are inputs, the others are weights.

    With ``profile`` there are clocks around what each node does. ``host`` is the processor as the process that will run the
    code may use it (`objects.host`); where it is not given, that is as the compiling process may use it.
    """

    level: int = 3
    disabled: frozenset[str] = frozenset()
    inputs: int = 0
    profile: bool = False
    host: str = ""

    def enabled(self, matcher: str) -> bool:
        """Whether the ``matcher`` (one of `MATCHERS`) is to be used."""
        return matcher not in self.disabled

    def key(self) -> bytes:
        """The options as bytes, for the name of what is kept of the code."""
        return f"{self.level} {sorted(self.disabled)} {self.inputs} {self.profile}".encode()


def of_environment(inputs: int) -> Options:
    """The options that the environment asks for; raises `Refusal` O2M-U001 for a bad value."""
    level = os.environ.get("ONNX2MLIR_OPT_LEVEL", "3")
    if level not in ("0", "1", "2", "3"):
        raise refuse("O2M-U001", f"ONNX2MLIR_OPT_LEVEL is {level!r}, it has to be 0, 1, 2 or 3", case="ONNX2MLIR_OPT_LEVEL")
    names = {name.strip() for name in os.environ.get("ONNX2MLIR_DISABLE", "").split(",")} - {""}
    if names == {"all"}:
        names = set(MATCHERS)
    if unknown := sorted(names - set(MATCHERS)):
        known = ", ".join(MATCHERS)
        reason = f"ONNX2MLIR_DISABLE names {unknown[0]!r}; it may name {known}, or all"
        raise refuse("O2M-U001", reason, case="ONNX2MLIR_DISABLE")
    return Options(int(level), frozenset(names), inputs, host=objects.unlike_others())
