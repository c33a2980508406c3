"""What ``onnx2mlir run --profile`` tells: the time of each node, as a table, as JSON, and as a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine.profiling import NodeTime, Profile

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from onnx2torch_mlir.model import LoadedModel
    from onnx2torch_mlir.program import Runnable

_LINES = 40
_ELSEWHERE = "(elsewhere: sizes, memory, copies of results)"


@dataclass(frozen=True)
class Measured:
    """Some runs: seconds of one, and of each node in all of them; ``types`` are the nodes' operators."""

    runs: int
    seconds: float
    nodes: list[NodeTime]
    types: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: seconds, calls, operations and bytes of one run."""
        nodes = [{**asdict(node), "op": self.op(node)} for node in self.nodes]
        for node in nodes:
            node |= {key: node[key] / self.runs for key in ("calls", "seconds", "flops", "bytes")}
        return {"runs": self.runs, "seconds": self.seconds, "nodes": nodes}

    def op(self, node: NodeTime) -> str:
        """The operators of what was compiled to one loop nest."""
        found = dict.fromkeys(self.types[name] for name in node.name.split(" + ") if name in self.types)
        return " + ".join(found)


def refuse_unusable(options: argparse.Namespace) -> None:
    """Refuse what cannot be profiled, with O2M-U001."""
    if options.trace is not None and not options.profile:
        raise refuse("O2M-U001", "--trace needs --profile", case="--trace")
    if options.profile and options.eager:
        raise refuse("O2M-U001", "there are clocks in native programs only, not in --eager", case="--profile")
    if options.repeat < 1:
        raise refuse("O2M-U001", f"--repeat is {options.repeat}, it has to be at least 1", case="--repeat")


def measure(program: Runnable, feeds: Mapping[str, Any], profile: Profile, loaded: LoadedModel, runs: int) -> Measured:
    """Run ``program`` ``runs`` times more, after the run that warmed it up."""
    profile.clear()
    start = time.perf_counter()
    for _ in range(runs):
        program.run(feeds)
    seconds = (time.perf_counter() - start) / runs
    types = {str(node.name): str(node.op_type) for node in loaded.ir.graph.all_nodes()}
    return Measured(runs, seconds, profile.nodes(), types)


def print_table(console: Console, measured: Measured) -> None:
    """The nodes, the longest first; times are those of one run."""
    runs = measured.runs
    labels = [_short(f"{node.name}  {measured.op(node)}") for node in measured.nodes[:_LINES]]
    width = max([len(label) for label in (*labels, _ELSEWHERE)])
    lines = [f"{'node':<{width}}{'calls':>8}{'ms':>11}{'share':>8}{'GFLOP/s':>10}{'GB/s':>8}"]
    for label, node in zip(labels, measured.nodes, strict=False):
        seconds = node.seconds / runs
        rate = f"{node.flops / node.seconds / 1e9:>10.1f}" if node.flops and node.seconds else f"{'-':>10}"
        moved = f"{node.bytes / node.seconds / 1e9:>8.1f}" if node.bytes and node.seconds else f"{'-':>8}"
        share = seconds / measured.seconds
        lines.append(f"{label:<{width}}{node.calls // runs:>8}{seconds * 1e3:>11.3f}{share:>8.1%}{rate}{moved}")
    rest = measured.nodes[_LINES:]
    if rest:
        lines.append(_summed(f"({len(rest)} more)", sum(node.seconds for node in rest) / runs, measured.seconds, width))
    other = max(measured.seconds - sum(node.seconds for node in measured.nodes) / runs, 0.0)
    lines.append(_summed(_ELSEWHERE, other, measured.seconds, width))
    lines.append(_summed(f"one run, mean of {runs}", measured.seconds, measured.seconds, width))
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def write_trace(path: Path, profile: Profile, measured: Measured) -> None:
    """Write the single calls in Chrome's trace format.

    Raises:
        Refusal: O2M-U004 where it cannot be written.
    """
    from onnx2torch_mlir.handoff.atomic import replacing

    types = {node.name: measured.op(node) for node in measured.nodes}
    with replacing(str(path)) as temporary:
        temporary.write_text(json.dumps(profile.trace(types)))


def _summed(label: str, seconds: float, total: float, width: int) -> str:
    return f"{label:<{width}}{'':>8}{seconds * 1e3:>11.3f}{seconds / total:>8.1%}"


def _short(text: str) -> str:
    return text if len(text) <= 72 else f"{text[:40]} … {text[-29:]}"
