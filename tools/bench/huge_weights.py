"""What the size of a model's weights costs: memory, seconds, and whether the same model gives the same bytes (Linux).

    python tools/bench/huge_weights.py [--gigabytes 8] [--write all|none|FORM ...] [--folder DIR] [--check]

Two models with the same graph of 82 linear layers, one with 8 GB and one with 8 MB of external weights (holes of a sparse file,
so that nothing has to be on the disk), go through the command ``onnx2mlir``. Printed for each form: the seconds of the
stages with either, without that of writing, and their ratio; peak memory with the large one, that of all processes together:
resident, and the part of it that is not just pages of mapped files; and how fast it was written.
Targets: less than 1.5 GB resident, a ratio of about 1, and byte-identical output for another path, another temporary folder
and another hash seed. Forms that carry the weights write as many bytes as there are weights; each file is removed at once,
and left out where the disk has no room. ``--check`` exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.bench.all_forms import digests
from tools.bench.huge_model import write_model
from tools.bench.import_speed import machine
from tools.bench.memory_watch import Peak, watch

LAYERS = 82
SMALL_WIDTH = 160
MEMORY = 1.5e9
RATIO = 1.5


@dataclass(frozen=True)
class Form:
    """One way to hand a model on: the command's options; ``carries``: whether the weights are written too."""

    options: tuple[str, ...]
    suffix: str
    carries: bool = True

    @property
    def name(self) -> str:
        """The options in short."""
        return " ".join(part for part in self.options if not part.startswith("-")) or self.suffix


def forms() -> list[Form]:
    """The core program as text and as ``.pt2``, and every ``--emit`` with every ``--weights``."""
    found = [Form(("--emit", "core"), ".txt", carries=False), Form(("--emit", "core"), ".pt2")]
    for emit in ("torch", "linalg", "tosa", "stablehlo"):
        for weights in ("args", "inline", "external", "irpa"):
            # Upstream's way to tosa and stablehlo is for sizes that are known.
            pinned = ("--dim", "batch=2") if emit in ("tosa", "stablehlo") else ()
            found.append(Form(("--emit", emit, "--weights", weights, *pinned), ".mlirbc", weights != "args"))
    return found


def convert(model: Path, form: Form, folder: Path) -> tuple[Peak, dict[str, float], list[Path]]:
    """Run the command: what it needed, the seconds of its stages, and the files that it wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"out{form.suffix}"
    command = [sys.executable, "-m", "onnx2torch_mlir", str(model), *form.options, "-o", str(output), "--format", "json"]
    peak = watch(command)
    stages = {stage["name"]: stage["seconds"] for stage in json.loads(peak.output)["stages"]}
    return peak, stages, sorted(folder.glob("out.*"))


def conversion(stages: dict[str, float]) -> float:
    """The seconds of everything but writing."""
    return sum(seconds for name, seconds in stages.items() if name != "write")


def measure(form: Form, big: Path, small: Path, folder: Path, rounds: int) -> bool:
    """Print one row; whether its targets are met."""
    seconds: dict[Path, list[float]] = {big: [], small: []}
    largest, speed = Peak(), 0.0
    for _ in range(rounds):
        for model in (small, big):
            peak, stages, files = convert(model, form, folder)
            seconds[model].append(conversion(stages))
            if model is big:
                largest = max(largest, peak, key=lambda item: item.resident)
                speed = sum(path.stat().st_size for path in files) / 1e6 / max(stages.get("write", 0.0), 1e-9)
            for path in files:
                path.unlink()
    slow, fast = statistics.median(seconds[big]), statistics.median(seconds[small])
    met = largest.resident < MEMORY and slow / fast < RATIO
    written = f"{speed:>8.0f}" if form.carries else f"{'-':>8}"
    print(
        f"{form.name:<28}{form.suffix:<9}{slow:>8.2f}{fast:>8.2f}{slow / fast:>7.2f}{largest.resident / 1e6:>11.0f}"
        f"{largest.anonymous / 1e6:>11.0f}{written}   {'met' if met else 'MISSED'}",
        flush=True,
    )
    return met


def differing(model: Path, folder: Path) -> list[str]:
    """The files that two conversions of copies of ``model`` write differently."""
    found = []
    for seed, name in enumerate(("one", "two/deeper"), 1):
        place = folder / name
        place.mkdir(parents=True)
        for path in (model, model.with_name(f"{model.name}.data")):
            shutil.copyfile(path, place / path.name)
        found.append(digests(place / model.name, place, {"batch": 2}, str(seed)))
    first, second = found
    return [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)] or ([] if first else ["all"])


def main() -> int:
    """Build the models, measure every form, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=8.0, help="of weights (default: 8)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--write", nargs="*", default=["all"], metavar="FORM", help="of the forms that carry weights; or none")
    parser.add_argument("--folder", type=Path, help="for models and outputs; default: a temporary one")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    if not Path("/proc/self/status").exists():
        parser.error("memory is read from /proc, which this system does not have")
    os.environ["ONNX2MLIR_CACHE"] = "off"
    with tempfile.TemporaryDirectory(prefix="huge-weights-", dir=options.folder) as name:
        folder = Path(name)
        big, small = folder / "big.onnx", folder / "small.onnx"
        width = int((options.gigabytes * 1e9 / 4 / LAYERS) ** 0.5) // 16 * 16
        weights, few = write_model(big, layers=LAYERS, width=width), write_model(small, layers=LAYERS, width=SMALL_WIDTH)
        print(f"{machine()}\n{LAYERS} layers, {4 * LAYERS} nodes: {weights / 1e9:.2f} GB and {few / 1e6:.1f} MB of weights\n")
        print(f"{'form':<28}{'file':<9}{'s large':>8}{'small':>8}{'ratio':>7}{'MB resident':>12}{'anonymous':>10}{'MB/s':>8}")
        met = True
        for form in forms():
            wanted = not form.carries or "all" in options.write or form.name in options.write
            if wanted and form.carries and shutil.disk_usage(folder).free < 1.2 * weights:
                print(f"{form.name:<28}{form.suffix:<9} left out: no room on the disk")
            elif wanted:
                met &= measure(form, big, small, folder / "out", options.rounds)
        different = differing(small, folder / "identity")
        met &= not different
        told = f"NO: {', '.join(different)}" if different else "yes"
        print(f"\nall forms byte-identical under another path, temporary folder and hash seed: {told}")
    return 1 if options.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
