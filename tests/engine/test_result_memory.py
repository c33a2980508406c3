"""The memory of results: later calls find it again, and nothing that is still used is written."""

import gc
import threading

import numpy as np
import pytest

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine import result_memory
from tests.engine import programs
from tests.engine.programs import N
from tests.engine.test_engine import DOUBLE, f32

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
    wrong = []

    def work(factor):
        for _ in range(50):
            result = compiled.run([LARGE * factor])[0]
            if not np.array_equal(result, 2 * factor * LARGE):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
