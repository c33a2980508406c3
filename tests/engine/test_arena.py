"""Intermediate results as parts of one block: what lives at the same time does not overlap, and little is left unused."""

import numpy as np
import pytest
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import arena
from onnx2torch_mlir.engine.compiler.walks import nested
from onnx2torch_mlir.engine.pages import Room

MAIN = """func.func @main(%x: memref<8xf32>, %n: index, %to: memref<1xindex>) -> memref<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %a = memref.alloc() : memref<40xf32>
  %b = memref.alloc() : memref<2x3xf64>
  "test.use"(%a, %b) : (memref<40xf32>, memref<2x3xf64>) -> ()
  memref.dealloc %a : memref<40xf32>
  %c = memref.alloc() : memref<33xi1>
  %d = memref.alloc(%n) : memref<?xf32>
  %r = memref.alloc() : memref<4xf32>
  "test.use"(%b, %c, %d, %r) : (memref<2x3xf64>, memref<33xi1>, memref<?xf32>, memref<4xf32>) -> ()
  memref.dealloc %b : memref<2x3xf64>
  memref.dealloc %c : memref<33xi1>
  memref.dealloc %d : memref<?xf32>
  scf.for %i = %zero to %n step %one {
    %e = memref.alloc() : memref<8xf32>
    "test.use"(%e) : (memref<8xf32>) -> ()
    memref.dealloc %e : memref<8xf32>
  }
  return %r : memref<4xf32>
}"""


def test_only_what_is_freed_in_the_block_and_of_known_size_moves():
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(MAIN)
        arena.settle(module)
        assert module.operation.verify()
        operations = list(nested(module.operation))
        made = [str(one.result.type) for one in operations if one.name == "memref.alloc"]
        views = [str(one.result.type) for one in operations if one.name == "memref.view"]
        freed = [str(one.operands[0].type) for one in operations if one.name == "memref.dealloc"]
    # 192 bytes hold %a, and %c after it; 64 hold %b.
    assert sorted(made) == sorted(["memref<256xi8>", "memref<?xf32>", "memref<4xf32>", "memref<8xf32>"])
    assert views == ["memref<40xf32>", "memref<2x3xf64>", "memref<33xi1>"]
    assert sorted(freed) == sorted(["memref<?xf32>", "memref<8xf32>", "memref<256xi8>"])


@pytest.mark.parametrize("seed", range(20))
def test_nothing_overlaps(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    sizes = (64 * random.integers(1, 100, count)).tolist()
    begins = random.integers(0, 100, count)
    ends = (begins + random.integers(0, 30, count)).tolist()
    offsets = arena.placed(sizes, begins.tolist(), ends)
    live = np.zeros((131, max(o + s for o, s in zip(offsets, sizes, strict=True)) // 64), int)
    for size, begin, end, offset in zip(sizes, begins, ends, offsets, strict=True):
        assert offset >= 0
        assert offset % 64 == 0
        live[begin : end + 1, offset // 64 : (offset + size) // 64] += 1
    assert live.max() == 1
    # No more than a third more than what is alive at once at most.
    assert live.shape[1] <= 4 / 3 * live.sum(axis=1).max()


def test_one_after_the_other_share_their_place():
    assert arena.placed([64, 128, 256], [0, 2, 4], [1, 3, 5]) == [0, 0, 0]


def test_a_gap_is_filled():
    # The first two live throughout; what fits between the third and them later does not lie above.
    assert arena.placed([512, 256, 128], [0, 0, 3], [9, 2, 5]) == [0, 512, 512]


def test_where_the_largest_first_leave_a_hole_others_are_first():
    sizes, begins, ends = [64, 64, 128, 128], [3, 1, 4, 1], [6, 3, 5, 2]
    offsets = arena.placed(sizes, begins, ends)
    least = max(sum(s for s, b, e in zip(sizes, begins, ends, strict=True) if b <= now <= e) for now in begins)
    assert max(offset + size for offset, size in zip(offsets, sizes, strict=True)) == least


@pytest.mark.parametrize("sizes", [[0], [1, 64, 65], [100, 3 << 20, 1, 70 << 20, 5]], ids=str)
def test_arrays_of_a_room_are_lines_of_their_own(sizes):
    room = Room()
    arrays = [room.empty(size) for size in sizes]
    for number, array in enumerate(arrays):
        array[:] = number
    for number, (array, size) in enumerate(zip(arrays, sizes, strict=True)):
        assert array.nbytes == size
        assert not size or array.ctypes.data % 64 == 0
        assert (array == number).all()
    del room
    assert all(array.base is not None for array in arrays)
