"""bfloat16 as 16-bit integers in the finished LLVM module.

By then all arithmetic on bf16 is done in f32 and the conversions are integer operations, so that a bf16 is only loaded,
stored, passed on and cast to its bits. Left as a float type, LLVM's code generator may still widen and narrow such values,
by a routine of a compiler's run-time library that most systems lack. Functions that call the processor's instructions on such
numbers keep them: they do nothing else with these.
"""

from __future__ import annotations

import re
import struct

from torch_mlir import ir

_CONSTANT = re.compile(r"llvm\.mlir\.constant\(([^\s():]+) : bf16\) : bf16")
_TYPE = re.compile(r"@[\w.$]+|\bbf16\b|(?<=\dx)bf16\b")
"""The type, or a symbol: names such as ``@__constant_2xbf16`` stay."""

_FUNCTION = re.compile(r"^(?=  llvm\.func )", re.MULTILINE)
INSTRUCTIONS = "llvm.x86.avx512bf16."
"""What the names of intrinsics begin with that take bf16."""

NAME = "bf16"
"""Of the type, in any module's text."""


def are_in(module: ir.Module) -> bool:
    """Whether the module has bf16; the earlier it is asked, the shorter is its text."""
    return NAME in module.operation.get_asm(assume_verified=True, use_local_scope=True, large_elements_limit=0)


def as_bits(module: ir.Module) -> ir.Module:
    """A copy of the module in which every bf16 is an i16, but for functions that call `INSTRUCTIONS`."""
    text = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
    parts = _FUNCTION.split(text)
    with module.context:
        return ir.Module.parse("".join(part if INSTRUCTIONS in part else _retyped(part) for part in parts))


def _retyped(text: str) -> str:
    return "\n".join(line if "llvm.mlir.global" in line else _of_line(line) for line in text.split("\n"))


def _of_line(line: str) -> str:
    retyped = _CONSTANT.sub(_integer, line)
    return _TYPE.sub(lambda match: match[0] if match[0].startswith("@") else "i16", retyped)


def _integer(match: re.Match[str]) -> str:
    written = match[1]
    if written.lower().startswith("0x"):
        bits = int(written, 16)
    else:
        bits = struct.unpack("<I", struct.pack("<f", float(written)))[0] >> 16
    return f"llvm.mlir.constant({bits - (bits >> 15 << 16)} : i16) : i16"
