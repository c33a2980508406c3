"""Tree ensembles: several walks down the trees at once, since each step of one waits for the last.

Rows are taken in blocks: all rows of a block go down one tree, eight side by side, before the next tree is read. The rows that
are left over go down many trees side by side. Either way a row meets its trees in order, so that sums are a plain loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from onnx2torch_mlir.core.tree_ensembles import FEATURE, FIRST, LEAF, MASK, MIXED, TreeForm, TreeTables
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.reduction import identity_of
from onnx2torch_mlir.lowering.scalars import emit, scalar_body

LANES = 8
TREES = (32, 8, 1)
"""Trees that a single row goes down side by side, and how many of those that are left. Most of a walk is waiting for memory,
which has many more answers under way than a walk has steps; and one walk that is longer than others is met less often."""
BLOCK = 128
STEPS = 2
"""Steps between two looks at whether all have arrived."""

Step = Callable[[ir.Value, ir.Value], ir.Value]


def tree_ensemble(ctx: Context, out: Spec, form: TreeForm, x: Operand, tables: TreeTables[Operand]) -> Operand:
    """[rows, targets] of the rows ``x`` [rows, features]."""
    return _Ensemble(ctx, out, form, x, tables).scores()


class _Ensemble:
    def __init__(self, ctx: Context, out: Spec, form: TreeForm, x: Operand, tables: TreeTables[Operand]) -> None:
        self.ctx, self.b = ctx, ctx.b
        self.out, self.form, self.x, self.tables = out, form, x, tables
        self.identity = identity_of(form.combine, out.dtype)
        self.body = scalar_body(form.combine, out.dtype)

    def scores(self) -> Operand:
        """All rows."""
        ctx, b = self.ctx, self.b
        rows = ctx.sizes.value(self.x.shape[0])
        lanes, block = b.idx(LANES), b.idx(BLOCK)
        left = b.same("arith.remui", rows, lanes)
        whole = b.same("arith.subi", rows, left)
        trees = b.idx(self.form.trees)
        scores = ctx.full(self.identity, self.out.dtype, self.out.shape).value

        def of_block(start: ir.Value, into: ir.Value) -> list[ir.Value]:
            end = b.same("arith.minui", b.same("arith.addi", start, block), whole)

            def of_tree(tree: ir.Value, into: ir.Value) -> list[ir.Value]:
                depth = self._read(self.tables.depths, [tree])

                def of_rows(first: ir.Value, into: ir.Value) -> list[ir.Value]:
                    own = [b.same("arith.addi", first, b.idx(lane)) for lane in range(LANES)]
                    slots = self._arrive([(row, tree) for row in own], depth)
                    return [self._add(into, list(zip(own, slots, strict=True)))]

                return ctx.loop(end, [into], of_rows, start=start, step=lanes)

            return ctx.loop(trees, [into], of_tree)

        scores = ctx.loop(whole, [scores], of_block, step=block, independent=True)[0]
        # Column by column, trees would not be met in order where a target stands in another column of each.
        one_by_one = self.form.listed and self.tables.weights.shape[1] != 1

        def of_row(row: ir.Value, into: ir.Value) -> list[ir.Value]:
            def of_trees(count: int) -> Callable[[ir.Value, ir.Value], list[ir.Value]]:
                def walk(first: ir.Value, into: ir.Value) -> list[ir.Value]:
                    own = [b.same("arith.addi", first, b.idx(lane)) for lane in range(count)]
                    arrived = [(row, slot) for slot in self._arrive([(row, tree) for tree in own], None)]
                    for together in [[one] for one in arrived] if one_by_one else [arrived]:
                        into = self._add(into, together)
                    return [into]

                return walk

            done = 0
            for count in (LANES, 1) if one_by_one else TREES:
                end = self.form.trees // count * count
                if end > done:
                    into = ctx.loop(b.idx(end), [into], of_trees(count), start=b.idx(done), step=b.idx(count))[0]
                    done = end
            return [into]

        scores = ctx.loop(rows, [scores], of_row, start=whole)[0]
        return Operand(self.out.dtype, self.out.shape, scores)

    def _read(self, table: Operand, place: Sequence[ir.Value]) -> ir.Value:
        """An element; integers as indices."""
        element = self.ctx.at(table, place)
        return element if table.dtype.is_floating_point else self.b.to_index(element, table.dtype)

    def _arrive(self, walks: Sequence[tuple[ir.Value, ir.Value]], depth: ir.Value | None) -> list[ir.Value]:
        """The leaves' slots for (row, root); in no more steps than ``depth``, where it is given."""
        b = self.b
        rows = [row for row, _ in walks]

        def go(*carried: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            count, before = carried[0], carried[1:]
            slots = list(before)
            for _ in range(STEPS):
                slots = [self._step(row, slot) for row, slot in zip(rows, slots, strict=True)]
            moved = b.int_constant(0, b.i1)
            for old, new in zip(before, slots, strict=True):
                moved = b.same("arith.ori", moved, b.compare("ne", old, new))
            count = b.same("arith.addi", count, b.idx(STEPS))
            if depth is not None:
                moved = b.same("arith.andi", moved, b.compare("ult", count, depth))
            return moved, [count, *slots]

        return self.ctx.repeat_until([b.idx(0), *(root for _, root in walks)], go)[1:]

    def _step(self, row: ir.Value, slot: ir.Value) -> ir.Value:
        b, t = self.b, self.tables
        value = self.ctx.at(self.x, [row, self._node(slot, FEATURE)])
        threshold = self._read(t.thresholds, [slot])
        if self.form.comparison != MIXED:
            holds = b.compare(f"o{self.form.comparison}", value, threshold)
            if self.form.masked:
                missing = b.compare("uno", value, value)
                holds = b.select(missing, self._bit(slot, b.idx(3)), holds)
        else:
            at = b.compare("oeq", value, threshold)
            if t.sets is not None and t.set_of is not None:
                at = b.same("arith.ori", at, self._among(value, slot))
            above = b.compare("ogt", value, threshold)
            outcome = b.select(at, b.idx(1), b.select(above, b.idx(2), b.idx(0)))
            outcome = b.select(b.compare("uno", value, value), b.idx(3), outcome)
            holds = self._bit(slot, outcome)
        second = b.make("arith.index_castui", b.index, holds)
        return b.same("arith.addi", self._node(slot, FIRST), second)

    def _node(self, slot: ir.Value, column: int) -> ir.Value:
        return self._read(self.tables.nodes, [slot, self.b.idx(column)])

    def _bit(self, slot: ir.Value, number: ir.Value) -> ir.Value:
        b = self.b
        mask = self.ctx.at(self.tables.nodes, [slot, b.idx(MASK)])
        shifted = b.same("arith.shrui", mask, b.make("arith.index_cast", mask.type, number))
        return b.make("arith.trunci", b.i1, shifted)

    def _among(self, value: ir.Value, slot: ir.Value) -> ir.Value:
        ctx, b = self.ctx, self.b
        sets, set_of = self.tables.sets, self.tables.set_of
        assert sets is not None and set_of is not None
        which = self._read(set_of, [slot])

        def look(i: ir.Value, found: ir.Value) -> list[ir.Value]:
            return [b.same("arith.ori", found, b.compare("oeq", value, ctx.at(sets, [which, i])))]

        # The first set is that of nodes without one.
        none = b.compare("eq", which, b.idx(0))
        count = b.select(none, b.idx(0), ctx.sizes.value(sets.shape[1]))
        return ctx.loop(count, [b.int_constant(0, b.i1)], look)[0]

    def _add(self, into: ir.Value, arrived: Sequence[tuple[ir.Value, ir.Value]]) -> ir.Value:
        """The scores with what the leaves hold that (row, slot) have arrived at: column by column of the leaves' weights.

        One loop for all of them: bufferization takes twice as long for every loop behind another that hands on its tensor.
        """
        ctx, b, t = self.ctx, self.b, self.tables
        leaves = [(row, self._node(slot, LEAF)) for row, slot in arrived]

        def one(i: ir.Value, into: ir.Value) -> list[ir.Value]:
            for row, leaf in leaves:
                target = i if t.targets is None else self._read(t.targets, [leaf, i])
                known = b.make("tensor.extract", b.element(self.out.dtype), into, row, target)
                new = emit(b, self.body, known, ctx.at(t.weights, [leaf, i]))
                into = b.make("tensor.insert", into.type, new, into, row, target)
            return [into]

        return ctx.loop(ctx.sizes.value(t.weights.shape[1]), [into], one)[0]
