"""Sums of products through register tiles, against numpy and against plain loops: any size, layout, window and batch."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import register_tile, vector_unit
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.options import Options
from tests.engine import programs
from tests.engine.made_here import assume_vectors, engine_of, entry_of
from tests.engine.programs import M, N, lowered

F = torch.float32
OTHERS = [programs.sympy.Symbol(f"s{i}", integer=True) for i in range(2, 5)]


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def tensor(shape):
    return programs.tensor(F, shape)


def contraction(maps, shapes, start=0.0, sizes=()):
    """A body that adds up %a0 x %a1 over ``maps`` (dims of the result first) in a tensor full of ``start``."""
    a, b, c = map(tensor, shapes)
    dims, outs = maps[0].split("->")[0], maps[2].split("->")[1]
    kinds = ["parallel" if name in outs else "reduction" for name in dims.strip("() ").split(",")]
    made = "\n".join(
        f"%d{i} = arith.constant {axis} : index\n%s{i} = tensor.dim %a{operand}, %d{i} : {(a, b)[operand]}"
        for i, (operand, axis) in enumerate(sizes)
    )
    return f"""{made}
      %e = tensor.empty({", ".join(f"%s{i}" for i in range(len(sizes)))}) : {c}
      %z = arith.constant {start} : f32
      %f = linalg.fill ins(%z : f32) outs(%e : {c}) -> {c}
      %r = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}],
        iterator_types = [{", ".join(f'"{kind}"' for kind in kinds)}]}} ins(%a0, %a1 : {a}, {b}) outs(%f : {c}) {{
        ^bb0(%x: f32, %y: f32, %t: f32):
          %p = arith.mulf %x, %y : f32
          %q = arith.addf %t, %p : f32
          linalg.yield %q : f32
        }} -> {c}
      return %r : {c}"""


MATRIX = ("(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(m,n)")
TURNED = ("(m,n,k)->(m,k)", "(m,n,k)->(n,k)", "(m,n,k)->(m,n)")
SIZES = [
    (1, 1, 1),
    (6, 16, 4),
    (7, 17, 5),
    (13, 31, 67),
    (3, 130, 1),
    (40, 5, 33),
    (12, 64, 19),
    (0, 4, 3),
    (4, 0, 3),
    (4, 3, 0),
]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_one_code_for_all_sizes(turned):
    k = OTHERS[0]
    shapes = (M, k), ((N, k) if turned else (k, N)), (M, N)
    body = contraction(TURNED if turned else MATRIX, shapes, sizes=[(0, 0), (1, 0 if turned else 1)])
    code = engine.compile(lowered(body, [(F, shapes[0]), (F, shapes[1])], [(F, shapes[2])]))
    for m, n, count in SIZES:
        x, y = numbers(m, count), numbers(count, n)
        close(code.run([x, np.ascontiguousarray(y.T) if turned else y])[0], x @ y)


WINDOW = (
    "(n,h,w,f,p,q,c)->(n, 2 * h + p, w + 3 * q, c)",
    "(n,h,w,f,p,q,c)->(f,c,p,q)",
    "(n,h,w,f,p,q,c)->(n,h,w,f)",
)
TWO_SUMS = ("(m,n,j,k)->(j,m,k)", "(m,n,j,k)->(k,j,n)", "(m,n,j,k)->(m,n)")
BATCHES = "(b,m,n,k)->(b,m,n)"
CASES = {
    "batched": (("(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(b,k,n)", BATCHES), ((3, 7, 5), (3, 5, 18), (3, 7, 18)), "bmk,bkn->bmn"),
    "shared": (("(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(k,n)", BATCHES), ((3, 7, 5), (5, 18), (3, 7, 18)), "bmk,kn->bmn"),
    "swapped": (("(m,n,k)->(k,n)", "(m,n,k)->(m,k)", "(m,n,k)->(m,n)"), ((9, 21), (8, 9), (8, 21)), "kn,mk->mn"),
    "row": (MATRIX, ((1, 37), (37, 50), (1, 50)), "mk,kn->mn"),
    "column": (MATRIX, ((50, 37), (37, 1), (50, 1)), "mk,kn->mn"),
    "outer": (MATRIX, ((19, 1), (1, 33), (19, 33)), "mk,kn->mn"),
    "two sums": (TWO_SUMS, ((4, 11, 6), (6, 4, 20), (11, 20)), "jmk,kjn->mn"),
    "left turned": (("(m,n,k)->(k,m)", "(m,n,k)->(k,n)", "(m,n,k)->(m,n)"), ((9, 14), (9, 21), (14, 21)), "km,kn->mn"),
    "all turned": (("(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(n,m)"), ((9, 14), (14, 21), (21, 9)), "mk,kn->nm"),
}  # fmt: skip


@pytest.mark.parametrize("start", [0.0, 2.5])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("constant", [None, 1])
def test_layouts(name, constant, start, monkeypatch):
    maps, shapes, formula = CASES[name]
    arrays = [numbers(*shape) for shape in shapes[:2]]
    weights = [] if constant is None else [(arrays[1], F, shapes[1])]
    body = contraction(maps, shapes, start)
    program = lowered(body, [(F, shape) for shape in shapes[: 2 - len(weights)]], [(F, shapes[2])], weights)
    close(engine.compile(program).run(arrays[: 2 - len(weights)])[0], np.einsum(formula, *arrays) + np.float32(start))


@pytest.mark.parametrize("constant", [False, True])
def test_window(constant, monkeypatch):
    x, w = numbers(2, 11, 13, 3), numbers(18, 3, 3, 2)
    shapes = (x.shape, w.shape, (2, 5, 10, 18))
    weights = [(w, F, w.shape)] if constant else []
    program = lowered(contraction(WINDOW, shapes), [(F, s) for s in shapes[: 2 - constant]], [(F, shapes[2])], weights)
    (found,) = engine.compile(program).run([x, w][: 2 - constant])
    expected = torch.conv2d(torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(w), stride=(2, 1), dilation=(1, 3))
    close(found, expected.permute(0, 2, 3, 1).numpy())
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "contractions")
    close(engine.compile(program).run([x, w][: 2 - constant])[0], found)


@pytest.mark.parametrize("constant", [False, True])
def test_mirrored_window(constant):
    """As a transposed convolution has it: the window's first element is not where the loops begin."""
    x, w = numbers(2, 11, 13, 3), numbers(18, 3, 3, 2)
    maps = ("(n,h,w,f,p,q,c)->(n, h + (-p + 2) * 2, w + 1 - q, c)", *WINDOW[1:])
    shapes = (x.shape, w.shape, (2, 7, 12, 18))
    weights = [(w, F, w.shape)] if constant else []
    program = lowered(contraction(maps, shapes), [(F, s) for s in shapes[: 2 - constant]], [(F, shapes[2])], weights)
    expected = torch.conv2d(torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(w).flip(2, 3), dilation=(2, 1))
    close(engine.compile(program).run([x, w][: 2 - constant])[0], expected.permute(0, 2, 3, 1).numpy())


def test_weights_are_packed_and_inputs_are_not():
    shapes = (N, 40), (40, 70), (N, 70)
    body = contraction(MATRIX, shapes, sizes=[(0, 0)])
    w = numbers(40, 70)
    program = lowered(body, [(F, shapes[0])], [(F, shapes[2])], [(w, F, w.shape)])
    assert len(build(program.bytecode, Options(inputs=1))["packings"]) == 1
    assert build(program.bytecode, Options(inputs=2))["packings"] == []
    assert build(program.bytecode, Options(inputs=1, disabled=frozenset({"contractions"})))["packings"] == []
    code = engine.compile(program)
    for rows in (1, 2, 0, 31):
        close(code.run([numbers(rows, 40)])[0], numbers(rows, 40) @ w)


_ASKING = vector_unit.VectorUnit(8, 16, fetches_ahead=True, loses_rows=True, panel_askers=0)


@pytest.mark.parametrize(
    "unit", [vector_unit.VectorUnit(4, 16), _ASKING, vector_unit.VectorUnit(16, 32)], ids=lambda unit: f"{unit.lanes} lanes"
)
def test_other_vector_units(unit, monkeypatch):
    """LLVM splits or widens vectors that this machine does not have, so that their tiles can be tried anywhere."""
    assume_vectors(monkeypatch, unit)
    shapes = (N, 40), (40, 70), (N, 70)
    w = numbers(40, 70)
    program = lowered(contraction(MATRIX, shapes, sizes=[(0, 0)]), [(F, shapes[0])], [(F, shapes[2])], [(w, F, w.shape)])
    entry = entry_of(program)
    assert {packing[2] for packing in entry["packings"]} == {2 * unit.lanes}
    code = engine_of(program, entry)
    for rows in (1, unit.rows, unit.rows + 1, 31):
        x = numbers(rows, 40)
        close(code.run([x])[0], x @ w)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize(("lanes", "parts"), [(4, "4221"), (8, "4221"), (16, "1111")])
def test_sums_of_few_rows_have_parts_where_vectors_are_narrow(lanes, parts, rows):
    unit = vector_unit.VectorUnit(lanes, 32 if lanes == 16 else 16)
    text = register_tile.tile(unit, TileSize(1, rows, 2))
    assert text.count("\n%halves") == 2 * rows * (int(parts[rows - 1]) - 1)
