"""What the engine and the code it calls agree on: words of a call's context, blocks' headers, memref descriptors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass

ENTRY = "o2m_entry"
"""``i32 o2m_entry(context, packed)``: 0, or 1 after a failure; see `onnx2torch_mlir.engine.compiler.runtime.entry`."""

CONTEXT_BYTES = 1024
JMP_BUF_OFFSET = 64
HEAD, FREE, SERIAL, ERROR, START = range(5)
"""Words of a context: newest live block, first free block, serial number, failed assertion, serial at the start."""

THREADS, POOL = 5, 6
"""Words of a context: how many threads a call may use, itself among them (0 is 1), and the pool of the others (0: none)."""

SLAB, ROOM, LIVE, REACH, WANTED, SMALL = range(112, 118)
"""Words of a context: the block that holds buffers of open sizes and its bytes (0 before the first buffer of a call), the first
of the buffers by place, how far they have reached in this call, how large the next call's block is to be, and how many calls in
a row have needed little of it."""

LENT, MOST_LENT = 64, 48
"""Words of a context, and how many: blocks from outside that the call that comes may use as if it had freed them, or 0."""

WORTH = 120
"""The word of a context with the least work that is worth another thread, in operations on one element; 0 is 32768."""

MOST_SHARES = 16
"""Into how many shares the items of a job fall at most."""

STATE, COUNT, GRAIN, FUNCTION, ARGUMENTS, LIMIT, SHARE, LEAST, OWNER, SLEEPERS, STOP, MUTEX, CONDITION, TAKEN = (
    *range(8),
    *(8, 16, 17, 24, 40, 56),
)
POOL_BYTES = 8 * (TAKEN + 8 * MOST_SHARES)
"""Words of a pool, in lines of 64 bytes by who writes them: the state and the job, whose grain is negative where items go from
the last to the first, and how many of them are taken at least; 1 while a job is under way; those that sleep; 1 when the pool
ends; a pthread_mutex_t and a pthread_cond_t; a line for each share, how much of it is taken. See
`onnx2torch_mlir.engine.compiler.pool_code`."""

OPEN, JOB = 1 << 28, 1 << 29
"""In a pool's state: that more workers may join, and the number of jobs so far, in multiples; below, how many workers are
inside. In a share's word the number of the job is in multiples of `OPEN`, and below it how many grains of it are taken, or
items, where fewer than a grain may be."""

WORKER = "o2m_worker"
"""``void o2m_worker(pool, number)``: what a thread of a pool does until the pool ends; numbers begin with 1."""

STOPPER = "o2m_stop"
"""``void o2m_stop(pool)``: lets the workers return."""

REPEAT = "o2m_again"
"""``PyObject *o2m_again(PyObject *self, PyObject *inputs)``: a call like the one before (compiler/repeated_calls.py), as one of
Python's functions, whose ``self`` are bytes with the address of a record. Gives the tuple of the results; or the number
`FAILED` or `ELSEWHERE`, plus the number of what was `GIVEN`; or `IN_USE` or `UNLIKE`, and nothing was done."""

REPEATED, FAILED, ELSEWHERE, IN_USE, UNLIKE = 0, 2, 4, 6, 7
"""It was like it, and so are the results; a failure; results that lie elsewhere; results of before that are still used; inputs
that are not alike."""

ENTRY_OF, CONTEXT, WORDS_IN, WORDS_OUT, ARRAY, INPUTS, RESULTS, COUNT_OUT, CONSUMED, GIVEN = range(10)
HELD, HOLD, LET_GO, RELEASE_LOCK, TAKE_LOCK, OUTCOMES, KINDS, FORMS = *range(12, 18), 25, 37
"""Words of a record of such calls: the entry, the context, the words of the arguments, those of the results, NumPy's type of
arrays, how many inputs and results there are, how many words the results have, which of what was given has no memory any more
(1 for the first, 0 for none), what was given before, of two calls at most (0: nothing); where the inputs are written that the
call holds, Python's functions that hold an object and let it go, and that release its lock and take it again, the numbers from
`REPEATED` to `UNLIKE` as objects; of each kind of inputs (a dict, a list, a tuple) its type, Python's functions that give its
length and an item, and where the keys of all items are; and for each input, then for each result, its dtype (0: none is alike)
and rank.
What was given are the words of the results, their blocks in the order in which to lend them, for each result its array and
the array's first element, and the tuple of the arrays."""

CALLED = (WORKER, STOPPER, REPEAT)
"""The routines that this process calls besides the entry."""

PROFILE = 7
"""The word of a context that points to its table of times; only programs that are compiled with clocks read it."""

PROFILE_HEADER, PROFILE_SITE, PROFILE_EVENT = 3, 4, 3
"""Words of such a table: the header (room for events, number of events, the word where they start); for each site its calls,
nanoseconds, operations and bytes; for each event its site, begin and end."""

HEADER_BYTES = 64
RAW, PREVIOUS, NEXT, AGE, CAPACITY, KEPT = range(-8, -2)
"""Words before a block of memory: malloc's pointer, links of the list, serial number, size, whether a loop keeps it."""

FOLLOWER, PLACE, END = range(-8, -5)
"""Words before a buffer of open size: the next one by place, where it begins in the slab, and where it ends."""

CODES_HEADER = 16
"""Words of 32 bits before packed codes. The words of 64 bits there are: how many bits a code has (32: these are floats), how
many steps along the sum a block has, the bytes of a block's record, whether columns have zero points of their own, else the
one zero point's bits (of bfloat16, whether some are subnormal), the bytes of a panel, the bytes of all panels of a batch, and
the number of the codes' type: of integers their bits, of floats `FLOAT_CODES`."""

INTEGERS = "integers"
FLOAT_CODES = {"f16": 16, "bf16": 17}
"""Types of 16 bits that weights may have in memory whose products are of float32."""

INTEGERS_HEADER = 64
"""Bytes before packed integers. The words of 64 bits there are: their form, and the bytes of a batch."""
AS_PAIRS, AS_FOURS, AS_BYTES = range(3)
"""Forms of packed integers: pairs of 16 bits, fours of bytes, pairs of bytes."""

TILE_PLACES = 16
"""Pixels of a tile of an image, 4 by 4, that Winograd's F(2x2, 3x3) multiplies one by one."""

OUT_OF_MEMORY = -1
"""The number that stands for a failed malloc where others stand for assertions."""


def allocation(block: int) -> int:
    """malloc's pointer of a block of memory."""
    return ctypes.c_uint64.from_address(block + 8 * RAW).value


@dataclass(frozen=True)
class Packing:
    """How a weight is packed for the contraction driver: pairs of a count and a stride, both in elements.

    ``offset`` is where the operand begins in the weight. Packed, batches come first, then panels of ``width`` columns each,
    then the segments, then the columns of the panel; columns beyond the last are 0. With ``zero`` the weight is of bytes
    (``signed`` or not), and packed less that zero point: segments are one then, and after a header neighbours along it lie side
    by side for each column, two of 16 bits, or of 8 if all `holds_bytes`, or, where none is above ``largest``, four of 8 bits
    (compiler/integer_forms.py), and before each panel of those the sums of its columns; beyond the last there are zeros. With
    ``codes`` the weight is one of `derived.py`, packed as packed_codes.py does; all segments are one there, and batches count
    as one step each.
    With ``parts`` the columns fall into so many parts of whole panels; the first panel of each comes first, then the second.
    The last ``few`` columns, if there are some after whole vectors, of which a panel has two, come by themselves: in the last
    panel's memory the vector before them first, if there is one, then of each ``run`` of steps the numbers of a vector of steps
    side by side, of one column after the other.
    With ``windows`` the segments are the lines, columns and channels of windows of 3 by 3, packed as `TILE_PLACES` batches of
    what Winograd's F(2x2, 3x3) makes of them; of bytes four times that, in pairs.
    """

    weight: int
    offset: int
    width: int
    batches: Sequence[Sequence[int]]
    columns: Sequence[int]
    segments: Sequence[Sequence[int]]
    zero: int | None = None
    signed: bool = True
    codes: bool = False
    largest: int = 0
    windows: bool = False
    parts: int = 1
    few: int = 0
    run: int = 0

    @property
    def holds_bytes(self) -> bool:
        """Whether any byte less the zero point is a signed byte."""
        return self.zero == (0 if self.signed else 128)

    @property
    def packed_batches(self) -> list[int]:
        """How many batches of each dim a packed array of floats has."""
        return [TILE_PLACES] if self.windows else [n for n, _ in self.batches]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a packed array of floats."""
        panels = -(-self.columns[0] // self.width)
        segments = [n for n, _ in (self.segments[-1:] if self.windows else self.segments)]
        return (*self.packed_batches, panels, *segments, self.width)

    @property
    def batch_steps(self) -> list[int]:
        """How many bytes apart the packed operands of neighbouring batches are; for codes and integers, how many batches."""
        if self.codes or self.zero is not None:
            return [math.prod(n for n, _ in self.batches[axis + 1 :]) for axis in range(len(self.batches))]
        return [4 * math.prod(self.shape[axis + 1 :]) for axis in range(len(self.batches))]
