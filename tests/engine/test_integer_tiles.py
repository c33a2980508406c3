"""Sums of products of bytes through register tiles of integers, against numpy: any size, layout, window and zero point."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import integer_contractions, integer_driver, integer_forms
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.layout import AS_BYTES, AS_FOURS, AS_PAIRS, Packing
from onnx2torch_mlir.engine.options import Options
from onnx2torch_mlir.engine.packed_weights import packed
from tests.engine import programs
from tests.engine.made_here import engine_of
from tests.engine.programs import M, N, lowered
from tests.engine.test_register_tiles import CASES, MATRIX, OTHERS, SIZES, TURNED, WINDOW

NUMPY = {torch.int8: np.int8, torch.uint8: np.uint8}
I32 = torch.int32


def codes(dtype, *shape):
    limits = np.iinfo(NUMPY[dtype])
    numbers = np.random.default_rng(sum(shape)).integers(limits.min, limits.max, shape, endpoint=True)
    return numbers.astype(NUMPY[dtype])


def contraction(maps, dtypes, shapes, zeros=(None, None), start=0, sizes=(), extra=()):
    """A body that adds up (%a0 - zeros[0]) x (%a1 - zeros[1]) over ``maps`` in a tensor full of ``start``.

    A zero point is None, a number, or the name of an operand of which ``extra`` tells (name, type, map).
    """
    signless = [programs.tensor(torch.uint8, shape).replace("ui", "i") for shape in shapes[:2]]
    a, b = (t.replace("xui8", "xi8") for t in signless)
    c = programs.tensor(I32, shapes[2])
    dims, outs = maps[0].split("->")[0], maps[2].split("->")[1]
    kinds = ["parallel" if name in outs else "reduction" for name in dims.strip("() ").split(",")]
    maps = [*maps[:2], *(f"{dims}->{map_}" for _, _, map_ in extra), maps[2]]
    lines = []
    for number, (name, dtype, zero) in enumerate(zip("xy", dtypes, zeros, strict=True)):
        lines.append(f"%w{number} = arith.ext{'s' if dtype is torch.int8 else 'u'}i %{name} : i8 to i32")
        if zero is not None:
            given = f"%z{number}" if isinstance(zero, int) else f"%{zero}"
            lines.append(f"%n{number} = arith.subi %w{number}, {given} : i32")
    left, right = (f"%n{i}" if zero is not None else f"%w{i}" for i, zero in enumerate(zeros))
    made = "\n".join(
        f"%d{i} = arith.constant {axis} : index\n%s{i} = tensor.dim %a{operand}, %d{i} : {(a, b)[operand]}"
        for i, (operand, axis) in enumerate(sizes)
    )
    known = "\n".join(f"%z{i} = arith.constant {zero} : i32" for i, zero in enumerate(zeros) if isinstance(zero, int))
    names = "".join(f", {name}" for name, _, _ in extra)
    types = "".join(f", {type_}" for _, type_, _ in extra)
    arguments = "".join(f", %e{i}: i32" for i in range(len(extra)))
    body = "\n".join(lines)
    return f"""{made}
      {known}
      %e = tensor.empty({", ".join(f"%s{i}" for i in range(len(sizes)))}) : {c}
      %z = arith.constant {start} : i32
      %f = linalg.fill ins(%z : i32) outs(%e : {c}) -> {c}
      %r = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}],
        iterator_types = [{", ".join(f'"{kind}"' for kind in kinds)}]}} ins(%a0, %a1{names} : {a}, {b}{types}) outs(%f : {c}) {{
        ^bb0(%x: i8, %y: i8{arguments}, %t: i32):
          {body}
          %p = arith.muli {left}, {right} : i32
          %q = arith.addi %t, %p : i32
          linalg.yield %q : i32
        }} -> {c}
      return %r : {c}"""


def program(body, inputs, outputs, weights=()):
    """`lowered`, in which bytes are signless."""
    made = lowered(body, inputs, outputs, weights)
    text = made.bytecode.decode().replace("ui8", "i8")
    return type(made)(text.encode(), made.inputs, made.weights, made.outputs, made.checks, made.dim_names)


SIGNS = [(x, y) for x in NUMPY for y in NUMPY]


@pytest.mark.parametrize("dtypes", SIGNS)
def test_one_code_for_all_sizes(dtypes):
    k = OTHERS[0]
    turned = dtypes[0] is dtypes[1]
    shapes = (M, k), ((N, k) if turned else (k, N)), (M, N)
    body = contraction(TURNED if turned else MATRIX, dtypes, shapes, (3, -7), sizes=[(0, 0), (1, 0 if turned else 1)])
    inputs = [(dtype, shape) for dtype, shape in zip(dtypes, shapes[:2], strict=True)]
    code = engine.compile(program(body, inputs, [(I32, shapes[2])]))
    for m, n, count in [*SIZES, (13, 37, 2051), (200, 40, 600), (5, 9, 29), (3, 9, 11)]:
        x, y = codes(dtypes[0], m, count), codes(dtypes[1], count, n)
        found = code.run([x, np.ascontiguousarray(y.T) if turned else y])[0]
        np.testing.assert_array_equal(found, (x.astype(np.int32) - 3) @ (y.astype(np.int32) + 7))


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("constant", [False, "large", "small"])
def test_layouts(name, constant, start):
    """Weights of which all are small have tiles of their own."""
    maps, shapes, formula = CASES[name]
    dtypes = torch.uint8, torch.int8
    arrays = [codes(dtype, *shape) for dtype, shape in zip(dtypes, shapes[:2], strict=True)]
    if constant == "small":
        arrays[1] = np.clip(arrays[1], -63, 65)
    weights = [(arrays[1], torch.int8, shapes[1])] if constant else []
    inputs = [(torch.uint8, shapes[0]), (torch.int8, shapes[1])][: 2 - bool(constant)]
    code = program(contraction(maps, dtypes, shapes, (128, 1), start), inputs, [(I32, shapes[2])], weights)
    expected = np.einsum(formula, arrays[0].astype(np.int32) - 128, arrays[1].astype(np.int32) - 1) + start
    np.testing.assert_array_equal(engine.compile(code).run(arrays[: 2 - bool(constant)])[0], expected)


@pytest.mark.parametrize("dtypes", SIGNS)
@pytest.mark.parametrize("largest", [64, 65, 127, 128])
def test_the_largest_small_weights(dtypes, largest):
    """Sums of two products do not fit 16 bits from 65 on; sums of several parts, and of a number of steps that is odd."""
    zero = 128 if dtypes[1] is torch.uint8 else 0
    x = np.full((7, 4101), np.iinfo(NUMPY[dtypes[0]]).max, NUMPY[dtypes[0]])
    x[3] = np.iinfo(x.dtype).min
    w = np.full((4101, 35), zero + min(largest, 127), NUMPY[dtypes[1]])
    w[:, 5] = zero - largest
    shapes = (x.shape, w.shape, (7, 35))
    made = program(
        contraction(MATRIX, dtypes, shapes, (-9, zero)), [(dtypes[0], x.shape)], [(I32, (7, 35))], [(w, dtypes[1], w.shape)]
    )
    code = engine.compile(made)
    np.testing.assert_array_equal(code.run([x])[0], (x.astype(np.int32) + 9) @ (w.astype(np.int32) - zero))
    packing = Packing(*build(made.bytecode, Options(inputs=1))["packings"][0])
    assert packed(w, packing)[:8].view(np.int64)[0] == (AS_FOURS if largest <= packing.largest else AS_BYTES)


@pytest.mark.parametrize("largest", [0, 64, 128])
@pytest.mark.parametrize(("signed", "zero", "holds"), [(True, 0, True), (False, 128, True), (True, 1, False), (False, 0, 0)])
def test_forms_of_weights(signed, zero, holds, largest):
    """What a weight turns out to be is one of the forms that are expected of it."""
    unit = replace(of_host(), largest_byte=largest)
    packing = Packing(0, 0, 4, [], (4, 1), [(6, 4)], zero=zero, signed=signed, largest=largest)
    assert packing.holds_bytes == holds
    possible = integer_forms.possible(unit, packing)
    small = zero + np.arange(24).reshape(6, 4)
    found = set()
    for numbers in (small, np.where(small % 5 == 0, 127 if signed else 255, small)):
        weight = numbers.astype(np.int8 if signed else np.uint8)
        found.add(int(packed(weight, packing)[:8].view(np.int64)[0]))
    wide, fours = {AS_BYTES if holds else AS_PAIRS}, {AS_FOURS} if largest else set()
    assert {form.number for form in possible} == (fours if holds and largest == 128 else wide | fours)
    assert found <= {form.number for form in possible}


@pytest.mark.parametrize("largest", [0, 64])
@pytest.mark.parametrize(("dtype", "zero"), [(torch.int8, 0), (torch.uint8, 128), (torch.int8, -3), (torch.uint8, 0)], ids=str)
@pytest.mark.parametrize("steps", [1, 2, 7, 8, 9, 66, 2051])
def test_few_rows_by_any_form(steps, dtype, zero, largest, monkeypatch):
    """Of one tile, which goes along the whole sum at once, a single row's in several parts; and of one row more."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    unit = replace(of_host(), largest_byte=largest)
    monkeypatch.setattr(integer_contractions, "of_host", lambda: unit)
    for columns in (unit.lanes - 1, 2 * unit.columns + 3):
        w = codes(dtype, steps, columns)
        body = contraction(MATRIX, (torch.uint8, dtype), ((M, steps), w.shape, (M, columns)), (9, zero), sizes=[(0, 0)])
        made = program(body, [(torch.uint8, (M, steps))], [(I32, (M, columns))], [(w, dtype, w.shape)])
        code = engine_of(made)
        for rows in (1, 2, unit.rows, unit.rows + 1):
            x = codes(torch.uint8, rows, steps)
            np.testing.assert_array_equal(code.run([x])[0], (x.astype(np.int32) - 9) @ (w.astype(np.int32) - zero))


@pytest.mark.parametrize("dtypes", SIGNS)
@pytest.mark.parametrize("rows", [15, 16, 17, 32, 33, 64, 205])
@pytest.mark.parametrize(("steps", "columns"), [(63, 40), (64, 31), (67, 32), (200, 33), (448, 96)])
def test_many_rows(dtypes, rows, steps, columns):
    """Tiles of a matrix unit are of 16 rows and 64 steps along the sum; what is left of these is done by vectors."""
    zero = 128 if dtypes[1] is torch.uint8 else 0
    x, w = codes(dtypes[0], rows, steps), codes(dtypes[1], steps, columns)
    shapes = (x.shape, w.shape, (rows, columns))
    body = contraction(MATRIX, dtypes, shapes, (-9, zero), 1000)
    made = program(body, [(dtypes[0], x.shape)], [(I32, (rows, columns))], [(w, dtypes[1], w.shape)])
    expected = (x.astype(np.int32) + 9) @ (w.astype(np.int32) - zero) + 1000
    np.testing.assert_array_equal(engine.compile(made).run([x])[0], expected)


@pytest.mark.parametrize("columns", [2, 15, 16, 17, 31, 33, 40, 48, 49, 80, 1000])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_half_a_panel(constant, small, columns, monkeypatch):
    """What is left after a few whole panels meets tiles of one vector, if that holds it; else there are no such tiles."""
    steps, rows, said = 70, 21, []
    make = integer_driver.functions_for
    monkeypatch.setattr(integer_driver, "functions_for", lambda *a, **k: said.append(k["has_halves"]) or make(*a, **k))
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    x, w = codes(torch.uint8, rows, steps), codes(torch.int8, steps, columns) // (2 if small else 1)
    shapes = (x.shape, w.shape, (rows, columns))
    weights = [(w, torch.int8, w.shape)] if constant else []
    inputs = [(torch.uint8, x.shape), (torch.int8, w.shape)][: 2 - constant]
    made = program(contraction(MATRIX, (torch.uint8, torch.int8), shapes, (9, None), 5), inputs, [(I32, shapes[2])], weights)
    expected = (x.astype(np.int32) - 9) @ w.astype(np.int32) + 5
    np.testing.assert_array_equal(engine.compile(made).run([x, w][: 2 - constant])[0], expected)
    build(made.bytecode, Options(inputs=len(inputs)))
    unit = of_host()
    assert said == [0 < columns % unit.columns <= unit.lanes and columns < 8 * unit.columns]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_window(constant, small, monkeypatch):
    x, w = codes(torch.uint8, 2, 11, 13, 3), codes(torch.int8, 18, 3, 3, 2) // (2 if small else 1)
    shapes = (x.shape, w.shape, (2, 5, 10, 18))
    weights = [(w, torch.int8, w.shape)] if constant else []
    body = contraction(WINDOW, (torch.uint8, torch.int8), shapes, (100, None))
    inputs = [(torch.uint8, shapes[0]), (torch.int8, shapes[1])][: 2 - constant]
    made = program(body, inputs, [(I32, shapes[2])], weights)
    (found,) = engine.compile(made).run([x, w][: 2 - constant])
    image = torch.from_numpy(x.astype(np.float64) - 100).permute(0, 3, 1, 2)
    expected = torch.conv2d(image, torch.from_numpy(w.astype(np.float64)), stride=(2, 1), dilation=(1, 3))
    np.testing.assert_array_equal(found, expected.permute(0, 2, 3, 1).numpy())
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "contractions")
    np.testing.assert_array_equal(engine.compile(made).run([x, w][: 2 - constant])[0], found)


@pytest.mark.parametrize("constant", [False, True])
def test_zero_points_of_columns_and_of_run_time(constant):
    x, w, zeros = codes(torch.uint8, 9, 33), codes(torch.int8, 33, 21), codes(torch.int8, 21).astype(np.int32)
    zero = np.array(77, np.int32)
    maps, shapes = MATRIX, (x.shape, w.shape, (9, 21))
    extra = [("%a2", "tensor<21xi32>", "(n)"), ("%a3", "tensor<i32>", "()")]
    if constant:
        extra = [(name.replace("2", "9").replace("3", "2").replace("9", "3"), *rest) for name, *rest in extra]
    body = contraction(maps, (torch.uint8, torch.int8), shapes, ("e1", "e0"), extra=extra)
    if constant:
        body = body.replace("%a1", "%aX").replace("%a2", "%a1").replace("%aX", "%a2")
        inputs, weights = [(torch.uint8, x.shape), (I32, ())], [(w, torch.int8, w.shape), (zeros, I32, zeros.shape)]
        found = engine.compile(program(body, inputs, [(I32, (9, 21))], weights)).run([x, zero])[0]
    else:
        inputs = [(torch.uint8, x.shape), (torch.int8, w.shape), (I32, zeros.shape), (I32, ())]
        found = engine.compile(program(body, inputs, [(I32, (9, 21))])).run([x, w, zeros, zero])[0]
    np.testing.assert_array_equal(found, (x.astype(np.int32) - 77) @ (w.astype(np.int32) - zeros))


@pytest.mark.parametrize("zero", [255, -255, 256, 32_700, 65_536, -(2**31)])
def test_zero_points_that_no_byte_holds(zero):
    """Of a row, and of one column; loops do what tiles cannot."""
    x, w = codes(torch.uint8, 9, 33), codes(torch.int8, 33, 21)
    maps, shapes = MATRIX, (x.shape, w.shape, (9, 21))
    extra = [("%a2", "tensor<21xi32>", "(n)"), ("%a3", "tensor<i32>", "()")]
    body = contraction(maps, (torch.uint8, torch.int8), shapes, ("e1", "e0"), extra=extra)
    inputs = [(torch.uint8, x.shape), (torch.int8, w.shape), (I32, (21,)), (I32, ())]
    code = engine.compile(program(body, inputs, [(I32, (9, 21))]))
    for of_columns, of_rows in ((zero, 3), (3, zero)):
        zeros = np.arange(21, dtype=np.int32)
        zeros[20] = of_columns
        found = code.run([x, w, zeros, np.array(of_rows, np.int32)])[0]
        expected = (x.astype(np.int64) - of_rows) @ (w.astype(np.int64) - zeros)
        np.testing.assert_array_equal(found, expected.astype(np.int32))


def test_sums_wrap_as_int32_does():
    x, w = np.full((4, 80_000), 255, np.uint8), np.full((80_000, 3), 255, np.uint8)
    shapes = (x.shape, w.shape, (4, 3))
    body = contraction(MATRIX, (torch.uint8, torch.uint8), shapes)
    made = program(body, [(torch.uint8, x.shape), (torch.uint8, w.shape)], [(I32, (4, 3))])
    expected = np.full((4, 3), 80_000 * 255 * 255, np.int64).astype(np.int32)
    np.testing.assert_array_equal(engine.compile(made).run([x, w])[0], expected)


def test_weights_are_packed_where_their_zero_point_is_known():
    w = codes(torch.int8, 40, 70)
    body = contraction(MATRIX, (torch.uint8, torch.int8), ((N, 40), w.shape, (N, 70)), (9, 2), sizes=[(0, 0)])
    made = program(body, [(torch.uint8, (N, 40))], [(I32, (N, 70))], [(w, torch.int8, w.shape)])
    assert len(build(made.bytecode, Options(inputs=1))["packings"]) == 1
    assert build(made.bytecode, Options(inputs=2))["packings"] == []
    assert build(made.bytecode, Options(inputs=1, disabled=frozenset({"contractions"})))["packings"] == []
    code = engine.compile(made)
    for rows in (1, 2, 0, 31):
        x = codes(torch.uint8, rows, 40)
        np.testing.assert_array_equal(code.run([x])[0], (x.astype(np.int32) - 9) @ (w.astype(np.int32) - 2))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_what_follows_is_done_with_each_block_of_sums(constant, small):
    """Rescaled sums of several batches, row blocks and column blocks; the buffer between is not made."""
    x, w, scales = codes(torch.uint8, 2, 200, 70), codes(torch.int8, 70, 131) // (2 if small else 1), np.arange(131, dtype="f")
    maps = ("(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(k,n)", "(b,m,n,k)->(b,m,n)")
    shape, floats = (2, 200, 131), programs.tensor(torch.float32, (2, 200, 131))
    body = contraction(maps, (torch.uint8, torch.int8), (x.shape, w.shape, shape), (17, None))
    if constant:
        body = body.replace("%a1", "%aX")
    same, last = "affine_map<(b, m, n) -> (b, m, n)>", "affine_map<(b, m, n) -> (n)>"
    tail = f"""%ye = tensor.empty() : {floats}
      %y = linalg.generic {{indexing_maps = [{same}, {last}, {same}], iterator_types = ["parallel", "parallel", "parallel"]}}
          ins(%r, %a{1 if constant else 2} : {programs.tensor(I32, shape)}, tensor<131xf32>) outs(%ye : {floats}) {{
        ^bb0(%u: i32, %v: f32, %o: f32):
          %h = arith.sitofp %u : i32 to f32
          %g = arith.mulf %h, %v : f32
          linalg.yield %g : f32
        }} -> {floats}
      return %y : {floats}"""
    body = body.replace(f"return %r : {programs.tensor(I32, shape)}", tail).replace("%aX", "%a2")
    given = [(torch.uint8, x.shape), *([] if constant else [(torch.int8, w.shape)]), (torch.float32, scales.shape)]
    made = program(body, given, [(torch.float32, shape)], [(w, torch.int8, w.shape)] if constant else [])
    (found,) = engine.compile(made).run([x, scales] if constant else [x, w, scales])
    np.testing.assert_array_equal(found, ((x.astype(np.int32) - 17) @ w.astype(np.int32)).astype("f") * scales)


SMALL_STACK = """
import ctypes
import numpy as np
from tests.engine.test_integer_tiles import product_of_many_rows

class Stack(ctypes.Structure):
    _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

memory = ctypes.create_string_buffer(8192)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 8192)), None) == 0
found, expected = product_of_many_rows()
assert np.array_equal(found, expected)
"""


def product_of_many_rows():
    x, w = codes(torch.uint8, 64, 256), codes(torch.int8, 256, 64)
    body = contraction(MATRIX, (torch.uint8, torch.int8), (x.shape, w.shape, (64, 64)), (100, 0))
    made = program(body, [(torch.uint8, x.shape)], [(I32, (64, 64))], [(w, torch.int8, w.shape)])
    return engine.compile(made).run([x])[0], (x.astype(np.int32) - 100) @ w.astype(np.int32)


def test_a_process_that_may_not_use_the_matrix_unit():
    """Linux refuses its registers where a signal has too small a stack for them: the compiling process must know."""
    made = subprocess.run([sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2000:]
