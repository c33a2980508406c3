"""What the processor that code is made for computes with: the width and number of its vector registers."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES

_BYTES = 4
_ANY_BYTE = 128
_ADDED_AS_WORDS = 64
"""Two products of a signed byte of this magnitude and an unsigned one add up to at most 2 * 64 * 255 < 2^15."""


@dataclass(frozen=True)
class VectorUnit:
    """``lanes``: float32 numbers in a register; ``registers``: how many of these there are.

    ``multiplies_pairs``: whether an instruction multiplies integers of 16 bits and adds each two neighbours. ``largest_byte``:
    up to which magnitude signed bytes can be multiplied by unsigned ones and four neighbours be added exactly; 0 if they
    cannot, 128 where one instruction does all of it.
    """

    lanes: int
    registers: int
    multiplies_pairs: bool = False
    largest_byte: int = 0
    has_matrices: bool = False
    """Whether there is a unit for products of matrices of bytes (AMX)."""
    looks_up: bool = False
    """Whether an instruction finds, for each lane, one of as many numbers as a register has (AVX-512)."""
    widens_halves: bool = False
    """Whether an instruction makes float32 of float16."""
    fetches_ahead: bool = False
    """Whether what is read in order is in the first-level cache in time unasked, so that to ask for it only costs time."""
    loses_rows: bool = False
    """Whether this ends where rows begin: those that a tile meets next, as many as it has, are better asked for. On Zen 5 to do
    so takes 1 to 4 % of any product's time, for nothing."""
    panel_askers: int = 4
    """How many tiles of a panel of columns together ask for the next panel, each for a part; those behind do as the last of
    them. It comes from memory, and its first tile waits for what is not there yet.

    One, where little else is asked for: the others ask for what is there then, which costs nothing on Zen 4, and all of it is
    asked for where there are no others (8 rows of 1024 numbers times 1024 columns: a fifth less than with four; 64 rows: 5 %
    less than with none). None on Zen 3, which has the next panel by itself (24 rows of 1024 numbers: a fifth faster).
    """
    multiplies_brain_floats: bool = False
    """Whether one instruction adds two products of bfloat16 to a float32 (AVX512_BF16), and is not slower than those that do so
    one by one, as Intel's is (rows of 128 numbers and more: half as fast); or whether a unit for matrices does."""
    has_brain_matrices: bool = False
    """Whether there is a unit for products of matrices of bfloat16 (AMX-BF16)."""
    works_in_halves: bool = False
    """Whether it does the work of an instruction in two steps, half a register each."""

    @property
    def has_dot_products(self) -> bool:
        """Whether one instruction adds four products of bytes to an int32 (VNNI)."""
        return self.largest_byte == _ANY_BYTE

    @property
    def scales(self) -> bool:
        """Whether one instruction multiplies numbers by powers of 2, each by its own (AVX-512)."""
        return self.lanes == 16

    @property
    def rounds_once(self) -> bool:
        """Whether one instruction multiplies and adds, and rounds only the sum (FMA)."""
        return self.lanes > 4

    @property
    def columns(self) -> int:
        """Columns of a register tile: two registers, so that each broadcast number is used twice."""
        return 2 * self.lanes

    @property
    def has_wide_panels(self) -> bool:
        """Whether the columns of a tile are more than a line of the cache for each step along the sum: to read them alone,
        where they lie apart, then is about as good as to read those of several tiles."""
        return self.columns * _BYTES > LINE_BYTES

    @property
    def leaves_columns(self) -> bool:
        """Whether more rows than a tile has read dense columns where they lie (columns_in_place.py), which are not packed then:
        what is read in order comes in time by itself, though only some of it lies side by side."""
        return self.fetches_ahead and self.has_wide_panels

    def parts_of_sum(self, rows: int) -> int:
        """Into how many parts, whose columns are read by turns, the sums of so few ``rows`` fall.

        Where vectors are narrow: what the processor reads ahead ends with each page, and of several places it has more under
        way (4096 by 4096 columns from memory on Zen 3: a third faster in four parts, a fifth in two). And a row has few sums
        under way there, which a step cannot begin before the last one's are done (an LSTM: a fifth faster). One place alone
        is best where a step reads two lines of it (Zen 4: the same columns 8 to 20 % slower in four parts, a Llama's one token
        20 %, and 4 and 8 % in two).
        """
        if self.has_wide_panels:
            return 1
        return 4 if rows == 1 else 2 if rows <= 3 else 1

    @property
    def rows(self) -> int:
        """Rows of a register tile: what is left of 16 registers after two for columns and one for a broadcast.

        Of 32 as many as the first-level cache has ways, or rows that lie a multiple of 4 KiB apart drive each other out of it
        (12 to 8: a tenth faster there on Zen 4); in halves, eight rows have sums enough to hide how long one of them takes.
        """
        if self.registers < 32:
            return (self.registers - 3) // 2
        return 8 if self.works_in_halves else 12

    @property
    def block_rows(self) -> int:
        """Most rows of a block of sums (contraction_kinds.py), a multiple of `rows`.

        128 of eight each: columns that come from far are met by one block where there are so many rows (BERT 1 to 3 % faster
        on Zen 4, a product of 128 rows half a per cent).
        """
        return 128 if self.works_in_halves else 96

    def holds(self, columns: int, rows: int = 1) -> bool:
        """Whether registers hold so many rows of ``columns`` float32 sums, beside as many of what they are made of."""
        return rows * -(-columns // self.lanes) <= self.registers // 2


def of_host() -> VectorUnit:
    """The vector unit that code is made for; SSE's where nothing better is known."""
    return _of(objects.host())


@functools.cache
def _of(host: str) -> VectorUnit:
    _, name, listed = host.split()
    features = set(listed.split(","))
    by_itself = name.startswith("znver")
    if "+avx512f" in features:
        has_words = "+avx512bw" in features
        has_dots = "+avx512vnni" in features
        has_matrices = has_dots and {"+amx-tile", "+amx-int8"} <= features
        largest = _largest_byte(has_words, has_dots)
        brain_matrices, halves = {"+amx-tile", "+amx-bf16"} <= features, name == "znver4"
        has_pairs = brain_matrices or (by_itself and "+avx512bf16" in features)
        return VectorUnit(
            16,
            32,
            multiplies_pairs=has_words,
            largest_byte=largest,
            has_matrices=has_matrices,
            looks_up=True,
            widens_halves=True,
            fetches_ahead=by_itself,
            loses_rows=by_itself and name != "znver5",
            panel_askers=1 if by_itself else 4,
            multiplies_brain_floats=has_pairs,
            has_brain_matrices=brain_matrices,
            works_in_halves=halves,
        )
    if {"+avx2", "+fma"} <= features:
        largest = _largest_byte(True, "+avxvnni" in features)
        widens = "+f16c" in features
        askers = 0 if by_itself else 4
        amd = {"fetches_ahead": by_itself, "loses_rows": by_itself}
        return VectorUnit(8, 16, True, largest, widens_halves=widens, panel_askers=askers, **amd)
    return VectorUnit(4, 16, "+sse2" in features, _largest_byte("+ssse3" in features, False))


def _largest_byte(by_words: bool, at_once: bool) -> int:
    return _ANY_BYTE if at_once else _ADDED_AS_WORDS if by_words else 0
