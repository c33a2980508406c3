"""The memory of results: later calls find it again, and nothing that is still used is written."""

import ctypes
import gc
import sys
import threading
import weakref

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.engine import result_memory
from tests.engine import programs
from tests.engine.programs import N
from tests.engine.test_engine import DOUBLE, f32

FIRST_IS_NOT_NEGATIVE = """
    %at = arith.constant 0 : index
    %first = tensor.extract %a0[%at] : tensor<?xf32>
    %least = arith.constant 0.0 : f32
    %may = arith.cmpf oge, %first, %least : f32
    cf.assert %may, "O2M-X001: the first number is negative"
"""
LARGE = np.arange(100_000, dtype="f")


@pytest.fixture
def compiled():
    return engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))]))


@pytest.fixture
def freed(monkeypatch):
    """The blocks that were given to the system."""
    blocks, free = [], result_memory._free
    monkeypatch.setattr(result_memory, "_free", lambda block: (blocks.append(block), free(block)))
    return blocks


def test_a_result_that_nobody_uses_makes_room_for_the_next(compiled, freed):
    addresses = {compiled.run([LARGE])[0].ctypes.data for _ in range(5)}
    assert len(addresses) == 1 and not freed


def test_an_array_that_nobody_uses_is_given_again(compiled):
    places = {id(compiled.run([LARGE])[0]) for _ in range(5)}
    assert len(places) == 1 and np.array_equal(compiled.run([3 * LARGE])[0], 6 * LARGE)


@pytest.mark.parametrize(
    "use",
    [
        lambda array: array,
        lambda array: array[5:],
        lambda array: array.reshape(10, -1).T,
        memoryview,
        torch.from_numpy,
        lambda array: torch.from_dlpack(array),
        lambda array: np.frombuffer(array, np.uint8),
        lambda array: (ctypes.c_float * 100).from_buffer(array),
        lambda array: array.base,
    ],
)
def test_an_array_that_is_used_in_any_way_is_not_given_again(compiled, use):
    compiled.run([LARGE])
    used = use(compiled.run([LARGE])[0])
    before = bytes(np.asarray(used))
    for factor in range(2, 6):
        compiled.run([LARGE * factor])
    assert bytes(np.asarray(used)) == before


@pytest.mark.parametrize("name, value", [("shape", (100, 1000)), ("dtype", np.int32), ("writeable", False)])
def test_an_array_that_was_changed_is_not_given_again(compiled, name, value):
    result = compiled.run([LARGE])[0]
    setattr(result.flags if name == "writeable" else result, name, value)
    place = id(result)
    del result
    again = compiled.run([LARGE])[0]
    assert id(again) != place or again.flags.writeable
    assert again.shape == LARGE.shape and again.dtype == np.float32 and np.array_equal(again, 2 * LARGE)


def test_whom_a_weak_reference_tells_that_an_array_has_ended_is_told(compiled):
    ended = []
    reference = weakref.ref(compiled.run([LARGE])[0], ended.append)
    again = compiled.run([LARGE])[0]
    assert ended == [reference] and reference() is None and np.array_equal(again, 2 * LARGE)


def test_who_holds_each_result_until_the_next_needs_two_blocks(compiled, freed):
    addresses, result = set(), None
    for _ in range(6):
        result = compiled.run([LARGE])[0]
        addresses.add(result.ctypes.data)
    assert len(addresses) == 2 and not freed


def test_a_failed_call_owns_what_was_lent(freed):
    checked = engine.compile(programs.lowered(FIRST_IS_NOT_NEGATIVE + DOUBLE, [(f32, (N,))], [(f32, (N,))]))
    checked.run([LARGE])
    with pytest.raises(Refusal):
        checked.run([LARGE - 1])
    assert np.array_equal(checked.run([LARGE])[0], 2 * LARGE)


def test_what_is_still_used_is_not_written(compiled):
    first = compiled.run([LARGE])[0]
    part = compiled.run([LARGE])[0][7:9]
    for factor in range(2, 6):
        compiled.run([LARGE * factor])
    assert np.array_equal(first, 2 * LARGE) and np.array_equal(part, 2 * LARGE[7:9])


def test_no_more_is_kept_than_a_call_gives(compiled, freed):
    results = [compiled.run([LARGE])[0] for _ in range(4)]
    addresses = [result.ctypes.data for result in results]
    del results
    assert len(freed) == 3
    assert compiled.run([LARGE])[0].ctypes.data in addresses


def test_other_sizes_find_other_memory(compiled, freed):
    compiled.run([LARGE])
    small = compiled.run([LARGE[:5000]])[0]
    assert np.array_equal(small, 2 * LARGE[:5000])
    assert np.array_equal(compiled.run([np.tile(LARGE, 3)])[0], np.tile(2 * LARGE, 3))


def test_what_comes_back_after_the_engine_is_freed(freed):
    engine_ = engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))]))
    engine_.run([LARGE])
    kept = engine_.run([LARGE])[0]
    other = engine_.run([LARGE])[0]
    del other, engine_
    gc.collect()
    assert len(freed) == 1 and np.array_equal(kept, 2 * LARGE)
    del kept
    assert len(freed) == 2


def test_results_of_several_threads(compiled):
    """Each is right, and no more is lent than a call has room for."""
    wrong = []

    def work(factor):
        for _ in range(300):
            result = compiled.run([LARGE[: 20_000 * factor] * factor])[0]
            if not np.array_equal(result, 2 * factor * LARGE[: 20_000 * factor]):
                wrong.append(factor)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong
