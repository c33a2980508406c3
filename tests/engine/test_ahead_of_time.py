"""Native code as files: the functions that C calls, through ctypes; the weights' file; the folder."""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import sympy
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.engine import objects, options
from onnx2torch_mlir.engine.ahead_of_time import interface, writing
from onnx2torch_mlir.engine.ahead_of_time.describing import c_name
from onnx2torch_mlir.engine.ahead_of_time.header import text as header_text
from onnx2torch_mlir.engine.ahead_of_time.interface import CValue, Interface
from onnx2torch_mlir.engine.ahead_of_time.writing import Source, write
from onnx2torch_mlir.lowering.lowered import Check
from tests.engine.c_model import CError, CModel, tensor
from tests.engine.programs import MLIR, NUMPY, M, N, lowered

f32, boolean = torch.float32, torch.bool
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

PRODUCT = """
  %zero = arith.constant 0 : index
  %nought = arith.constant 0.0 : f32
  %m = tensor.dim %a0, %zero : tensor<?x8xf32>
  %e = tensor.empty(%m) : tensor<?x20xf32>
  %f = linalg.fill ins(%nought : f32) outs(%e : tensor<?x20xf32>) -> tensor<?x20xf32>
  %p = linalg.matmul ins(%a0, %a1 : tensor<?x8xf32>, tensor<8x20xf32>) outs(%f : tensor<?x20xf32>) -> tensor<?x20xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%p, %a2 : tensor<?x20xf32>, tensor<20xf32>) outs(%e : tensor<?x20xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<?x20xf32>
  return %r, %a2, %r : tensor<?x20xf32>, tensor<20xf32>, tensor<?x20xf32>"""
RNG = np.random.default_rng(3)
W, BIAS = (torch.from_numpy(RNG.standard_normal(shape).astype("f")) for shape in ((8, 20), (20,)))


def product():
    """x W + b, b, and the first once more."""
    weights = [(W, f32, (8, 20)), (BIAS, f32, (20,)), (BIAS, f32, (20,))]
    return lowered(PRODUCT, [(f32, (N, 8))], [(f32, (N, 20)), (f32, (20,)), (f32, (N, 20))], weights)


def compiled(program, folder, outputs, **more):
    write(program, folder, name="m", source=Source("m.onnx"))
    return CModel(folder, "m", outputs, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("product") / "out"
    write(product(), path, name="m", source=Source("m.onnx", "0" * 64))
    return path


IS_PACKED = options.of_environment(0).enabled("contractions")
"""Whether the product's weight is: all tests hold with matchers left out too."""


def text_of(call):
    with pytest.raises(CError) as caught:
        call()
    return f"{caught.value.code}: {caught.value}"


@needs_compiler
def test_it_gives_what_the_engine_gives(folder):
    model, peer = CModel(folder, "m", 3), engine.compile(product())
    for size in (0, 1, 5, 64, 7):
        x = RNG.standard_normal((size, 8)).astype("f")
        for given, wanted in zip(model.run([x]), peer.run([x]), strict=True):
            np.testing.assert_array_equal(given, wanted)
    model.close()


@needs_compiler
def test_calls_of_several_threads_at_once(folder):
    model = CModel(folder, "m", 3)

    def call(size):
        x = np.full((size, 8), size, "f")
        for _ in range(20):
            np.testing.assert_allclose(model.run([x])[0], x @ W.numpy() + BIAS.numpy(), rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(call, range(40)))
    model.close()


def tasks(expected=None):
    """How many threads this process has, if need be after those that end have gone."""
    for _ in range(100):
        count = len(os.listdir("/proc/self/task"))  # noqa: PTH208
        if count == expected:
            break
        time.sleep(0.02 if expected is not None else 0.002)
    return count


@needs_compiler
def test_a_model_has_threads_while_it_is_open(folder):
    before, x = tasks(), RNG.standard_normal((3000, 8)).astype("f")
    alone = CModel(folder, "m", 3, threads=1)
    assert tasks(before) == before
    wanted = alone.run([x])
    alone.close()
    for threads, workers in ((4, 3), (2, 1), (0, len(os.sched_getaffinity(0)) - 1)):
        models = [CModel(folder, "m", 3, threads=threads) for _ in range(2)]
        assert tasks(before + 2 * workers) == before + 2 * workers
        with ThreadPoolExecutor(2) as pool:
            for found in pool.map(lambda model: [model.run([x]) for _ in range(10)], models):
                for outputs in found:
                    for given, same in zip(outputs, wanted, strict=True):
                        np.testing.assert_array_equal(given, same)
        for model in models:
            model.close()
        assert tasks(before) == before


@needs_compiler
@pytest.mark.parametrize("dtype", [d for d in MLIR if d is not boolean])
def test_elements_of_every_type_pass(tmp_path, dtype):
    type_ = f"tensor<?x{MLIR[dtype]}>"
    program = lowered(f"return %a0, %a0 : {type_}, {type_}", [(dtype, (N,))], [(dtype, (N,))] * 2)
    model = compiled(program, tmp_path / "out", 2)
    for size in (0, 3):
        x = np.arange(size).astype(NUMPY[dtype])
        for given in model.run([x]):
            np.testing.assert_array_equal(given, x)
    model.close()


CHECKED = """
  %zero = arith.constant 0 : index
  %n = tensor.dim %a1, %zero : tensor<?x2xf32>
  %three = arith.constant 3 : index
  %fits = arith.cmpi ule, %n, %three : index
  cf.assert %fits, "at most three rows"
  return %a1 : tensor<?x2xf32>"""


@needs_compiler
def test_inputs_that_do_not_fit_are_refused(tmp_path):
    inputs = [(f32, (N, 2 * N)), (f32, (N, 2)), (boolean, (M,)), (torch.int64, ())]
    checks = [Check(sympy.Ne(M, 4), "batch time must not be 4")]
    model = compiled(lowered(CHECKED, inputs, [(f32, (N, 2))], checks=checks), tmp_path / "out", 1)

    def given(n=3, twice=6, two=2, flags=(True,), **replaced):
        arrays = [np.ones((n, twice), "f"), np.ones((n, two), "f"), np.array(flags, bool), np.array(1)]
        tensors = [tensor(array) for array in arrays]
        for name, value in replaced.items():
            setattr(tensors[1], name, value)
        return model.run_tensors(tensors)

    np.testing.assert_array_equal(given()[0], np.ones((3, 2)))
    np.testing.assert_array_equal(given(n=0, twice=0)[0], np.ones((0, 2)))
    start = f"{interface.BAD_ARGUMENT}: "
    assert text_of(lambda: given(two=5)) == start + "dim 1 of input a1 is 5, the model takes 2 ([batch, 2])"
    assert text_of(lambda: given(dtype=7)).startswith(start + "input a1 has the element type 7, the model takes 1 (")
    assert text_of(lambda: given(rank=1)) == start + "input a1 has the rank 1, the model takes the rank 2 ([batch, 2])"
    assert text_of(lambda: given(data=None)) == start + "input a1 has no data"
    assert text_of(lambda: given(data=4098)) == start + "the data of input a1 begin at an address that is no multiple of 4"
    assert text_of(lambda: given(shape=(-1, 2))) == start + "dim 0 of input a1 is -1"
    wanted = start + "dim 0 of input a1 ([batch, 2]) is 2, but dim 0 of input a0 has made it 3"
    assert text_of(lambda: given(shape=(2, 2))) == wanted
    flags = np.array([0, 1, 2], np.uint8)
    arrays = [np.ones((3, 6), "f"), np.ones((3, 2), "f"), flags.view(bool), np.array(1)]
    assert text_of(lambda: model.run(arrays)) == start + "byte 2 of input a2 is neither 0 nor 1"
    many = np.ones(1001, np.uint8)
    for place in (0, 255, 256, 767, 768, 999):
        many[1 + place] = 255
        odd = [*arrays[:2], many[1:].view(bool), arrays[3]]
        assert text_of(lambda odd=odd: model.run(odd)) == start + f"byte {place} of input a2 is neither 0 nor 1"
        many[1 + place] = 0
    np.testing.assert_array_equal(model.run([*arrays[:2], many[1:].view(bool), arrays[3]])[0], np.ones((3, 2)))
    start = f"{interface.REQUIREMENT}: "
    assert text_of(lambda: given(twice=5)) == start + "dim 1 of input a0 has to be 2*batch"
    assert text_of(lambda: given(flags=[True] * 4)) == start + "batch time must not be 4"
    assert text_of(lambda: given(n=4, twice=8)) == start + "at most three rows"
    np.testing.assert_array_equal(given(n=2, twice=4)[0], np.ones((2, 2)))
    model.close()


@needs_compiler
def test_opening_what_does_not_belong_together(folder, tmp_path):
    start = f"{interface.BAD_FILE}: "
    weights = (folder / "m.weights").read_bytes()
    header = 64 + 8 * 4 + 32 + 20 * 4
    packed, plain = header + 48 + 2 * 8 * 16 * 4, header + 8 * 20 * 4
    assert len(weights) == (packed if IS_PACKED else plain)  # where the product's weight is packed, it is so only

    def opened(data):
        path = tmp_path / "w"
        path.write_bytes(data)
        return text_of(lambda: CModel(folder, "m", 3, path)).removeprefix(f"{start}{path} ")

    assert (
        text_of(lambda: CModel(folder, "m", 3, tmp_path / "none"))
        == f"{start}{tmp_path}/none cannot be opened: No such file or directory"
    )
    assert opened(b"") == opened(weights[:70]) == "is no weights' file of m, or cut short"
    other = "does not belong to this code of m; both have to come from one run of the compiler"
    assert opened(weights[:9] + b"x" + weights[10:]) == opened(b"x" + weights[1:]) == other
    assert opened(weights[:-1]) == f"is damaged: it has {len(weights) - 1} bytes instead of {len(weights)}"
    assert (
        text_of(lambda: CModel(folder, "m", 3, threads=-1))
        == f"{interface.BAD_ARGUMENT}: threads is -1, it has to be at least 0"
    )


@needs_compiler
def test_a_processor_without_the_features_is_refused(tmp_path, monkeypatch):
    if not objects.host().startswith("x86_64") or "+avx512fp16" in objects.host():
        pytest.skip("another processor")
    monkeypatch.setattr(writing.processor, "checked", lambda features: ("avx512fp16", "sse3"))
    wanted = f"{interface.BAD_PROCESSOR}: m was compiled for a processor with avx512fp16, sse3; this one lacks some of it"
    assert text_of(lambda: compiled(product(), tmp_path / "out", 3)) == wanted


def test_the_manifest_says_what_was_made(folder):
    manifest = json.loads((folder / "m.json").read_text())
    assert manifest["model"] == {"file": "m.onnx", "sha256": "0" * 64}
    assert manifest["inputs"] == [{"name": "a0", "dtype": "float32", "onnx_type": 1, "shape": ["batch", 8]}]
    assert [part["name"] for part in manifest["weights"]] == (["w1", "w0"] if IS_PACKED else ["w0", "w1"])
    assert {part["offset"] % 64 for part in manifest["weights"]} == {0}
    assert set(manifest["files"]) >= {"m.o", "m.h", "m.weights"}
    assert manifest["files"]["m.o"]["bytes"] == (folder / "m.o").stat().st_size
    assert {"malloc", "mmap", "snprintf"} <= set(manifest["needs"])


def test_tied_weights_are_written_once(tmp_path):
    type_ = "tensor<1000xf32>"
    body = f"""
  %e = tensor.empty() : {type_}
  %r = linalg.add ins(%a0, %a1 : {type_}, {type_}) outs(%e : {type_}) -> {type_}
  %q = linalg.mul ins(%r, %a2 : {type_}, {type_}) outs(%e : {type_}) -> {type_}
  return %q : {type_}"""
    tied = torch.ones(1000)
    weights = [(tied, f32, (1000,))] * 2
    write(lowered(body, [(f32, (1000,))], [(f32, (1000,))], weights), tmp_path / "out", name="m", source=Source("m"))
    parts = json.loads((tmp_path / "out" / "m.json").read_text())["weights"]
    assert len(parts) == 2 and parts[0]["offset"] == parts[1]["offset"]
    assert (tmp_path / "out" / "m.weights").stat().st_size == 128 + 4000


def small():
    return lowered("return %a0 : tensor<2xf32>", [(f32, (2,))], [(f32, (2,))])


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_only_files_of_its_own_are_replaced(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("kept")
    (out / "m.h").write_text("mine")
    with pytest.raises(Refusal, match=r"m\.h is there already"):
        write(small(), out, name="m", source=Source("m"))
    assert contents(out) == {"notes.txt": b"kept", "m.h": b"mine"}
    write(small(), out, name="m", source=Source("m"), force=True)
    write(product(), out, name="m", source=Source("m"), library=False)
    assert sorted(contents(out)) == ["m.h", "m.json", "m.o", "m.weights", "notes.txt"]
    before = contents(out)
    (out / "m.weights").write_bytes(b"changed")
    with pytest.raises(Refusal, match=r"m\.weights is there already"):
        write(small(), out, name="m", source=Source("m"))
    assert contents(out) == {**before, "m.weights": b"changed"}
    (out / "x.o").mkdir()
    with pytest.raises(Refusal, match=r"x\.o is a folder"):
        write(small(), out, name="x", source=Source("m"), force=True)


def test_whatever_fails_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write(small(), out, name="m", source=Source("m"))
    before = contents(out)
    moved = []

    def replacing(source, target):
        moved.append(target)
        if len(moved) == 5:
            raise OSError(28, "no space left on device")
        return source.rename(target)

    monkeypatch.setattr("onnx2torch_mlir.engine.ahead_of_time.folder.Path.replace", replacing)
    with pytest.raises(Refusal, match="no space left"):
        write(product(), out, name="m", source=Source("m"))
    assert contents(out) == before
    broken = replace(product(), bytecode=b"no module")
    with pytest.raises(Refusal, match="O2M-M001"):
        write(broken, tmp_path / "new", name="m", source=Source("m"))
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["out"]
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="is no folder"):
        write(small(), tmp_path / "file", name="m", source=Source("m"))


def test_names_for_c():
    assert [c_name(text) for text in ("resnet-50.v2", "8bit", "_x", "größe", "o2m", "sem", "semi", "")] == [
        "resnet_50_v2",
        "model_8bit",
        "model__x",
        "gr__e",
        "model_o2m",
        "model_sem",
        "semi",
        "model_",
    ]
    program = small()
    for prefix in ("a-b", "o2mx", "", "9"):
        with pytest.raises(Refusal, match="O2M-U001"):
            write(program, "/nonexistent", name=prefix, source=Source("m"))
    spec = TensorSpec("x", f32, (1,) * 17)
    with pytest.raises(Refusal, match="17 dims"):
        write(replace(program, inputs=(spec,)), "/nonexistent", name="m", source=Source("m"))


def test_names_of_values_cannot_end_a_comment(tmp_path):
    values = tuple(CValue(name, "float32", (f"{name} n", 2), (-1, 2)) for name in ("a*/b", "a/*b", "A__B", "é\n"))
    told = header_text(Interface("m", values, values, (), ()), model="*/ x", version="1", target="t")
    (tmp_path / "m.h").write_text(told)
    assert told.count("/*") == told.count("*/")
    assert all(f"#define M_INPUT_{name} " in told for name in ("A__B", "A__B_1", "A__B_2"))
