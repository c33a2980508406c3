"""onnxruntime's results, and how far it is from itself.

Where a number is rounded to an integer or compared with another (dynamic quantization, ArgMax, NonMaxSuppression), a
difference in the last place of what comes before may become one of a whole step. How much of that a model has is measured,
not guessed: onnxruntime runs it again with all its graph optimizations, which add up in another order, and with inputs and
weights moved by two units in the last place. On a CPU without instructions for dot products of 8 bits its products of uint8
with int8 saturate at 16 bits inside; so it also runs with those that do not. The *spread* of an output is the largest of these
changes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

from onnx2torch_mlir.hosting import OnnxruntimeSession
from onnx2torch_mlir.verification import compare_values

MOVED = 2.0**-22
MOVES = 3
"""Inputs and weights of floating point are multiplied by 1 ± `MOVED`, with other signs each time."""

WEIGHT = 16
"""As many numbers make an initializer a weight; fewer may be scales or limits that decide sizes."""


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
        for seed in range(MOVES):
            session = OnnxruntimeSession(_moved_weights(self._path, seed), Path(self._path).parent)
            yield session.run(_moved(feeds, seed))
        for entries in ({}, {"x64quantprecision": "1"}):
            with contextlib.suppress(Exception):  # nothing to learn from a session that does not run
                yield self._with(**entries).run(None, dict(feeds))

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


def _moved_weights(path: str, seed: int) -> onnx.ModelProto:
    """The model with its weights of float32 moved as inputs are."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) >= WEIGHT:
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(_moved({tensor.name: array}, seed)[tensor.name], tensor.name))
    return model


def _moved(feeds: Mapping[str, Any], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(item) for item in value]
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return value
        signs = rng.choice([-1.0, 1.0], value.shape)
        step = max(MOVED, float(np.finfo(value.dtype).eps))
        return np.asarray(value * (1 + step * signs)).astype(value.dtype)

    return {name: moved(value) for name, value in feeds.items()}
