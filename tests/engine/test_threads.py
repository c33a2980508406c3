"""Loops shared among threads: the same numbers as one thread's, whatever else the process does."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.engine import layout, pool
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

pytest.importorskip("torch_mlir")

RNG = np.random.default_rng(0)


def program(text, inputs, outputs="float y"):
    header = f'<ir_version: 9, opset_import: ["": 21]> g ({inputs}) => ({outputs})'
    model = parser.parse_model(f"{header} {{ {text} }}")
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return convert(read(model))


def floats(*shape):
    return RNG.standard_normal(shape).astype("f")


CASES = {
    "matmul": ("y = MatMul(a, b)", "float[m, k] a, float[k, n] b", [(200, 70), (70, 300)], [(7, 1), (1, 65)]),
    "batches": ("y = MatMul(a, b)", "float[c, d, m, k] a, float[c, d, k, n] b", [(3, 4, 40, 8), (3, 4, 8, 50)]),
    "with a tail": (
        "t = MatMul(a, b)\n u = Add(t, c)\n y = Relu(u)",
        "float[m, k] a, float[k, n] b, float[n] c",
        [(200, 70), (70, 130), (130,)],
    ),
    "weight": (
        "t = Constant<value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>()\n s = Constant<value_ints = [2, 3]>()\n"
        " w = Reshape(t, s)\n y = MatMul(a, w)",
        "float[m, 2] a",
        [(500, 2)],
    ),
    "convolution": (
        "y = Conv<pads = [1, 1, 1, 1]>(a, b)",
        "float[n, 8, h, w] a, float[24, 8, 3, 3] b",
        [(2, 8, 19, 23), (24, 8, 3, 3)],
    ),
    "depthwise": (
        f"f = Constant<value_floats = {[round(float(v), 3) for v in RNG.standard_normal(72)]}>()\n"
        " s = Constant<value_ints = [8, 1, 3, 3]>()\n w = Reshape(f, s)\n"
        " y = Conv<pads = [1, 1, 1, 1], group = 8>(a, w)",
        "float[n, 8, h, w] a",
        [(2, 8, 19, 23)],
        [(1, 8, 3, 1)],
    ),
    "pool": ("y = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(a)", "float[n, c, h, w] a", [(3, 5, 31, 33)]),
    "pointwise": ("t = Exp(a)\n y = Add(t, b)", "float[m, n] a, float[n] b", [(90, 70), (70,)], [(0, 3), (3,)], [(1, 1), (1,)]),
    "transpose": ("y = Transpose<perm = [2, 0, 1]>(a)", "float[k, m, n] a", [(13, 41, 19)]),
    "softmax": ("y = Softmax(a)", "float[k, m, n] a", [(5, 41, 19)], [(3, 0, 2)], [(2, 3, 5000)]),
    "norm": ("y = LayerNormalization(a, b)", "float[k, m, n] a, float[n] b", [(5, 41, 6000), (6000,)], [(5, 41, 16), (16,)]),
    "reduction": ("s = Constant<value_ints = [0, 2]>()\n y = ReduceSum(a, s)", "float[k, m, n] a", [(13, 41, 19)]),
    "gather": ("y = Gather(a, b)", "float[k, m, n] a, int64[i] b", [(13, 41, 19), 9]),
    "bytes": (
        "y = MatMulInteger(a, b)",
        "uint8[m, k] a, uint8[k, n] b",
        ["u8", (100, 30), (30, 60)],
        ["u8", (1, 30), (30, 200)],
    ),
    "bytes with a tail": (
        f"w = Constant<value = int8[30, 200] {{ {', '.join(map(str, RNG.integers(-64, 64, 6000)))} }}>()\n"
        " p = MatMulInteger(a, w)\n f = Cast<to = 1>(p)\n s = Constant<value_float = 0.25>()\n y = Mul(f, s)",
        "uint8[m, 30] a",
        ["u8", (100, 30)],
        ["u8", (1, 30)],
    ),
}


def arrays_of(case):
    if case[0] == "u8":
        return [RNG.integers(0, 255, shape, np.uint8) for shape in case[1:]]
    return [floats(*shape) if isinstance(shape, tuple) else RNG.integers(0, 12, shape) for shape in case]


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name):
    text, inputs, *cases = CASES[name]
    made = program(text, inputs, "int32 y" if name == "bytes" else "float y")
    alone = made.compile(threads=1)
    for threads in (2, 5):
        together = made.compile(threads=threads)
        together.worth = 1
        for case in cases:
            arrays = arrays_of(case)
            for _ in range(3):
                np.testing.assert_array_equal(together.run(arrays)[0], alone.run(arrays)[0], strict=True)


def jobs():
    return ctypes.c_int64.from_address(pool._pool.address + 8 * layout.STATE).value // layout.JOB


def test_only_work_that_is_worth_it_is_shared():
    together = program("y = Exp(a)", "float[n] a").compile(threads=2)
    together.run([floats(8)])
    before = jobs()
    together.run([floats(100)])
    assert jobs() == before
    together.run([floats(1_000_000)])
    assert jobs() == before + 1


@pytest.mark.parametrize("rows", [64, 63, 41, 24])
def test_a_single_block_is_shared_in_pieces(rows):
    """Its rows are, as those of the last block of many are."""
    weight = ", ".join(str(round(float(value), 3)) for value in RNG.standard_normal(40 * 32))
    constants = f"f = Constant<value_floats = [{weight}]>()\n s = Constant<value_ints = [40, 32]>()"
    made = program(f"{constants}\n w = Reshape(f, s)\n y = MatMul(a, w)", f"float[{rows}, 40] a")
    alone, together = made.compile(threads=1), made.compile(threads=2)
    together.worth = 1
    for _ in range(20):
        x, before = floats(rows, 40), jobs() if pool._pool is not None else 0
        np.testing.assert_array_equal(together.run([x])[0], alone.run([x])[0])
        assert jobs() == before + 1


def test_the_number_of_jobs_begins_anew():
    """After 2 ** 35 of them; shares' words are of jobs with larger numbers then."""
    together = program("y = Exp(a)", "float[n] a").compile(threads=3)
    x = floats(400_000)
    expected = together.run([x])[0]
    time.sleep(0.1)  # Workers that come too late for the job have left.
    ctypes.c_uint64.from_address(pool._pool.address + 8 * layout.STATE).value = 2**64 - 3 * layout.JOB
    for _ in range(6):
        np.testing.assert_array_equal(together.run([x])[0], expected)
    assert 0 <= jobs() <= 4


def test_more_threads_than_before_and_fewer():
    made = program("y = Exp(a)", "float[n] a")
    x = floats(400_000)
    for threads in (2, 6, 1, 3):
        np.testing.assert_allclose(made.compile(threads=threads).run([x])[0], np.exp(x), rtol=1e-5)


def test_engines_and_callers_at_once():
    texts = ("y = Exp(a)", "y = Softmax(a)", "y = MatMul(a, a)")
    engines = [program(text, "float[n, n] a").compile(threads=3) for text in texts]
    x = floats(150, 150)
    expected = [engine.run([x])[0] for engine in engines]
    for engine in engines:
        engine.worth = 1
    wrong = []

    def work(number):
        for turn in range(40):
            which = (number + turn) % len(engines)
            if not np.array_equal(engines[which].run([x])[0], expected[which]):
                wrong.append((number, turn))

    callers = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_works_on():
    together = program("y = Exp(a)", "float[n] a").compile(threads=3)
    x = floats(400_000)
    expected = together.run([x])[0]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = np.array_equal(together.run([x])[0], expected)
            again = program("y = Exp(a)", "float[n] a").compile(threads=3)
            code = 0 if same and np.array_equal(again.run([x])[0], expected) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_process_ends_with_workers_waiting():
    script = """
import numpy as np
from onnx import parser
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
text = '<ir_version: 9, opset_import: ["": 21]> g (float[n] a) => (float[n] y) { y = Exp(a) }'
engine = convert(read(parser.parse_model(text))).compile(threads=4)
for _ in range(50):
    engine.run([np.zeros(300000, np.float32)])
print("done")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_default_and_variable(monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_THREADS", "3")
    assert pool.threads_of(None) == 3 and pool.threads_of(2) == 2
    monkeypatch.delenv("ONNX2MLIR_THREADS")
    assert pool.threads_of(None) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_bad_variable(monkeypatch, value):
    from onnx2torch_mlir.diagnostics import Refusal

    monkeypatch.setenv("ONNX2MLIR_THREADS", value)
    with pytest.raises(Refusal) as caught:
        pool.threads_of(None)
    assert caught.value.findings[0].code == "O2M-U001"
