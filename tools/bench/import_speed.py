"""How fast a large ONNX model becomes MLIR: this project beside torch-mlir's own importer (and IREE's, if installed).

    python tools/bench/import_speed.py [--rounds 5] [--external] [--exporter dynamo|torchscript] [--model FILE]

The model is a 12-layer, 768-wide encoder with 340 MB of weights. Every run is a process of its own; the sides
take turns, so that a noisy machine treats them alike. Medians are printed: seconds in process without module
imports, seconds of the whole command, and peak memory, beside the targets: at most 1/5 of torch-mlir's time in
process, at most 0.7 of its whole command with Linalg, and at most 1.3 times the weights above what importing
torch takes. ``--check`` exits with 1 where one is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINALG_PASSES = [
    "--convert-torch-onnx-to-torch",
    "--torch-lower-to-backend-contract",
    "--torch-backend-to-linalg-on-tensors-backend-pipeline",
]


@dataclass
class Samples:
    """What the runs of one task gave."""

    process: list[float] = field(default_factory=list)
    command: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    failure: str = ""


def run(command: list[str]) -> tuple[float, float, str]:
    """Run ``command``; its wall seconds, peak memory in MB (children included), and standard output."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            lines = [line for line in err.read().splitlines() if line.strip()] or [f"exit status {process.returncode}"]
            raise RuntimeError(f"{Path(command[0]).name}: {lines[-1][:200]}")
        unit = 1 if sys.platform == "darwin" else 1024
        return seconds, usage.ru_maxrss * unit / 1e6, out.read()


def tool(name: str) -> str:
    """The path of a command that is installed beside this Python."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name) or name


def commands(side: str, emit: str, model: Path, folder: Path) -> list[list[str]]:
    """The commands that a user of ``side`` would type."""
    text, linalg = str(folder / f"{side}.mlir"), str(folder / f"{side}.{emit}.mlirbc")
    if side == "ours":
        return [[sys.executable, "-m", "onnx2torch_mlir", str(model), "--emit", emit, "-o", linalg]]
    importer = tool("torch-mlir-import-onnx") if side == "upstream" else tool("iree-import-onnx")
    first = [[importer, str(model), "-o", text]]
    if emit == "torch" or side == "iree":
        return first
    return [*first, [tool("torch-mlir-opt"), text, *LINALG_PASSES, "--emit-bytecode", "-o", linalg]]


def measure(side: str, emit: str, model: Path, folder: Path, samples: Samples) -> None:
    """One run in process and one of the commands, added to ``samples``."""
    if samples.failure:
        return
    try:
        inner = [sys.executable, str(HERE / "import_sides.py"), side, str(model), str(folder / f"{side}.inner.mlirbc")]
        _, memory, output = run([*inner, "--emit", emit])
        samples.process.append(json.loads(output.splitlines()[-1])["seconds"])
        samples.memory.append(memory)
        if side != "nothing":
            samples.command.append(sum(run(command)[0] for command in commands(side, emit, model, folder)))
    except (RuntimeError, OSError) as error:
        samples.failure = str(error)
    finally:
        for path in folder.glob(f"{side}.*"):
            path.unlink()


def median(values: list[float]) -> float:
    """The median, or NaN where nothing was measured."""
    return statistics.median(values) if values else float("nan")


def machine() -> str:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{model}, {os.cpu_count()} CPUs{load}, Python {platform.python_version()}"


def report(results: dict[tuple[str, str], Samples], weights: float) -> bool:
    """Print the table and the targets; whether all targets are met."""
    print(f"{'side':<10}{'emit':<8}{'in process s':>14}{'command s':>12}{'peak MB':>10}")
    for (side, emit), samples in results.items():
        row = f"{side:<10}{emit:<8}"
        if samples.failure:
            print(f"{row}  failed: {samples.failure}")
        else:
            print(f"{row}{median(samples.process):>14.2f}{median(samples.command):>12.2f}{median(samples.memory):>10.0f}")
    ours, upstream = results["ours", "torch"], results["upstream", "torch"]
    baseline = median(results["nothing", "torch"].memory)
    targets = [
        ("in process, torch bytecode / torch-mlir's text", median(ours.process) / median(upstream.process), 0.2),
        ("peak memory above importing torch / weights", (median(ours.memory) - baseline) / weights, 1.3),
    ]
    if ("ours", "linalg") in results:
        mine, theirs = results["ours", "linalg"], results["upstream", "linalg"]
        targets.append(("whole command, to Linalg", median(mine.command) / median(theirs.command), 0.7))
        targets.append(("whole command, our Linalg / their torch text", median(mine.command) / median(upstream.command), 0.7))
    print()
    for title, ratio, target in targets:
        verdict = "met" if ratio <= target else "MISSED" if ratio > target else "not measured"
        print(f"{title:<52}{ratio:>7.2f}   target {target:.2f}   {verdict}")
    return all(ratio <= target for _, ratio, target in targets)


def main() -> int:
    """Build the model, let the sides take turns, print medians and targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--model", type=Path, help="an ONNX file to use instead of the encoder")
    parser.add_argument("--exporter", choices=("dynamo", "torchscript"), default="dynamo")
    parser.add_argument("--external", action="store_true", help="weights in a file beside the model")
    parser.add_argument("--no-linalg", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    sides = ["upstream", "ours"]
    if importlib.util.find_spec("iree") is not None and Path(tool("iree-import-onnx")).exists():
        sides.append("iree")
    emits = ["torch"] if options.no_linalg else ["torch", "linalg"]
    with tempfile.TemporaryDirectory(prefix="import-speed-") as name:
        folder = Path(name)
        model: Path = options.model or folder / "encoder.onnx"
        if options.model is None:
            flags = ["--external"] if options.external else []
            build = [sys.executable, str(HERE / "encoder.py"), str(model), "--layers", str(options.layers)]
            _, _, output = run([*build, "--exporter", options.exporter, *flags])
            weights = int(output.split()[-1]) / 1e6
        else:
            weights = sum(path.stat().st_size for path in [model, *model.parent.glob(f"{model.name}*data")]) / 1e6
        print(f"{machine()}\n{model.name}: {weights:.0f} MB of weights, {options.rounds} rounds\n")
        results = {("nothing", "torch"): Samples()}
        results |= {(side, emit): Samples() for emit in emits for side in sides if side != "iree" or emit == "torch"}
        for _ in range(options.rounds):
            for (side, emit), samples in results.items():
                measure(side, emit, model, folder, samples)
        met = report(results, weights)
    return 1 if options.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
