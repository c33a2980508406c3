"""The processors of this machine that are this process's."""

from __future__ import annotations

import os


def processors() -> int:
    """How many processors this process may run on: at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
