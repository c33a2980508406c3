"""The machine's measured peak: fused multiply-adds and reading of memory, by small loops generated for this processor."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CHAINS = 12
"""Independent sums: enough to hide the latency of a multiply-add (4 cycles, two at a time) also where one runs behind."""
REPEATS = 7


@dataclass(frozen=True)
class Peak:
    """Of all threads together: f32 GFLOP/s (a multiply-add is two), and GB/s read from memory."""

    gflops: float
    gbs: float
    lanes: int

    def __str__(self) -> str:
        return f"{self.gflops:.0f} GFLOP/s f32 (vectors of {self.lanes}), {self.gbs:.1f} GB/s read from memory"


def peak(threads: int = 1) -> Peak:
    """Measure for about a second."""
    lanes = _lanes()
    code = _Code(_multiply_adds(lanes) + _reading(lanes))
    turns = 2_000_000
    flops = 2 * turns * CHAINS * lanes
    compute = _best(lambda: code.run("multiply_adds", 0, turns), threads)
    memory = np.ones(48 << 20, np.float32)
    lines = memory.nbytes // (CHAINS * lanes * 4)
    reading = _best(lambda: code.run("reading", memory.ctypes.data, lines), threads)
    return Peak(threads * flops / compute / 1e9, threads * lines * CHAINS * lanes * 4 / reading / 1e9, lanes)


def _best(work: Callable[[], None], threads: int) -> float:
    """The least seconds of processor time of a thread, where ``threads`` of them do the whole work each at the same time."""
    times: list[float] = []

    def timed() -> None:
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)

    for _ in range(REPEATS):
        members = [threading.Thread(target=timed) for _ in range(threads)]
        for member in members:
            member.start()
        for member in members:
            member.join()
    return min(times)


def _lanes() -> int:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx") else 4


def _loop(name: str, before: str, body: str, kind: str) -> str:
    phis = "\n".join(f"  %s{k} = phi {kind} [ zeroinitializer, %entry ], [ %n{k}, %loop ]" for k in range(CHAINS))
    sums, last = [], "%n0"
    for k in range(1, CHAINS):
        sums.append(f"  %t{k} = fadd {kind} {last}, %n{k}")
        last = f"%t{k}"
    return f"""
define float @{name}(ptr %data, i64 %turns) {{
entry:
{before}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{body}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
  %r = extractelement {kind} {last}, i64 0
  ret float %r
}}
"""


def _multiply_adds(lanes: int) -> str:
    kind = f"<{lanes} x float>"
    # A factor that nobody knows: with a constant one less might be left to compute.
    given = f"  %n = sitofp i64 %turns to float\n  %v = insertelement {kind} poison, float %n, i64 0"
    spread = f"  %x = shufflevector {kind} %v, {kind} poison, <{lanes} x i32> zeroinitializer"
    steps = [f"  %n{k} = call {kind} @llvm.fma.v{lanes}f32({kind} %x, {kind} %s{k}, {kind} %x)" for k in range(CHAINS)]
    declared = f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})\n"
    return declared + _loop("multiply_adds", f"{given}\n{spread}", "\n".join(steps), kind)


def _reading(lanes: int) -> str:
    kind = f"<{lanes} x float>"
    steps = [f"  %base = mul i64 %i, {CHAINS * lanes}"]
    for k in range(CHAINS):
        steps += [
            f"  %o{k} = add i64 %base, {k * lanes}",
            f"  %p{k} = getelementptr float, ptr %data, i64 %o{k}",
            f"  %l{k} = load {kind}, ptr %p{k}, align 4",
            f"  %n{k} = fadd {kind} %s{k}, %l{k}",
        ]
    return _loop("reading", "", "\n".join(steps), kind)


class _Code:
    """Functions ``float (data, turns)`` of a text of LLVM, compiled for this processor."""

    def __init__(self, text: str) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3)
        module = llvm.parse_assembly(text)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def run(self, name: str, data: int, turns: int) -> None:
        """Call a function; the interpreter's lock is free meanwhile."""
        kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, ctypes.c_int64)
        kind(self._engine.get_function_address(name))(data, turns)
