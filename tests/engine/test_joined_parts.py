"""Chains of tensor.insert_slice long enough that each part is written by itself, and others, which stay as they are."""

import numpy as np
import pytest
import torch
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import joined_parts
from tests.engine import programs
from tests.engine.programs import M, N

f32 = torch.float32
X = "tensor<?x?xf32>"
LONG, SHORT = 40, 5


def joined(count, axis, *, base="%whole", step=1, result=None):
    """Parts of %a0 [N, M], times 1, 2, …, one behind the other along ``axis``, ``step`` places apart in the ``base``."""
    sizes = ("%all, %m", "%n, %all")[axis]
    lines = [
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        f"%n = tensor.dim %a0, %c0 : {X}",
        f"%m = tensor.dim %a0, %c1 : {X}",
        f"%count = arith.constant {count * step} : index",
        f"%all = arith.muli %{'nm'[axis]}, %count : index",
        "%zero = arith.constant 0.0 : f32",
        f"%whole = tensor.empty({sizes}) : {X}",
        f"%blank = linalg.fill ins(%zero : f32) outs(%whole : {X}) -> {X}",
    ]
    before = base
    for i in range(count):
        starts, steps = (f"%s{i}, 0", f"{step}, 1") if axis == 0 else (f"0, %s{i}", f"1, {step}")
        lines += [
            f"%f{i} = arith.constant {i + 1}.0 : f32",
            f"%e{i} = tensor.empty(%n, %m) : {X}",
            f"%g{i} = linalg.fill ins(%f{i} : f32) outs(%e{i} : {X}) -> {X}",
            f"%p{i} = linalg.mul ins(%a0, %g{i} : {X}, {X}) outs(%e{i} : {X}) -> {X}",
            f"%i{i} = arith.constant {i * step} : index",
            f"%s{i} = arith.muli %{'nm'[axis]}, %i{i} : index",
            f"%t{i} = tensor.insert_slice %p{i} into {before}[{starts}] [%n, %m] [{steps}] : {X} into {X}",
        ]
        before = f"%t{i}"
    return "\n".join([*lines, f"return {result or before} : {X}"])


def written_apart(body):
    """How many writes of their own parts become."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @main(%a0: {X}) -> {X} {{\n{body}\n}}")
        joined_parts.write_apart(module)
        assert module.operation.verify()
        return str(module).count("materialize_in_destination")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [SHORT, LONG])
@pytest.mark.parametrize("shape", [(3, 2), (1, 1), (0, 2), (7, 33)])
def test_joined(axis, count, shape):
    body = joined(count, axis)
    assert written_apart(body) == (count if count == LONG else 0)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    out = (N * count, M) if axis == 0 else (N, M * count)
    (result,) = programs.run(body, [(f32, (N, M))], [(f32, out)], [x])
    assert np.array_equal(result, np.concatenate([x * np.float32(i + 1) for i in range(count)], axis))


def test_parts_with_places_between():
    body = joined(LONG, 0, base="%blank", step=2)
    assert written_apart(body) == 0
    x = np.ones((1, 3), np.float32)
    (result,) = programs.run(body, [(f32, (N, M))], [(f32, (N * 2 * LONG, M))], [x])
    assert np.array_equal(result[::2], np.arange(1, LONG + 1)[:, None] * x)
    assert not result[1::2].any()


def test_what_is_read_on_the_way():
    body = joined(LONG, 0, base="%blank", result=f"%t{SHORT}")
    assert written_apart(body) == 0
    (result,) = programs.run(body, [(f32, (N, M))], [(f32, (N * LONG, M))], [np.ones((1, 3), np.float32)])
    assert np.array_equal(result[:, 0], [*range(1, SHORT + 2), *[0] * (LONG - SHORT - 1)])


@pytest.mark.parametrize("parts", [[3] * 33, [*range(1, 40)]])
def test_known_sizes(parts):
    types = [f"tensor<2x{size}x3xf32>" for size in parts]
    whole = f"tensor<2x{sum(parts)}x3xf32>"
    starts = [sum(parts[:i]) for i in range(len(parts))]
    lines = [f"%t0 = tensor.empty() : {whole}"]
    lines += [
        f"%t{i + 1} = tensor.insert_slice %a{i} into %t{i}[0, {start}, 0] [2, {size}, 3] [1, 1, 1] : {type_} into {whole}"
        for i, (size, type_, start) in enumerate(zip(parts, types, starts, strict=True))
    ]
    body = "\n".join([*lines, f"return %t{len(parts)} : {whole}"])
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((2, size, 3)).astype(np.float32) for size in parts]
    specs = [(f32, array.shape) for array in arrays]
    (result,) = programs.run(body, specs, [(f32, (2, sum(parts), 3))], arrays)
    assert np.array_equal(result, np.concatenate(arrays, 1))
