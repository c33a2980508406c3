"""The engine around the code: inputs, weights, checks, failures, threads, cache."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import sympy
import torch

from onnx2torch_mlir import engine, isolation
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.isolation import worker
from onnx2torch_mlir.lowering.lowered import Check
from tests.engine import programs
from tests.engine.programs import M, N

f32 = torch.float32
DOUBLE = programs.pointwise("%r = arith.addf %x0, %x0 : f32", [f32], f32)
SUM = programs.pointwise("%r = arith.addf %x0, %x1 : f32", [f32, f32], f32)


def finding(call):
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value.findings[0]


def test_inputs_by_name_and_in_order():
    compiled = engine.compile(programs.lowered(SUM, [(f32, (N,)), (f32, (N,))], [(f32, (N,))]))
    x, y = np.arange(4, dtype="f"), np.ones(4, "f")
    for given in ([x, y], (x, y), {"a1": y, "a0": x}):
        assert np.array_equal(compiled.run(given)[0], x + y) and np.array_equal(compiled(given)[0], x + y)
    assert [(i.name, i.dtype, i.shape) for i in compiled.inputs] == [("a0", "f4", ("batch",)), ("a1", "f4", ("batch",))]
    assert compiled.outputs[0].shape == ("batch",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([np.ones(2, "f")], ["1 arrays", "2 inputs"]),
        ({"a0": np.ones(2, "f")}, ["missing: a1"]),
        ({"a0": np.ones(2, "f"), "a1": np.ones(2, "f"), "b": 1}, ["unknown: b"]),
        ([np.ones(2, "f"), np.ones(2, "d")], ["a1", "float64", "float32"]),
        ([np.ones(2, "f"), np.ones(2, ">f4")], ["a1", ">f4", "float32"]),
        ([np.ones(2, "f"), np.ones((2, 2), "f")], ["a1", "rank 2", "rank 1", "[2, 2]"]),
        ([np.ones(2, "f"), np.ones(3, "f")], ["dim 0 of input a1", "'batch'", "is 3", "dim 0 of input a0", "2"]),
        (np.ones((2, 2), "f"), ["dict or a sequence", "ndarray"]),
    ],
)
def test_bad_inputs(given, words):
    compiled = engine.compile(programs.lowered(SUM, [(f32, (N,)), (f32, (N,))], [(f32, (N,))]))
    told = finding(lambda: compiled.run(given))
    assert told.code == "O2M-U003" and all(word in told.reason for word in words), told.reason


def test_sizes_that_are_numbers_or_expressions():
    body = "return %a0 : tensor<?x3xf32>"
    program = programs.lowered(body, [(f32, (N, 3)), (f32, (2 * N + 1,))], [(f32, (N, 3))])
    compiled = engine.compile(program)
    assert compiled.run([np.ones((4, 3), "f"), np.ones(9, "f")])[0].shape == (4, 3)
    told = finding(lambda: compiled.run([np.ones((4, 3), "f"), np.ones(8, "f")]))
    assert told.code == "O2M-U003" and "'2*batch + 1'" in told.reason and "is 8" in told.reason and "9" in told.reason
    told = finding(lambda: compiled.run([np.ones((4, 2), "f"), np.ones(9, "f")]))
    assert "dim 1 of input a0 is 2, the model takes 3" in told.reason


def test_checks():
    checks = [Check(sympy.Le(N, 4), "'batch' must be at most 4"), Check(sympy.Gt(sympy.Symbol("u0"), 3), "unknown yet")]
    compiled = engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))], checks=checks))
    assert compiled.run([np.ones(4, "f")])[0].tolist() == [2] * 4
    told = finding(lambda: compiled.run([np.ones(5, "f")]))
    assert told.code == "O2M-X001" and "'batch' must be at most 4" in told.reason and "batch = 5" in told.reason


def test_strided_misaligned_and_readonly_inputs():
    compiled = engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))]))
    x = np.arange(10, dtype="f")
    misaligned = np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view("f")
    frozen = x.copy()
    frozen.flags.writeable = False
    for given in (x[::2], x[::-1], misaligned, frozen, np.broadcast_to(np.float32(3), (5,))):
        before = given.copy()
        assert np.array_equal(compiled.run([given])[0], 2 * before) and np.array_equal(given, before)


WEIGHTED = """
  %e = tensor.empty() : tensor<3xf32>
  %r = linalg.add ins(%a0, %a1 : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  return %r, %a1 : tensor<3xf32>, tensor<3xf32>"""


@pytest.mark.parametrize("kind", ["torch", "numpy", "function", "misaligned", "strided"])
def test_weights_of_every_kind(kind):
    w = np.array([1, 2, 3], "f")
    raw = bytearray(b"x" + w.tobytes())
    weight = {
        "torch": torch.from_numpy(w),
        "numpy": w,
        "function": lambda: torch.from_numpy(w),
        "misaligned": np.frombuffer(raw, np.uint8)[1:].view("f"),
        "strided": torch.from_numpy(np.repeat(w, 2))[::2],
    }[kind]
    outputs = [(f32, (3,))] * 2
    compiled = engine.compile(programs.lowered(WEIGHTED, [(f32, (3,))], outputs, weights=[(weight, f32, (3,))]))
    total, same = compiled.run([np.ones(3, "f")])
    assert total.tolist() == [2, 3, 4] and same.tolist() == [1, 2, 3]
    same[:] = 0
    assert compiled.run([np.ones(3, "f")])[0].tolist() == [2, 3, 4]


def test_weights_are_not_copied():
    w = torch.ones(3)
    outputs = [(f32, (3,))] * 2
    compiled = engine.compile(programs.lowered(WEIGHTED, [(f32, (3,))], outputs, weights=[(w, f32, (3,))]))
    assert compiled.run([np.zeros(3, "f")])[0].tolist() == [1, 1, 1]
    w.fill_(5)
    assert compiled.run([np.zeros(3, "f")])[0].tolist() == [5, 5, 5]


def test_weight_that_is_not_as_declared():
    program = programs.lowered(WEIGHTED, [(f32, (3,))], [(f32, (3,))] * 2, weights=[(torch.ones(4), f32, (3,))])
    told = finding(lambda: engine.compile(program).run([np.ones(3, "f")]))
    assert told.code == "O2M-X002" and "w0" in told.reason


ASSERTING = programs.pointwise(
    """%zero32 = arith.constant 0.0 : f32
    %ok = arith.cmpf oge, %x0, %zero32 : f32
    cf.assert %ok, "a value is negative"
    %r = arith.addf %x0, %x0 : f32""",
    [f32],
    f32,
)


def test_failed_assertion_is_a_finding_and_leaves_the_engine_usable():
    compiled = engine.compile(programs.lowered(ASSERTING, [(f32, (N,))], [(f32, (N,))]))
    bad = np.ones(100_000, "f")
    bad[77] = -1
    for _ in range(50):
        told = finding(lambda: compiled.run([bad]))
        assert told.code == "O2M-X001" and told.reason == "a value is negative"
        assert np.array_equal(compiled.run([np.abs(bad)])[0], 2 * np.abs(bad))


def test_too_little_memory_is_a_finding():
    body = """
  %i = tensor.extract %a0[] : tensor<i64>
  %n = arith.index_cast %i : i64 to index
  %v = arith.constant 1.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%v : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %f : tensor<?xf32>"""
    compiled = engine.compile(programs.lowered(body, [(torch.int64, ())], [(f32, (sympy.Symbol("u0"),))]))
    for size in (1 << 60, -5, 1 << 44):
        assert finding(lambda size=size: compiled.run([np.array(size)])).code == "O2M-X002"
    assert compiled.run([np.array(3)])[0].tolist() == [1, 1, 1]


def test_threads_share_an_engine():
    compiled = engine.compile(programs.lowered(ASSERTING, [(f32, (N,))], [(f32, (N,))]))
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            x = rng.random(rng.integers(0, 5000)).astype("f")
            if not np.array_equal(compiled.run([x])[0], x + x):
                failures.append(seed)
            try:
                compiled.run([-x - 1])
                failures.append((seed, x.size)) if x.size else None
            except Refusal:
                pass

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_results_outlive_the_engine_and_free_their_memory():
    compiled = engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))]))
    x = np.arange(100_000, dtype="f")
    result = compiled.run([x])[0]
    view = result[10:20]
    reference = weakref.ref(compiled)
    del compiled, result
    gc.collect()
    assert reference() is None and np.array_equal(view, 2 * x[10:20])


def test_memory_does_not_grow():
    import resource

    compiled = engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))]))
    x = np.ones(1 << 20, "f")
    compiled.run([x])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for size in [1 << 20, 1 << 19, 3 << 18] * 30:
        compiled.run([x[:size]])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB; the results alone are 300 MB


def test_second_compile_uses_the_cache(own_cache, monkeypatch):
    program = programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))])
    engine.compile(program)
    (entry,) = own_cache.glob("*.o2m")

    def no_compiler(*args, **kwargs):
        raise AssertionError("the compiler was called")

    with monkeypatch.context() as patch:
        patch.setattr(isolation, "call", no_compiler)
        assert engine.compile(program).run([np.ones(2, "f")])[0].tolist() == [2, 2]
    for damage in (b"", b"garbage", entry.read_bytes()[:-5], entry.read_bytes()[:-1] + b"?"):
        entry.write_bytes(damage)
        assert engine.compile(program).run([np.ones(2, "f")])[0].tolist() == [2, 2]
        assert entry.read_bytes() != damage
    monkeypatch.setenv("ONNX2MLIR_CACHE", "off")
    entry.unlink()
    engine.compile(program)
    assert not list(own_cache.iterdir())


@pytest.mark.parametrize("length", [3, 1 << 19])
def test_the_compilers_process_makes_room_for_many_weights(length, own_cache):
    body = WEIGHTED.replace("3x", f"{length}x")
    weight = torch.arange(length, dtype=f32)
    inputs, outputs = [(f32, (length,))], [(f32, (length,))] * 2
    compiled = engine.compile(programs.lowered(body, inputs, outputs, weights=[(weight, f32, (length,))]))
    assert worker._shared.pid is not None
    compiled.run([np.ones(length, "f")])
    assert (worker._shared.pid is None) == (length > 3)
    compiled.run([np.ones(length, "f")])


def test_opt_levels_are_kept_apart(own_cache, monkeypatch):
    program = programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))])
    for level in ("3", "0"):
        monkeypatch.setenv("ONNX2MLIR_OPT_LEVEL", level)
        assert engine.compile(program).run([np.ones(20, "f")])[0].tolist() == [2] * 20
    assert len(list(own_cache.iterdir())) == 2
    monkeypatch.setenv("ONNX2MLIR_OPT_LEVEL", "fast")
    assert finding(lambda: engine.compile(program)).code == "O2M-U001"


def test_running_from_the_cache_imports_no_mlir(own_cache):
    engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))]))
    script = """
import sys; sys.path.insert(0, ".")
from tests.engine import programs
from tests.engine.test_engine import DOUBLE
import numpy as np
print(programs.run(DOUBLE, [(programs.torch.float32, (programs.N,))], [(programs.torch.float32, (programs.N,))],
                   [np.ones(2, "f")])[0].tolist(), "torch_mlir" in sys.modules)
from onnx2torch_mlir.isolation import worker
print(worker._shared.pid)
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert output.stdout.split("\n")[:2] == ["[2.0, 2.0] False", "None"]


def test_what_does_not_compile_is_a_finding(tmp_path):
    body = "return %a0 : tensor<?xf64>"
    told = finding(lambda: engine.compile(programs.lowered(body, [(f32, (N,))], [(f32, (N,))])))
    assert told.code == "O2M-M001" and "reading the module" in told.reason
    program = programs.lowered(SUM.replace("linalg.generic", "no.such"), [(f32, (N,)), (f32, (N,))], [(f32, (N,))])
    path = tmp_path / "broken" / "program.mlir"
    with pytest.raises(Refusal) as caught:
        engine.compile(program, reproducer=path)
    told = caught.value.findings[0]
    assert told.code == "O2M-M001" and path.read_bytes() == program.bytecode and str(path) in told.hint


def test_failing_pass_names_the_node():
    # No rule bufferizes an op without results' buffers that is not known to the analysis.
    body = """
  %c0 = arith.constant 0 : index
  %r = tensor.scatter %a0 into %a1[%a2] scatter_dims([0]) unique
      : (tensor<?x1xf32>, tensor<?xf32>, tensor<?x1xindex>) -> tensor<?xf32> loc("Scatter_5")
  return %r : tensor<?xf32>"""
    program = programs.lowered(body, [(f32, (N, 1)), (f32, (M,)), (torch.int64, (N, 1))], [(f32, (M,))])
    text = program.bytecode.decode().replace("tensor<?x1xi64>", "tensor<?x1xindex>").encode()
    program = type(program)(text, program.inputs, (), program.outputs)
    told = finding(lambda: engine.compile(program))
    assert told.code == "O2M-M001" and told.case == "node Scatter_5" and "bufferization" in told.reason


def test_crashing_compiler_is_a_finding(monkeypatch):
    def crash(*args, **kwargs):
        raise isolation.WorkerCrashed("task", -6, "o2m-stage bufferization\nopt: a.cpp:1: Assertion `x' failed.\nmore")

    monkeypatch.setattr(isolation, "call", crash)
    told = finding(lambda: engine.compile(programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))])))
    assert told.code == "O2M-M002"
    assert all(word in told.reason for word in ("SIGABRT", "during bufferization", "Assertion `x' failed"))


def test_missing_routine_is_a_finding(monkeypatch):
    body = programs.pointwise("%r = func.call @no_such_routine(%x0) : (f32) -> f32", [f32], f32)
    program = programs.lowered(body, [(f32, (N,))], [(f32, (N,))])
    text = program.bytecode + b"\nfunc.func private @no_such_routine(f32) -> f32\n"
    program = type(program)(text, program.inputs, (), program.outputs)
    told = finding(lambda: engine.compile(program))
    assert told.code == "O2M-M001" and "no_such_routine" in told.reason


def test_threads_argument():
    program = programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))])
    assert finding(lambda: engine.compile(program, threads=0)).code == "O2M-U001"
    assert engine.compile(program, threads=2).run([np.ones(1, "f")])[0].tolist() == [2]


def test_package_import_is_light():
    script = "import sys, onnx2torch_mlir.engine; print(sorted({'torch', 'torch_mlir', 'llvmlite'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert output.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "use",
    ["import onnx2torch_mlir as o2m; o2m.compile('m.onnx')"]
    + [
        f"from onnx2torch_mlir.cli.main import main; main({command})"
        for command in (["run", "m.onnx"], ["verify", "m.onnx"], ["compile", "m.onnx", "-o", "native"])
    ],
)
def test_the_compiler_begins_before_torch_is_loaded(use):
    """It has that time besides; whether there is a model is not known then."""
    script = f"""
import sys
from onnx2torch_mlir import isolation
from onnx2torch_mlir.engine import pool

def start(task):
    print(task, sorted({{'torch', 'torch_mlir'}} & set(sys.modules)))
    sys.exit()

pool.processors, isolation.start = (lambda: 2), start
{use}
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert output.stdout.strip() == "onnx2torch_mlir.engine.compiler.task:build []"


def test_the_compiler_ends_with_the_first_program_that_runs_and_stays_for_more():
    """Idle, it takes the memory of a small model a hundred times."""
    script = """
import numpy as np
from onnx2torch_mlir import engine, isolation
from onnx2torch_mlir.isolation import worker
from tests.engine import programs
from tests.engine.test_engine import DOUBLE, N, f32

for _ in range(3):
    program = programs.lowered(DOUBLE, [(f32, (N,))], [(f32, (N,))])
    code = engine.compile(program)
    compiled = worker._shared.pid
    assert code.run([np.ones(1, "f")])[0].tolist() == [2]
    print(compiled is not None, worker._shared.pid == compiled)
"""
    environment = {**os.environ, "ONNX2MLIR_CACHE": "off"}
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert output.stdout.split("\n")[:3] == ["True False", "True True", "True True"]


@pytest.mark.parametrize("is_read", [True, False])
def test_weights_that_lie_anywhere(is_read):
    """Those that are only packed are neither copied to be aligned nor kept."""
    numbers = np.random.default_rng(0).standard_normal((40, 48)).astype("f")
    memory = bytearray(b"\0" + numbers.tobytes())
    weight = torch.frombuffer(memory, dtype=f32, offset=1).reshape(40, 48)
    assert weight.data_ptr() % 4
    body = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x48xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x48xf32>) -> tensor<8x48xf32>
  %r = linalg.matmul ins(%a0, %a1 : tensor<8x40xf32>, tensor<40x48xf32>) outs(%f : tensor<8x48xf32>) -> tensor<8x48xf32>
"""
    outputs = [(f32, (8, 48)), (f32, (40, 48))][: 1 + is_read]
    body += f"  return {'%r, %a1' if is_read else '%r'} : {', '.join(programs.tensor(*output) for output in outputs)}"
    made = programs.lowered(body, [(f32, (8, 40))], outputs, weights=[(weight, f32, (40, 48))])
    code = engine.compile(made)
    x = np.random.default_rng(1).standard_normal((8, 40)).astype("f")
    found, *more = code.run([x])
    np.testing.assert_allclose(found, x @ numbers, rtol=1e-4, atol=1e-5)
    assert all(np.array_equal(one, numbers) for one in more)
    if code._packed:
        assert bool(code._weights[0].strides[0]) == is_read
