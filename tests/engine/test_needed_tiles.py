"""Which register tiles a program gets: those that its sizes ask for, and numbers that do not depend on it."""

import re

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.compiler import columns_in_place, contraction_driver, contraction_panels, tile_loops, tile_rows
from onnx2torch_mlir.engine.compiler.contraction_kinds import (
    COLUMNS_THAT_STAY,
    FEW_BLOCKS,
    FLAT_BLOCK_ROWS,
)
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit, of_host
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from tests.engine.made_here import engine_of

FLOAT = 1


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def model(nodes, inputs, weights=()):
    """``inputs`` and ``weights`` are named x0, x1 … and w0, w1 …; the result is y."""
    given = [helper.make_tensor_value_info(f"x{i}", FLOAT, shape) for i, shape in enumerate(inputs)]
    kept = [numpy_helper.from_array(numbers(*shape) / np.float32(8), f"w{i}") for i, shape in enumerate(weights)]
    result = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph(nodes, "g", given, [result], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(kind, *operands, **attributes):
    return helper.make_node(kind, operands, ["y"], **attributes)


def product(m, k, n, *, constant=True):
    if constant:
        return model([node("MatMul", "x0", "w0")], [(m, k)], [(k, n)])
    return model([node("MatMul", "x0", "x1")], [(m, k), (k, n)])


def convolution(shape, out, window, **attributes):
    return model([node("Conv", "x0", "w0", **attributes)], [shape], [(out, shape[1], window, window)])


def attention(rows, keys, width, out):
    nodes = [
        helper.make_node("MatMul", ["x0", "x1"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", "shares", "x2"),
    ]
    return model(nodes, [(2, rows, width), (2, width, keys), (2, keys, out)])


MODELS = {
    "few rows": product(5, 70, 33),
    "one row": product(1, 70, 40),
    "blocks of rows": product(131, 40, 96),
    "more columns than stay": product(101, 300, 600),
    "few long blocks": product(49, 1200, 192),
    "columns packed by tiles": product(100, 300, 600, constant=False),
    "columns packed by tiles in parts": product(100, 2600, 70, constant=False),
    "columns far away": product(64, 300, 600, constant=False),
    "columns far away in parts": product(70, 2600, 70, constant=False),
    "columns far away for low tiles": product(9, 300, 600, constant=False),
    "columns that lie as if packed": product(40, 50, of_host().columns, constant=False),
    "two rows of near columns": product(2, 50, 71, constant=False),
    "batches of three rows": model([node("MatMul", "x0", "x1")], [(4, 3, 33), (4, 33, 32)]),
    "batches of columns": model([node("MatMul", "x0", "x1")], [(3, 20, 33), (3, 33, 71)]),
    "prime everything": product(67, 61, 53, constant=False),
    "narrow": product(30, 20, 7),
    "wide and narrow": product(30, 20, 71, constant=False),
    "pixels": convolution((1, 20, 13, 11), 40, 1),
    "windows": convolution((2, 5, 17, 19), 24, 3, strides=[2, 2]),
    "windows of many channels": convolution((1, 200, 9, 9), 24, 3, strides=[2, 2]),
    "windows of pixels with room": convolution((1, 256, 9, 10), 40, 3, strides=[2, 2], pads=[1, 1, 1, 1]),
    "a window of pixels with room": convolution((1, 256, 2, 2), 40, 3, strides=[2, 2], pads=[1, 1, 0, 0]),
    "fewer products": convolution((1, 32, 19, 23), 48, 3, pads=[1, 1, 1, 1]),
    "attention": attention(70, 50, 16, 16),
    "attention of few columns": attention(53, 35, 64, 40),
    "attention of a few rows": attention(5, 600, 64, 64),
}


def compiled(read, threads):
    return engine_of(o2m.convert(read).lowered, threads=threads)


def check(read, threads=1):
    check_all(read, [[[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in read.graph.input]], threads)


def check_all(read, every, threads=1):
    """One program for inputs of each of the shapes."""
    session = onnxruntime.InferenceSession(read.SerializeToString(), providers=["CPUExecutionProvider"])
    program = compiled(read, threads)
    for shapes in every:
        feeds = {value.name: numbers(*shape) for value, shape in zip(read.graph.input, shapes, strict=True)}
        (expected,) = session.run(None, feeds)
        for array in feeds.values():
            array.flags.writeable = False
        np.testing.assert_allclose(program.run(feeds)[0], expected, rtol=2e-4, atol=5e-4)
        assert all(np.array_equal(array, numbers(*array.shape)) for array in feeds.values())


@pytest.fixture
def nothing_for_other_rows(monkeypatch):
    """Rows for which there is no tile are left out."""
    made = tile_loops.tile_loop

    def without(*arguments):
        text = made(*arguments)
        text, found = re.subn(r"default \{\nfunc\.call [^\n]*\nscf\.yield\n\}", "default {\nscf.yield\n}", text)
        assert found
        return text

    monkeypatch.setattr(tile_loops, "tile_loop", without)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_known_sizes_have_all_their_tiles(name, threads, nothing_for_other_rows):
    check(MODELS[name], threads)


@pytest.mark.parametrize("name", MODELS)
def test_rows_without_a_tile_go_one_by_one(name, monkeypatch):
    made = contraction_driver.functions_for
    needed = []

    def with_none(unit, kinds, of_rows, sizes, codes, **more):
        needed.append(len(sizes))
        of_few = {size for size in sizes if size.few and size.rows == 1}
        return made(unit, kinds, of_rows, of_few, codes, **more)

    monkeypatch.setattr(contraction_driver, "functions_for", with_none)
    check(MODELS[name])
    assert needed and 0 not in needed


def test_tiles_that_nobody_calls_are_not_made(monkeypatch):
    made, sizes = contraction_driver.functions_for, []
    monkeypatch.setattr(contraction_driver, "functions_for", lambda *a, **k: sizes.append(a[3]) or made(*a, **k))
    compiled(product(24 * of_host().rows, 30, 4 * of_host().columns), 1)
    assert sizes.pop() == {TileSize(1, of_host().rows, 2)}
    compiled(product("n", 30, 4 * of_host().columns), 1)
    assert sizes.pop() == {TileSize(1, tile_rows.height(rows), 2) for rows in range(1, of_host().rows + 1)}


def test_first_rows_may_have_a_tile_of_their_own(monkeypatch):
    """There is one only where it may be called: it packs columns that do not stay in the cache for many rows, and asks for
    them, where few rows read them as they lie."""
    made, sizes = contraction_driver.functions_for, []
    monkeypatch.setattr(contraction_driver, "functions_for", lambda *a, **k: sizes.append(a[3]) or made(*a, **k))
    few = columns_in_place.most_rows(of_host()) // of_host().rows * of_host().rows
    many = few + 104
    every = [(many, 300, 600), (few, 300, 600), (many, 30, 600), (4, 300, 600), ("m", "k", "n"), ("m", 300, 600)]
    for m, k, n in every:
        compiled(product(m, k, n, constant=False), 1)
    compiled(product(many, 300, 600), 1)
    compiled(model([node("Gemm", "x0", "x1", transB=1)], [(many, 300), (600, 300)]), 1)
    first = [tuple(any(getattr(size, what) for size in found) for what in ("packs", "asks")) for found in sizes]
    can_pack = columns_in_place.first_tile_packs(of_host())
    packs, asks, neither, either = (can_pack, False), (False, True), (False, False), (can_pack, True)
    assert first == [packs, asks, neither, neither, either, either, neither, neither]
    near = of_host().leaves_columns
    assert [any(size.apart for size in found) for found in sizes] == [False, True, near, True, True, True, False, False]
    # Where all columns lie, there is no tile for packed ones.
    compiled(product(few, 300, 4 * of_host().columns, constant=False), 1)
    assert all(size.is_general for size in sizes[-1])


@pytest.mark.parametrize("threads", [1, 2])
def test_one_program_for_sizes_that_are_not_known(threads):
    """Of a few rows, of more than a block, of columns that stay and that do not, with rests of each."""
    sizes = [(5, 0, 3), (33, 17, 50), (100, 300, 600), (7, 300, 600), (9, 300, 601), (1, 4000, 65), (130, 2600, 70)]
    check_all(product("m", "k", "n", constant=False), [[(m, k), (k, n)] for m, k, n in sizes], threads)


def test_sums_before_a_tail_lie_in_the_room_for_them():
    """Of each of several blocks of rows; whatever was written elsewhere would be on the stack of the one that calls."""
    nodes = [helper.make_node("MatMul", ["x0", "w0"], ["s"]), node("Relu", "s")]
    for rows in (25, 96, 200, 1000):
        check(model(nodes, [(rows, 70)], [(70, 130)]))


@pytest.mark.parametrize("most", [1, 6, 12, 24])
def test_even_parts(most):
    for count in range(200):
        parts, left = [], count
        while left:
            parts.append(min(left, -(-count // -(-count // most))))
            left -= parts[-1]
        assert tile_rows.even_parts(count, most) == set(parts)


@pytest.mark.parametrize("most", [24, 96])
def test_even_parts_of_even_numbers(most):
    for count in range(1, 200):
        parts = tile_rows.even_parts(count, most, 2)
        each, last = max(parts), min(parts)
        assert each <= most and (count - last) % each == 0
        assert each % 2 == 0 or parts == {count}


IN_HALVES = VectorUnit(16, 32, works_in_halves=True)
UNITS = [(VectorUnit(4, 16), ()), (VectorUnit(8, 16), ()), (VectorUnit(16, 32), ()), (IN_HALVES, (8, 16))]


@pytest.mark.parametrize("unit, last", UNITS)
def test_many_rows_fall_into_high_blocks(unit, last):
    """Few are in flat ones, for threads to share, where the columns stay in the cache; the ``last`` of these may have fewer."""
    each = unit.block_rows
    most = (FEW_BLOCKS - 1) * each
    assert each % unit.rows == 0
    assert tile_rows.parts_of_rows(unit, most, 1) == {FLAT_BLOCK_ROWS, *last[:1]}
    assert tile_rows.parts_of_rows(unit, most + each, 1) == {each}
    assert tile_rows.parts_of_rows(unit, 2 * each, COLUMNS_THAT_STAY + 1) == {each}
    assert tile_rows.parts_of_rows(unit, 2 * each, None) == {FLAT_BLOCK_ROWS, each, *last[1:]}


@pytest.mark.parametrize("rows", [2976, 2977, 3001, 3072, 3100])
def test_sums_of_many_rows(rows):
    """Of the last flat blocks, and the first high ones."""
    check(product(rows, 17, 40))


@pytest.mark.parametrize("unit", [VectorUnit(4, 16), VectorUnit(8, 16), VectorUnit(16, 32)], ids=str)
def test_heights_do_all_rows_and_hardly_more(unit):
    """As `tile_loops.tile_loop` goes: what is over is one row at most."""
    for rows in range(1, 200):
        tiles = -(-rows // unit.rows)
        found = tile_rows.heights(unit, rows)
        assert max(found) <= unit.rows and all(height <= 4 or height % 2 == 0 for height in found)
        assert max(found) - min(found) <= 3
        assert tiles * min(found) <= rows + 1 and rows <= tiles * max(found)


def test_segments_that_a_tile_goes_along():
    """Outer ones are left to loops while there are too many packed columns."""
    unit = VectorUnit(16, 32)
    assert contraction_panels.levels(unit, [4000], 100) == {1}
    assert contraction_panels.levels(unit, [3, 400], 100) == {2}
    assert contraction_panels.levels(unit, [3, 500], 100) == {1}
    # Three only where inner ones are short.
    assert contraction_panels.levels(unit, [3, 3, 80], 100) == {3}
    assert contraction_panels.levels(unit, [3, 3, 140], 100) == {2}
    assert contraction_panels.levels(unit, [50, 3, 80], 100) == {2}
    # One tile of all rows goes along all of them.
    assert contraction_panels.levels(unit, [3, 1000], 5) == {2}
    assert contraction_panels.levels(unit, [3, 1000], None) == {1, 2}
    assert contraction_panels.levels(unit, [50, 3, 80], 5) == {3}
    assert contraction_panels.levels(unit, [50, 3, 80], None) == {2, 3}


def test_tiles_of_two_segments_serve_three(monkeypatch):
    """There is room behind the channels of a padded image."""
    asked = list[str]()

    def add(written, module, *texts, real=WrittenCode.add):
        asked.extend(texts)
        real(written, module, *texts)

    monkeypatch.setattr(WrittenCode, "add", add)
    compiled(MODELS["windows of pixels with room"], 1)
    text = "\n".join(asked)
    assert "@o2m_panel_3(" in text and "@o2m_tile_f32_2_" in text
    assert "@o2m_tiles_3(" not in text and "@o2m_tile_f32_3" not in text


@pytest.mark.parametrize("rows, columns, taken", [(1, 70, 0), (2, 70, 1), (3, 70, 1), (2, 3000, 0), (3, 3000, 0), (4, 3000, 1)])
def test_two_rows_are_enough_for_columns_that_are_near(rows, columns, taken, monkeypatch):
    made, kinds = contraction_driver.functions_for, []
    monkeypatch.setattr(contraction_driver, "functions_for", lambda *a, **k: kinds.extend(a[1]) or made(*a, **k))
    read = product(rows, 50, columns, constant=False)
    check(read)
    assert len(kinds) == taken
    compiled(model([node("Gemm", "x0", "x1", transB=1)], [(rows, 50), (columns, 50)]), 1)
    assert len(kinds) == taken + (rows == 4)
