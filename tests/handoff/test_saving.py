from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.handoff import save_pt2, to_torch
from onnx2torch_mlir.handoff.atomic import replacing
from onnx2torch_mlir.handoff.context import parse
from onnx2torch_mlir.handoff.paging import page_out
from onnx2torch_mlir.handoff.tensor_file import save_tensors
from tests.handoff.handoff_programs import built_attention, export


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_text_and_bytecode_say_the_same(tmp_path):
    module = to_torch(built_attention())
    module.save(tmp_path / "model.mlir")
    module.save(tmp_path / "model.mlirbc")
    assert (tmp_path / "model.mlir").read_text() == str(module)
    again = parse(tmp_path / "model.mlirbc").operation.get_asm(enable_debug_info=True)
    assert again == str(module)
    assert names(tmp_path) == ["model.mlir", "model.mlirbc"]


@pytest.mark.parametrize("name", ["missing/model.mlir", "folder"])
def test_a_path_that_cannot_be_written_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refusal, match="O2M-U004"):
        to_torch(built_attention()).save(tmp_path / name)
    assert names(tmp_path) == ["folder"]


def test_nothing_is_half_written(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(ValueError, match="stop"), replacing(path) as temporary:
        temporary.write_text("half")
        raise ValueError("stop")
    assert path.read_text() == "before" and names(tmp_path) == ["file.txt"]


def test_external_weights_are_a_safetensors_file(tmp_path):
    exported = built_attention()
    to_torch(exported, weights="external").save(tmp_path / "model.mlirbc")
    raw = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    entry = header["w"]
    begin, end = entry["data_offsets"]
    assert entry["dtype"] == "F32" and entry["shape"] == [64, 64] and (8 + length) % 64 == 0
    data = np.frombuffer(raw[8 + length + begin : 8 + length + end], np.float32).reshape(64, 64)
    np.testing.assert_array_equal(data, exported.state_dict["c_w"].numpy())


def test_the_safetensors_package_reads_it(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    dtypes = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
              torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip
    tensors = {str(dtype): (torch.arange(12) % 2).reshape(3, 4).to(dtype) for dtype in dtypes}
    tensors |= {"scalar": torch.tensor(2.5), "none": torch.zeros(0, 3), "strided": torch.arange(6.0).reshape(2, 3).T}
    save_tensors(tensors, tmp_path / "t.safetensors")
    loaded = safetensors.load_file(tmp_path / "t.safetensors")
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
        assert loaded[name].contiguous().flatten().view(torch.uint8).tolist() == (
            tensor.contiguous().flatten().view(torch.uint8).tolist()
        )


def test_pt2_keeps_symbols_that_no_input_fixes(tmp_path):
    exported = built_attention()
    save_pt2(exported, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    assert loaded.range_constraints == exported.range_constraints
    for batch, length in [(1, 1), (2, 7), (3, 0)]:
        x, y = torch.randn(batch, length, 64), torch.randn(batch, length, 64)
        torch.testing.assert_close(loaded.module()(x, y), exported.module()(x, y))
    assert names(tmp_path) == ["model.pt2"]


@pytest.mark.parametrize(("name", "code"), [("model.pt", "O2M-U001"), ("missing/model.pt2", "O2M-U004")])
def test_bad_paths_of_pt2_files_are_refused(tmp_path, name, code):
    with pytest.raises(Refusal, match=code):
        save_pt2(export(torch.relu, torch.ones(2)), tmp_path / name)
    assert not names(tmp_path)


def test_paging_out_loses_nothing(tmp_path: Path) -> None:
    data = np.arange(3 << 20, dtype=np.float32)
    data.tofile(tmp_path / "data")
    mapped = torch.from_numpy(np.memmap(tmp_path / "data", np.float32, mode="c"))
    mapped[:10] = -1
    anonymous = torch.from_numpy(data.copy())
    empty = torch.zeros(0)
    page_out([mapped, mapped[5:7], anonymous, empty])
    assert torch.equal(anonymous, torch.from_numpy(data))
    assert torch.equal(mapped[10:], anonymous[10:]) and bool((mapped[:10] == -1).all())


@pytest.mark.parametrize(
    ("name", "weights"), [("m.mlirbc", "inline"), ("m.mlir", "irpa"), ("m.mlir", "external"), ("m.pt2", "")]
)
def test_a_disk_that_fills_up_is_refused_and_leaves_nothing(tmp_path, name, weights):
    resource = pytest.importorskip("resource")
    builder = ProgramBuilder()
    weight = builder.constant("w", torch.float32, [600, 600], lambda: torch.ones(600, 600))
    exported = finish(builder, [builder.call("aten.mm.default", builder.input("x", torch.float32, ["B", 600]), weight)])
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        save = to_torch(exported, weights=weights).save if weights else partial(save_pt2, exported)
        with pytest.raises(Refusal, match="O2M-U004"):
            save(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not names(tmp_path)
