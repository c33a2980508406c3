"""How contractions go, and which functions a program's need for that: found for all of them before the first call is written,
so that LLVM makes these meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from onnx2torch_mlir.engine.compiler import (
    column_packing,
    columns_in_place,
    contraction_driver,
    dot_products,
    few_columns,
    winograd,
)
from onnx2torch_mlir.engine.compiler.arguments import Weights
from onnx2torch_mlir.engine.compiler.contraction_kinds import FEW_ROWS, Kind
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction
from onnx2torch_mlir.engine.compiler.contraction_rows import RowsKind
from onnx2torch_mlir.engine.compiler.dot_products import DotKind
from onnx2torch_mlir.engine.compiler.double_products import DoubleKind
from onnx2torch_mlir.engine.compiler.needed_tiles import NeededTiles
from onnx2torch_mlir.engine.compiler.nest_sizes import fill_before
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import named, writers_of
from onnx2torch_mlir.engine.compiler.weight_packing import packing_of
from onnx2torch_mlir.engine.layout import INTEGERS, Packing

_FEWEST_ROWS = 2
"""Fewer are left to loops in any case."""


@dataclass(frozen=True)
class Plan:
    """A contraction of float32 and the one way it goes: as dot products, by Winograd's algorithm, or by blocks of a kind.

    ``packing``: of its columns, where they are a weight; ``zeroed``: whether its result is zero before.
    """

    found: Contraction
    packing: Packing | None
    zeroed: bool
    dots: DotKind | None = None
    image: winograd.Image | None = None
    kind: Kind | None = None


@dataclass
class Needed:
    """The functions that a program's contractions call, as plans are made."""

    kinds: set[Kind] = field(default_factory=set)
    of_rows: set[RowsKind] = field(default_factory=set)
    dots: set[DotKind] = field(default_factory=set)
    doubles: set[DoubleKind] = field(default_factory=set)
    codes: set[str] = field(default_factory=set)
    """What the columns are that are read as codes."""
    packed_before: set[tuple[int, int]] = field(default_factory=set)
    """Numbers of segments and of dims of batches, of columns that are packed before a loop over rows."""
    has_winograd: bool = False
    """Whether some convolution goes by Winograd's algorithm."""
    tiles: NeededTiles = field(default_factory=lambda: NeededTiles(of_host()))

    def add(self, plan: Plan, weights: Weights) -> None:
        """What a plan needs."""
        found, packing = plan.found, plan.packing
        if plan.dots is not None:
            self.dots.add(plan.dots)
        elif plan.image is not None:
            self.has_winograd = True
            self.tiles.add(*winograd.products_of(found, plan.image), 0 if packing is None else packing.few)
        elif plan.kind is not None:
            self.kinds.add(plan.kind)
            if packing is not None and packing.codes:
                self.codes.add(weights.codes[packing.weight])
            few = 0 if packing is None else packing.few
            self.tiles.add_blocks(found, is_packed=packing is not None, codes=plan.kind.codes, few=few)

    def texts(self) -> Iterator[str]:
        """The functions' texts; none, if nothing is needed."""
        if not (self.kinds or self.of_rows or self.has_winograd or self.dots or self.doubles):
            return
        unit = of_host()
        packed = {kind.unpacked for kind in self.kinds if not kind.packed} | {count for count, _ in self.packed_before}
        yield from (column_packing.functions_for(unit, count) for count in sorted(packed))
        yield from (column_packing.functions_for_batches(*key) for key in sorted(self.packed_before))
        needed = (self.kinds, self.of_rows, self.tiles.sizes, self.codes)
        yield from contraction_driver.functions_for(
            unit, *needed, dots=self.dots, doubles=self.doubles, with_winograd=self.has_winograd
        )


def plan_of(found: Contraction, weights: Weights, *, with_winograd: bool) -> Plan | None:
    """How a contraction goes; None if it is left to loops, for its rows are few."""
    unit = of_host()
    packing = packing_of(found, weights, unit)
    zeroed = fill_before(found.generic) is not None
    if packing is None and zeroed:
        turned = dot_products.by_rows(found)
        column = packing_of(turned, weights, unit)
        if dot_products.kind_of(unit, turned, column) is not None:
            found, packing = turned, column
    rows = found.known_rows
    if packing is None and rows is not None and rows < _least_rows(found):
        return None
    dots = dot_products.kind_of(unit, found, packing) if zeroed else None
    if dots is not None and packing is not None:
        return Plan(found, dot_products.packing_of(packing), zeroed, dots=dots)
    image = winograd.match(found, packing) if with_winograd and zeroed else None
    if image is not None and packing is not None:
        return Plan(found, few_columns.apart(unit, found, winograd.packing_of(packing)), zeroed, image=image)
    if packing is not None:
        packing = few_columns.apart(unit, found, packing)
    codes = packing is not None and packing.codes
    narrow = _narrow(found, weights.codes[packing.weight]) if codes and packing is not None else ""
    unpacked = 0 if packing is not None else len(found.segments)
    kind = Kind(len(found.batches), len(found.rows), len(found.merged()), unpacked, codes, narrow)
    return Plan(found, packing, zeroed, kind=kind)


def _least_rows(found: Contraction) -> int:
    """How many rows pay where the right operand is no weight: fewer where nothing has to be packed for them."""
    return _FEWEST_ROWS if columns_in_place.are_near(of_host(), found) else FEW_ROWS


def _narrow(found: Contraction, codes: str) -> str:
    """What the rows may turn out to be, which then are multiplied by the codes as such (`Kind.narrow`): bytes where something
    has rounded them, bfloat16 where the weight is."""
    if found.batches:
        return ""
    if codes == "bf16":
        return "pairs" if of_host().multiplies_brain_floats else ""
    if codes != INTEGERS or not of_host().largest_byte:
        return ""
    writers, _ = writers_of(found.value(found.left))
    return "bytes" if any(named(writer, "math.roundeven") for writer in writers) else ""
