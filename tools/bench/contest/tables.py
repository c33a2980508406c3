"""What the contests gave, as lines of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tools.bench.contest.rounds import Contender, Outcome

BASE = "ort"
WIDTH = 24


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(sum(logs) / len(logs)) if logs else float("nan")


def milliseconds(seconds: float) -> str:
    """Right-aligned; a dash for what was not measured."""
    return f"{'-':>10}" if math.isnan(seconds) else f"{seconds * 1e3:>10.3f}"


def number(value: float, digits: int = 2) -> str:
    """Right-aligned; a dash for what was not measured."""
    return f"{'-':>8}" if math.isnan(value) else f"{value:>8.{digits}f}"


class Speeds:
    """The table of times: a line for each workload, with each peer's ratio (the base's time / its own)."""

    def __init__(self, peers: Sequence[str], threads: int, gflops: float) -> None:
        self.others = [peer for peer in peers if peer != BASE]
        self.threads, self.gflops = threads, gflops
        self.ratios: dict[str, list[float]] = {peer: [] for peer in self.others}

    def head(self) -> str:
        """The titles of the columns."""
        columns = "".join(f"{short(peer) + ' ms':>14}{'ratio':>8}" for peer in self.others)
        return f"{'':<{WIDTH}}{BASE + ' ms':>10}{columns}{'GFLOP/s':>9}{'% peak':>8}"

    def line(self, workload: str, flops: float, outcomes: Mapping[Contender, Outcome]) -> str:
        """One workload; how near the first peer beside the base comes to the peak, and why a peer was not measured."""
        found = {contender.peer: outcome for contender, outcome in outcomes.items()}
        base = found[BASE].seconds(self.threads) if BASE in found else float("nan")
        text = f"{workload:<{WIDTH}}{milliseconds(base)}"
        notes = [f"  {BASE}: {found[BASE].error}"] if BASE in found and found[BASE].error else []
        for peer in self.others:
            outcome = found[peer]
            ratio = base / outcome.seconds(self.threads)
            if not math.isnan(ratio):
                self.ratios[peer].append(ratio)
            text += f"    {milliseconds(outcome.seconds(self.threads))}{number(ratio)}"
            if outcome.error:
                notes.append(f"  {short(peer)}: {outcome.error}")
        rate = flops / found[self.others[0]].seconds(self.threads) / 1e9 if self.others and flops else float("nan")
        text += f" {number(rate, 1)}{number(100 * rate / self.gflops, 0)}"
        return "\n".join([text, *notes])

    def foot(self) -> str:
        """The geometric means, and how many are below the base."""
        lines = []
        for peer, ratios in self.ratios.items():
            slower = sum(ratio < 1 for ratio in ratios)
            told = f"geometric mean of {len(ratios)}, least {min(ratios, default=math.nan):.2f}, below 1: {slower}"
            lines.append(f"{short(peer)} to {BASE}: {mean(ratios):.2f} ({told})")
        return "\n".join(lines)


def short(peer: str) -> str:
    """A peer of a folder by the folder's last part."""
    name, _, place = peer.partition("@")
    return f"{name}@{place.rstrip('/').rpartition('/')[2]}"[:11] if place else name
