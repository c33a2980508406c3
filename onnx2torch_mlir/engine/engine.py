"""A compiled program: arrays in, arrays out."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx2torch_mlir import isolation
from onnx2torch_mlir.core.narrow import NARROW, repacked
from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import arrays, layout, objects, pool
from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.binding import InputBinder, dim_text
from onnx2torch_mlir.engine.derived import Derived
from onnx2torch_mlir.engine.mapped_files import MappedFiles
from onnx2torch_mlir.engine.packed_weights import absent, prepared
from onnx2torch_mlir.engine.profiling import EngineProfile
from onnx2torch_mlir.engine.repeated_calls import Forms, Repetition
from onnx2torch_mlir.engine.result_memory import ResultMemory
from onnx2torch_mlir.engine.weights import OnDemand, loaded
from onnx2torch_mlir.lowering.lowered import Lowered

_MANY = 2 << 20
"""Bytes of weights for which the compiler's process makes room: idle, it takes a hundred times that. For fewer it does where
this process has compiled one program, as those that serve a model do: for a second one it begins once more, and stays."""

_UNKNOWN = -1
"""A size that no input has."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the model names it: ``shape`` holds sizes, as text with ONNX's dim names if symbolic."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]


def described(spec: TensorSpec, dim_names: Mapping[str, str]) -> TensorInfo:
    """``spec`` in the words of the model."""
    shape = tuple(dim if isinstance(dim, int) else dim_text(dim, dim_names) for dim in spec.shape)
    return TensorInfo(spec.name, arrays.array_dtype(spec), shape)


class Context:
    """The memory of one call at a time (see compiler/call_memory.py): the next call finds its buffers again.

    ``packed`` are the words of the arguments, of which the inputs' come first, and ``results`` those of the results; the
    pointers of packed weights follow where the results go.
    """

    def __init__(self, inputs: int, weights: Sequence[int], results: int, flags: int, packed: Sequence[int] = ()) -> None:
        self.memory = ctypes.create_string_buffer(layout.CONTEXT_BYTES + 64)
        begin = ctypes.addressof(self.memory)
        self.address = (begin + 63) & ~63
        self.lent_at = self.address - begin + 8 * layout.LENT
        self.results = (ctypes.c_int64 * (results + flags))()
        target = ctypes.addressof(self.results)
        words = [*[_UNKNOWN] * inputs, *weights, target, target + 8 * results, *packed]
        self.packed: Any = (ctypes.c_int64 * len(words))(*words)
        self.arguments = ctypes.addressof(self.packed)
        self.repetition: Repetition | None = None
        """Of calls that are like the one before, where these are told apart."""

    def word(self, index: int) -> int:
        """A word of the context as a signed number."""
        return ctypes.c_int64.from_address(self.address + 8 * index).value

    def set_word(self, index: int, value: int) -> None:
        """Write a word of the context."""
        ctypes.c_int64.from_address(self.address + 8 * index).value = value

    def __del__(self, word: Any = ctypes.c_uint64, free: Any = arrays.free) -> None:
        block = word.from_address(self.address + 8 * layout.FREE).value
        while block:
            raw = word.from_address(block + 8 * layout.RAW).value
            block = word.from_address(block + 8 * layout.NEXT).value
            free(raw)


class Engine:
    """A compiled program. `run` may be called from several threads at once.

    Memory of intermediate results stays with the engine between calls, so that later calls need no new pages; that of results
    comes back when nobody uses them any more.
    """

    def __init__(
        self,
        lowered: Lowered,
        code: bytes,
        messages: list[str],
        packings: Sequence[layout.Packing] = (),
        derived: Sequence[Derived] = (),
        *,
        read: Collection[int] | None = None,
        threads: int = 1,
        profile: EngineProfile | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        """Load ``code`` (see `onnx2torch_mlir.engine.compile`); ``messages`` are those of the assertions.

        ``packings`` says which weights the code finds packed, in its order; ``derived``, which are computed from others after
        these: their shapes, whether the code reads them as they are, and the steps (derived.py); ``read``, the numbers of
        the weights that it reads as they are, by default all. A call uses at most
        ``threads``; ``profile`` holds the times of code with clocks.
        """
        self._lowered = lowered
        self._code = objects.Code(code, layout.ENTRY)
        self._messages = messages
        self._binder = InputBinder(lowered)
        ranks = [len(spec.shape) for spec in lowered.outputs]
        starts = [sum(3 + 2 * rank for rank in ranks[:position]) for position in range(len(ranks) + 1)]
        self._result_words = starts[-1]
        self._places = [
            (start, start + 3 + rank, starts[-1] + position, dtype := arrays.numpy_dtype(spec.dtype), dtype.itemsize)
            for position, (start, rank, spec) in enumerate(zip(starts, ranks, lowered.outputs, strict=False))
        ]
        """Of each result: where its descriptor's words begin and end, which word tells if its memory is ours, its type, and
        the bytes of an element."""
        # Slices of arrays of ctypes take several times as long.
        self._read_results = struct.Struct(f"{self._result_words + len(ranks)}q").unpack_from
        self._input_words = sum(1 + len(spec.shape) for spec in lowered.inputs)
        self._write_inputs = struct.Struct(f"{self._input_words}q").pack_into
        self._narrow = [(index, NARROW[spec.element]) for index, spec in enumerate(lowered.outputs) if spec.element]
        self._weights: list[Array] | None = None
        self._weight_words: list[int] = []
        self._packings = packings
        self._derived = derived
        self._read = range(len(lowered.weights)) if read is None else frozenset(read)
        self._packed: list[Array] = []
        self._lock = threading.Lock()
        self._contexts: list[Context] = []
        self._results = ResultMemory(len(self._places))
        self._forms = Forms.of(lowered)
        weakref.finalize(self, self._results.close).atexit = False
        self._profile = profile
        self.threads = threads
        """How many threads a call may use, the caller's among them."""
        self.worth = 0
        """The least work that is worth another thread, in operations on one element; 0 is what suits most machines."""
        self.seconds = dict(seconds or {})
        """Seconds that the stages of the compilation took, when it was made."""
        self.inputs = tuple(self._info(spec) for spec in lowered.inputs)
        self.outputs = tuple(self._info(spec) for spec in lowered.outputs)

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The outputs, in order, for ``inputs`` by name or in order.

        Inputs are never written to; outputs share no memory with inputs, weights or each other. Raises `Refusal`:
        O2M-U003 for inputs that do not fit, O2M-X001 if the sizes or values contradict what the model requires,
        O2M-X002 if memory runs out.
        """
        # The usual call here, in few steps: what Python needs for each is no longer in the caches after most programs.
        try:
            context = self._contexts.pop()
        except IndexError:  # There is none yet, or other threads have them.
            return self._first_call(inputs)
        try:
            repetition = context.repetition
            if repetition is None:
                return self._another_call(context, inputs)
            found = repetition.call(inputs)
            return [*found] if isinstance(found, tuple) else self._another_call(context, inputs, found)
        except BaseException:
            # Whoever interrupts does so as soon as the call is over, before it is known what became of it.
            if context.repetition is not None:
                context.repetition.settle()
            raise
        finally:
            self._contexts.append(context)

    def __call__(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The same as `run`."""
        return self.run(inputs)

    def _info(self, spec: TensorSpec) -> TensorInfo:
        return described(spec, self._lowered.dim_names)

    def _first_call(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The outputs of a call that makes a context."""
        # Arrays that are made for the call live until its end.
        _bound, words = self._binder.bind(inputs)
        if self._weights is None:
            self._load_weights()
        context = self._new_context()
        try:
            return self._bound_call(context, words)
        finally:
            self._contexts.append(context)

    def _another_call(
        self, context: Context, inputs: Mapping[str, Any] | Sequence[Any], outcome: int = layout.UNLIKE
    ) -> list[Array]:
        """The outputs of a call that is not like one before in this ``context``, or turned out not to be (layout.REPEAT)."""
        repetition = context.repetition
        if repetition is not None:
            if outcome == layout.UNLIKE:
                repetition.drop()
            elif outcome == layout.IN_USE:
                self._results.keeps &= repetition.drop_unlike()
            else:
                repetition.settle()
                if outcome < layout.ELSEWHERE:
                    self._fail(context.word(layout.ERROR))
                return self._collected(context)
        _bound, words = self._binder.bind(inputs)
        return self._bound_call(context, words)

    def _bound_call(self, context: Context, words: Sequence[int]) -> list[Array]:
        self._write_inputs(context.packed, 0, *words)
        self._results.lend(context.memory, context.lent_at)
        if self._code.call(context.address, context.arguments):
            self._fail(context.word(layout.ERROR))
        return self._collected(context)

    def _new_context(self) -> Context:
        packed = [arrays.address_of(array) for array in self._packed]
        made = Context(self._input_words, self._weight_words, self._result_words, len(self._places), packed)
        made.set_word(layout.THREADS, self.threads)
        made.set_word(layout.WORTH, self.worth)
        made.set_word(layout.POOL, pool.pool_for(self.threads, self._code))
        if self._profile is not None:
            made.set_word(layout.PROFILE, self._profile.table())
        if self._forms is not None:
            made.repetition = Repetition(self._code, self._forms, made.address, made.arguments, made.results)
        return made

    def _load_weights(self) -> None:
        with self._lock:
            if self._weights is not None:
                return
            given, files = self._lowered.weights, MappedFiles()
            size = sum(one.spec.dtype.itemsize * math.prod(one.spec.shape) for one in given)
            isolation.retire(after=None if size >= _MANY else 1)
            # First what may have to be copied, while nothing is packed yet: a model's largest weight is often among it.
            weights = [
                loaded(one, files=files)
                if number in self._read
                else absent(one.spec.shape, arrays.numpy_dtype(one.spec.dtype))
                for number, one in enumerate(given)
            ]
            computed, self._packed = prepared(OnDemand(given, files), self._packings, self._derived, files.drop)
            files.drop_rest()
            weights += computed
            self._weight_words = arrays.arguments(weights)
            self._weights = weights

    def _fail(self, index: int) -> None:
        if index == layout.OUT_OF_MEMORY:
            raise refuse("O2M-X002", "there is not enough memory for an intermediate result", case="memory")
        raise refuse("O2M-X001", self._messages[index])

    def _collected(self, context: Context) -> list[Array]:
        """The outputs of the call that was."""
        results, places, array = self._read_results(context.results), self._places, self._results.array
        found: list[Any] = [None] * len(places)
        repetition = context.repetition if self._results.keeps else None
        if 0 in results[self._result_words :]:
            repetition = None
            for position, (start, end, flag, dtype, size) in enumerate(places):
                if not results[flag]:
                    # An input, a weight, a constant, or the memory of another output.
                    address = results[start + 1] + results[start + 2] * size
                    found[position] = arrays.window(address, dtype, results[start + 3 : end]).copy()
        # Only now: what was copied above may lie in the memory of these.
        for position, (start, end, flag, dtype, size) in enumerate(places):
            if results[flag]:
                address = results[start + 1] + results[start + 2] * size
                found[position] = array(address, results[start], dtype, results[start + 3 : end], keeps=repetition is not None)
        if repetition is not None and all(one.size for one in found):
            repetition.keep(found)
        for index, narrow in self._narrow:
            found[index] = repacked(found[index], narrow)
        return found
