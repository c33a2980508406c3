"""Weights stay in their files until they are asked for, and then are what was stored."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto as T
from onnx import numpy_helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import MappedTensor, array, extract, is_aligned, read
from onnx2torch_mlir.model.external_data import map_file
from tests.model.builders import const, external, graph, info, model, node, tensor

MEGABYTES = 64


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 MB of weights in one file: initializers, a Constant node, and one in a branch."""
    side = 1 << 20
    blocks = [np.full(side, float(index), np.float32) for index in range(MEGABYTES // 4)]
    branch = graph([node("Add", "x b", "t")], outputs=[info("t", ["n"])], initializers=[const("b", blocks[0])])
    names = [f"w{index}" for index in range(len(blocks) - 2)]
    nodes = [
        node("Constant", "", "k", value=const("", blocks[-1])),
        node("If", "c", "z", then_branch=branch, else_branch=branch),
        node("Sum", " ".join(["z", "k", *names]), "y"),
    ]
    weights = [const(name, block) for name, block in zip(names, blocks, strict=False)]
    proto = model(
        nodes,
        inputs=[info("x", ["n"])],
        outputs=[info("y", ["n"])],
        initializers=[*weights, const("c", True, np.bool_)],
    )
    path = tmp_path_factory.mktemp("heavy") / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert path.stat().st_size > MEGABYTES << 20
    return path


def test_reading_allocates_next_to_nothing(heavy: Path) -> None:
    """Both what Python allocates and, in a fresh process, what the system counts as memory not backed by the file."""
    tracemalloc.start()
    loaded = read(heavy)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert sum(value.const_value.nbytes for value in loaded.ir.graph.initializers.values()) > 50 << 20
    if not Path("/proc/self/status").exists():
        return
    script = (
        "import sys, re\n"
        "from onnx2torch_mlir.model import read\n"
        "from tests.model.builders import model\n"
        "read(model())\n"
        "def anonymous(): return int(re.search(r'RssAnon:\\s+(\\d+)', open('/proc/self/status').read())[1]) >> 10\n"
        "before = anonymous(); kept = read(sys.argv[1]); print(anonymous() - before)"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", script, str(heavy)], capture_output=True, text=True, cwd=root, check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert re.fullmatch(r"-?\d+", run.stdout.strip())
    assert int(run.stdout) < 8


def test_tensors_are_views_of_the_file(heavy: Path) -> None:
    loaded = read(heavy)
    weight = loaded.ir.graph.initializers["w3"].const_value
    assert isinstance(weight, MappedTensor)
    data = heavy.read_bytes()
    assert weight.path == str(heavy)
    assert np.frombuffer(data, np.float32, 4, weight.offset or 0).tolist() == [3.0] * 4
    values = array(weight)
    assert values.base is not None and not values.flags.writeable and values[-1] == 3.0
    assert is_aligned(weight, 1) and is_aligned(weight, 4) == (values.__array_interface__["data"][0] % 4 == 0)
    constant = next(n for n in loaded.ir.graph if n.op_type == "Constant").attributes["value"].as_tensor()
    branch = next(n for n in loaded.ir.graph if n.op_type == "If").attributes["then_branch"].as_graph()
    assert isinstance(constant, MappedTensor) and isinstance(branch.initializers["b"].const_value, MappedTensor)


def test_bytes_are_viewed_not_copied(heavy: Path) -> None:
    data = heavy.read_bytes()
    tracemalloc.start()
    loaded = read(data)
    values = array(loaded.ir.graph.initializers["w5"].const_value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert values[0] == 5.0 and not values.flags.writeable


def test_onnx_ir_models_keep_their_tensors(heavy: Path) -> None:
    first = read(heavy)
    second = read(first.ir)
    for name, value in first.ir.graph.initializers.items():
        assert second.ir.graph.initializers[name].const_value is value.const_value


NUMPY = [
    np.float32,
    np.float64,
    np.float16,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.bool_,
    np.complex64,
    np.complex128,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.int2,
    ml_dtypes.uint2,
    ml_dtypes.float4_e2m1fn,
]


@pytest.mark.parametrize("dtype", NUMPY, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("count", [0, 1, 7, 40001])
def test_every_element_type(dtype: type, count: int, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 2, count).astype(dtype)
    stored = numpy_helper.from_array(values, "w")
    proto = model(outputs=[info("y"), info("w", (count,), stored.data_type)], initializers=[stored])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (path, path.read_bytes(), proto):
        loaded = read(source)
        got = array(loaded.ir.graph.initializers["w"].const_value)
        assert got.dtype == np.dtype(dtype) and got.shape == (count,) and not got.flags.writeable
        np.testing.assert_array_equal(got.astype(complex), values.astype(complex))
        again = extract(loaded, ["w"]).graph.initializer[0]
        np.testing.assert_array_equal(numpy_helper.to_array(again).astype(complex), values.astype(complex))


@pytest.mark.parametrize("field", ["raw_data", "int32_data"])
@pytest.mark.parametrize(("kind", "bits"), [(T.FLOAT6E2M3, 6), (T.FLOAT6E3M2, 6)])
def test_six_bit_types(field: str, kind: int, bits: int) -> None:
    data = {"raw_data": bytes([0b00000001, 0, 0])} if field == "raw_data" else {"int32_data": [1, 0, 0, 0]}
    stored = tensor(data_type=kind, dims=[4], **data)
    loaded = read(model(outputs=[info("y"), info("w", (4,), kind)], initializers=[stored]))
    values = array(loaded.ir.graph.initializers["w"].const_value)
    assert values.shape == (4,) and values.astype(np.float32)[0] > 0 and not values.astype(np.float32)[1:].any()


def test_external_data(tmp_path: Path) -> None:
    numbers = np.arange(12, dtype=np.float32)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"xyz" + numbers.tobytes())
    os.link(tmp_path / "sub" / "w.bin", tmp_path / "hard.bin")
    (tmp_path / "soft.bin").symlink_to("sub/w.bin")
    locations = ["sub/w.bin", "./sub/../sub/w.bin", "hard.bin", "soft.bin"]
    weights = [external(f"w{i}", [3, 4], location=at, offset=3, length=48) for i, at in enumerate(locations)]
    weights.append(external("short", [2], location="sub/w.bin", offset=3))
    weights.append(external("none", [0, 5], location="sub/w.bin"))
    proto = model(outputs=[info("y"), *(info(w.name, list(w.dims)) for w in weights)], initializers=weights)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for loaded in (read(path), read(proto, base_dir=tmp_path), read(str(path))):
        held = loaded.ir.graph.initializers
        for index in range(len(locations)):
            np.testing.assert_array_equal(array(held[f"w{index}"].const_value), numbers.reshape(3, 4))
        assert array(held["short"].const_value).tolist() == [0, 1]
        assert array(held["none"].const_value).shape == (0, 5)


def test_external_tensors_of_onnx_ir_models_are_checked(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.bin").write_bytes(b"\0" * 8)
    (tmp_path / "in" / "w.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    for location, length, code in (
        ("w.bin", 8, ""),
        ("gone", 8, "R012"),
        ("w.bin", 9, "R013"),
        ("../out.bin", 8, "R014"),
    ):
        held = read(model([node("Add", "x w", "y")], initializers=[const("w", [1, 2])])).ir
        held.graph.initializers["w"].const_value = ir.ExternalTensor(
            location, 0, length, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path / "in"
        )
        if code:
            with pytest.raises(Refusal, match=f"O2M-{code}"):
                read(held)
        else:
            assert array(read(held).ir.graph.initializers["w"].const_value).tolist() == [1, 2]


def test_a_model_that_is_a_link_has_its_data_beside_its_target(tmp_path: Path) -> None:
    """The layout of download caches: snapshots/m.onnx -> ../blobs/1, snapshots/w.bin -> ../blobs/2."""
    blobs, snapshots = tmp_path / "blobs", tmp_path / "snapshots"
    blobs.mkdir()
    snapshots.mkdir()
    proto = model([node("Add", "x w", "y")], initializers=[external(location="w.bin")])
    (blobs / "1").write_bytes(proto.SerializeToString())
    (blobs / "2").write_bytes(np.array([1, 2], np.float32).tobytes())
    (snapshots / "m.onnx").symlink_to(blobs / "1")
    (snapshots / "w.bin").symlink_to(blobs / "2")
    loaded = read(snapshots / "m.onnx")
    assert array(loaded.ir.graph.initializers["w"].const_value).tolist() == [1, 2]


def test_many_tensors_need_one_mapping_of_a_file(tmp_path: Path) -> None:
    count = 3000
    (tmp_path / "w.bin").write_bytes(np.arange(count, dtype=np.float32).tobytes())
    weights = [external(f"w{i}", [1], location="w.bin", offset=4 * i) for i in range(count)]
    proto = model(outputs=[info("y"), *(info(w.name, [1]) for w in weights)], initializers=weights)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    loaded = read(tmp_path / "m.onnx")
    held = loaded.ir.graph.initializers
    assert [float(array(held[f"w{i}"].const_value)[0]) for i in range(count)] == list(range(count))


def test_external_data_saved_by_onnx(tmp_path: Path) -> None:
    proto = model([node("Add", "x w", "y")], initializers=[const("w", np.arange(2))])
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="d", size_threshold=0)
    loaded = read(tmp_path / "m.onnx")
    assert isinstance(loaded.ir.graph.initializers["w"].const_value, ir.ExternalTensor)
    assert array(loaded.ir.graph.initializers["w"].const_value).tolist() == [0, 1]


def test_a_file_per_tensor_needs_no_more_descriptors_than_the_system_allows(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = Path("/proc/self/fd")
    count = sum(1 for _ in opened.iterdir()) if opened.is_dir() else 64
    if before[1] < count + 200:
        pytest.skip("the system allows too few files")
    paths = [tmp_path / f"{number}.bin" for number in range(100)]
    for path in paths:
        path.write_bytes(b"data")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 50, before[1]))
    try:
        mapped = [map_file(path) for path in paths]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert all(bytes(view) == b"data" for view in mapped)
