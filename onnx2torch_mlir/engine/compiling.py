"""A lowered program to an engine: from the cache, or through the compiler in its worker process."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx2torch_mlir import collection, isolation
from onnx2torch_mlir.core import library_code
from onnx2torch_mlir.diagnostics import Finding, Refusal, refuse
from onnx2torch_mlir.engine import cache, objects, pool, profiling
from onnx2torch_mlir.engine.ahead_of_time.interface import Interface
from onnx2torch_mlir.engine.engine import Engine
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.options import Options, of_environment
from onnx2torch_mlir.engine.starting import TASK
from onnx2torch_mlir.lowering.lowered import Lowered

_MISSING = re.compile(r"Symbols not found: \[ ([^\]]+) \]")
_STAGE = re.compile(r"^o2m-stage (.*)$", re.MULTILINE)


@collection.paused()
def compile(
    lowered: Lowered, *, threads: int | None = None, timeout: float | None = None, reproducer: Path | None = None
) -> Engine:
    """Native code for ``lowered``, ready to run on this machine.

    ``threads`` is how many a call may use, by default one per processor (pool.py); the code is the same. ``timeout``
    limits the compiler's time in seconds. With ``reproducer``, a program that does not compile is written to this file, and
    the finding's hint says how to run the compiler on it. Raises `Refusal`: O2M-M001 if a pass fails or a routine is
    missing, O2M-M002 if the compiler crashes or takes too long (in a process of its own), O2M-U001 for a bad number of
    threads or a bad value of the environment (options.py). Inside of a `profiling.Profile` it is compiled with clocks and
    reports to it.
    """
    allowed = pool.threads_of(threads)
    profile = profiling.active()
    options = replace(of_environment(len(lowered.inputs)), profile=profile is not None)
    name = cache.key(lowered.bytecode, options)
    entry = cache.load(name)
    if entry is None or objects.unavailable(entry["needs"]):
        entry = build(lowered.bytecode, options, timeout=timeout, reproducer=reproducer)
        missing = objects.unavailable(entry["needs"])
        if missing:
            raise _missing(missing)
        cache.store(name, entry)
    else:
        isolation.dismiss()
    packings = [Packing(*fields) for fields in entry["packings"]]
    tables = profile.add(entry["sites"]) if profile is not None else None
    return Engine(
        lowered,
        entry["object"],
        entry["messages"],
        packings,
        entry["derived"],
        read=entry["weights"],
        threads=allowed,
        profile=tables,
        seconds=entry["seconds"],
    )


def build(
    program: bytes,
    options: Options,
    interface: Interface | None = None,
    *,
    timeout: float | None = None,
    reproducer: Path | None = None,
) -> dict[str, Any]:
    """What `compiler.task.build` gives, made in a process of its own, and ``needs``: the routines that the object expects.

    Raises `Refusal` as `compile` does.
    """
    hint = ""
    try:
        entry: dict[str, Any] = isolation.call(
            TASK, program, options, interface, timeout=timeout, meanwhile=_meanwhile
        )
        entry["needs"] = objects.undefined_symbols(entry["object"])
        return entry
    except Refusal as refusal:
        hint = _reproduce(program, reproducer)
        raise Refusal(Finding(f.code, f.reason, f.hint or hint, f.case, f.node, f.severity) for f in refusal.findings) from None
    except isolation.WorkerCrashed as crash:
        missing = [name.strip() for group in _MISSING.findall(crash.stderr) for name in group.split(",")]
        if missing:
            raise _missing(missing) from None
        stages = _STAGE.findall(crash.stderr)
        where = f" during {stages[-1]}" if stages else ""
        reason = f"the compiler ended by {crash.manner}{where}: {crash.last_line}"
        raise refuse("O2M-M002", reason, hint=_reproduce(program, reproducer)) from None
    except isolation.WorkerTimeout as timed_out:
        reason = f"the compiler did not finish within {timed_out.seconds:g} s"
        raise refuse("O2M-M002", reason, hint=_reproduce(program, reproducer)) from None
    except Exception as error:  # a defect of the compiler's own code, met in its process
        reason = f"the compiler failed in a way it should not: {type(error).__name__}: {error}"
        raise refuse("O2M-M001", reason, hint=_reproduce(program, reproducer)) from error


def _meanwhile() -> None:
    """What this process does beside the compiler's."""
    # First, for what is loaded would come to what the conversion left.
    collection.now()
    library_code.let_go()
    objects.load()


def _missing(names: list[str]) -> Refusal:
    return refuse("O2M-M001", f"the machine code needs routines that this system does not have: {', '.join(names)}")


def _reproduce(program: bytes, path: Path | None) -> str:
    if path is None:
        return ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(program)
    return (
        'Reproduce with: python -c "from onnx2torch_mlir.engine.compiler.task import build; '
        f"build(open({str(path)!r}, 'rb').read())\""
    )
