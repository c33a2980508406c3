"""Code that asks an x86-64 processor whether it has the features that other code was made for."""

from __future__ import annotations

from collections.abc import Iterable

from onnx2torch_mlir.engine.compiler.c_code import Fragment, Function, Value
from onnx2torch_mlir.engine.objects import ARCH_PRCTL, REQUEST_PERMISSION, TILES

EAX, EBX, ECX, EDX = range(4)

_BITS: dict[tuple[int, int, int], dict[str, int]] = {
    (1, 0, ECX): {
        "sse3": 0, "pclmul": 1, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22,
        "popcnt": 23, "avx": 28, "f16c": 29,
    },
    (7, 0, EBX): {
        "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "adx": 19, "avx512ifma": 21, "avx512cd": 28,
        "avx512bw": 30, "avx512vl": 31,
    },
    (7, 0, ECX): {
        "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512vnni": 11,
        "avx512bitalg": 12, "avx512vpopcntdq": 14,
    },
    (7, 0, EDX): {"avx512vp2intersect": 8, "avx512fp16": 23, "amx-bf16": 22, "amx-tile": 24, "amx-int8": 25},
    (7, 1, EAX): {"avxvnni": 4, "avx512bf16": 5, "avxifma": 23},
    (7, 1, EDX): {"avxvnniint8": 4, "avxneconvert": 5, "avxvnniint16": 10},
    (0x80000001, 0, ECX): {"lzcnt": 5, "sse4a": 6, "xop": 11, "fma4": 16, "tbm": 21},
}
"""Where ``cpuid`` (leaf, subleaf, register) has the bit of each of LLVM's features that arithmetic is compiled for."""

_KNOWN = frozenset(name for names in _BITS.values() for name in names)


def checked(features: Iterable[str]) -> tuple[str, ...]:
    """Those of ``features`` that can be asked for."""
    return tuple(sorted(_KNOWN & set(features)))


def support(fragment: Fragment, name: str, features: Iterable[str]) -> None:
    """Add the function ``name``, without parameters: whether the processor and its system have all ``features``, as an i1.

    It is compiled for any processor of the kind.
    """
    wanted = set(features)
    basic = 'attributes {passthrough = ["noinline", ["target-cpu", "x86-64"], ["target-features", "+sse2"]]}'
    with fragment.function(name, [], "i1", attributes=basic) as f:
        no = f.number(0, "i1")
        for leaf, subleaf, register in _BITS:
            mask = sum(1 << bit for feature, bit in _BITS[leaf, subleaf, register].items() if feature in wanted)
            if not mask:
                continue
            largest = _cpuid(f, leaf & 0x80000000, 0).field(EAX)
            with f.when(largest.below(_signed(leaf))):
                f.give(no)
            found = _cpuid(f, leaf, subleaf).field(register) & _signed(mask)
            with f.when(found.differs(_signed(mask))):
                f.give(no)
        has_tiles = "amx-tile" in wanted
        state = 0xE6 if any(feature.startswith("avx512") for feature in wanted) else 0x6 if "avx" in wanted else 0
        state |= 0x60000 if has_tiles else 0
        if state:  # The system has to save the registers.
            osxsave = 1 << 27
            with f.when((_cpuid(f, 1, 0).field(ECX) & osxsave).equals(0)):
                f.give(no)
            kept = f.emit(
                'llvm.inline_asm has_side_effects "xgetbv", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}" '
                f"{f.number(0, 'i32').name} : (i32) -> !llvm.struct<(i32, i32)>",
                "!llvm.struct<(i32, i32)>",
            )
            with f.when((kept.field(0) & state).differs(state)):
                f.give(no)
        if has_tiles:
            given = ", ".join(f.number(value, "i64").name for value in (ARCH_PRCTL, REQUEST_PERMISSION, TILES))
            granted = f.emit(
                'llvm.inline_asm has_side_effects "syscall", "={ax},{ax},{di},{si},~{cx},~{r11},~{memory},~{flags}" '
                f"{given} : (i64, i64, i64) -> i64",
                "i64",
            )
            with f.when(granted.differs(0)):
                f.give(no)
        f.give(f.number(1, "i1"))


def _cpuid(f: Function, leaf: int, subleaf: int) -> Value:
    given = [f.number(_signed(leaf), "i32"), f.number(subleaf, "i32")]
    return f.emit(
        'llvm.inline_asm has_side_effects "cpuid", "={ax},={bx},={cx},={dx},0,2,~{dirflag},~{fpsr},~{flags}" '
        f"{given[0].name}, {given[1].name} : (i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>",
        "!llvm.struct<(i32, i32, i32, i32)>",
    )


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits
