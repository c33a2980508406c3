"""The sentence of a finding as one of its operator: without what is particular to one model."""

from __future__ import annotations

import re

from onnx2torch_mlir.specs import OperatorVersion

LONGEST = 240

_QUOTED = re.compile(r"(?<!\w)(['\"`])([^'\"`]*)\1")
_SYMBOL = re.compile(r"\b\w+_dim\d+\b")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b|/\S+/")
_HERE = re.compile(r" \(here .*")
_NUMBERS = re.compile(r"\d+(, ?\d+){2,}")


def in_general(reason: str, version: OperatorVersion) -> str:
    """The first line of ``reason``, without names of values and files, addresses, made-up dims and the sizes of a run.

    The names of the operator's own inputs, outputs and attributes stay.
    """
    own = {formal.name for formal in (*version.inputs, *version.outputs)} | version.attributes.keys()

    def quoted(match: re.Match[str]) -> str:
        return match[0] if match[2] in own or " " in match[2] else "…"

    line = next(iter(reason.strip().splitlines()), "")
    for pattern, text in ((_HERE, ""), (_ADDRESS, "…"), (_SYMBOL, "a dim"), (_NUMBERS, "…")):
        line = pattern.sub(text, line)
    line = _QUOTED.sub(quoted, line)
    return line if len(line) <= LONGEST else line[: LONGEST - 2].rsplit(" ", 1)[0] + " …"
