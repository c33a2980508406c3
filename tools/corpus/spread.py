"""onnxruntime's results, and how far it is from itself.

How far is measured, not guessed, as `onnx2mlir verify` does (verification/spread.py). On a CPU without instructions for dot
products of 8 bits its products of uint8 with int8 saturate at 16 bits inside; so it also runs with those that do not. The
*spread* of an output is the largest of these changes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from onnx2torch_mlir.hosting import OnnxruntimeSession
from onnx2torch_mlir.model import read
from onnx2torch_mlir.verification import compare_values
from onnx2torch_mlir.verification.spread import others


class References:
    """onnxruntime on one model; sessions are made once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._session = OnnxruntimeSession(Path(path))
        self.name = self._session.name

    def plain(self, feeds: Mapping[str, Any]) -> tuple[list[Any], float]:
        """The outputs, and the seconds of a second run, with graph optimizations."""
        outputs = self._session.run(feeds)
        try:
            self._optimized.run(None, dict(feeds))
            start = time.perf_counter()
            self._optimized.run(None, dict(feeds))
            return outputs, time.perf_counter() - start
        except Exception:
            return outputs, 0.0

    @cached_property
    def _optimized(self) -> Any:
        return self._with()

    def _with(self, **entries: str) -> Any:
        """A session with all graph optimizations, and with configuration entries of the group "session"."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        for name, value in entries.items():
            options.add_session_config_entry(f"session.{name}", value)
        return onnxruntime.InferenceSession(self._path, options, providers=["CPUExecutionProvider"])

    def _others(self, feeds: Mapping[str, Any]) -> Iterator[list[Any]]:
        yield from others(Path(self._path), read(self._path), feeds)
        with contextlib.suppress(Exception):  # nothing to learn from a session that does not run
            yield self._with(x64quantprecision="1").run(None, dict(feeds))

    def spread(self, feeds: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
        """The spread of each output by name (of the parts of a sequence, by theirs)."""
        plain = self._session.run(feeds)
        spread: dict[str, float] = {}
        for other in self._others(feeds):
            for name, a, b in zip(names, other, plain, strict=True):
                for found in compare_values(name, a, b):
                    change = np.inf if found.problem in ("shape", "dtype") else found.max_abs
                    spread[found.name] = max(spread.get(found.name, 0.0), float(change))
        return spread
