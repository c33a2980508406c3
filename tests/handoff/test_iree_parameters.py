"""Weights as parameters of IREE: the archive byte by byte, and the modules that refer to it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_mlir import ir

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.handoff import to_dialect
from onnx2torch_mlir.handoff.linalg import to_linalg
from onnx2torch_mlir.handoff.parameter_archive import save_archive
from onnx2torch_mlir.lowering import lower

NAMES = ["layer.0/weight", 'a "b"\\', "main", "größe"]


def read_archive(path: Path) -> dict[str, bytes]:
    """The parameters of an archive of version 0, as iree/schemas/parameter_archive.h describes it."""
    raw = path.read_bytes()
    assert raw[:4] == b"IRPA" and struct.unpack_from("<HHQQQ", raw, 4) == (0, 0, 88, 0, 0) and len(raw) % 4096 == 0
    count, entries, entries_length, names, names_length, data, data_length = struct.unpack_from("<7Q", raw, 32)
    assert entries % 16 == 0 and entries + entries_length <= names and names + names_length <= data
    assert data + data_length <= len(raw)
    found = {}
    for _ in range(count):
        size, kind, flags, name, length, _, metadata, alignment, start, end = struct.unpack_from("<QIQQQQQQQQ", raw, entries)
        assert (size, kind, flags, metadata, alignment) == (76, 2, 0, 0, 64) and start % 64 == 0 and data % 64 == 0
        found[raw[names + name : names + name + length].decode()] = raw[data + start : data + start + end]
        entries += -(-size // 16) * 16
    return found


def test_the_archive_holds_every_tensor_under_its_name(tmp_path: Path) -> None:
    tensors = {
        "f32": torch.arange(16.0).reshape(4, 4), "": torch.tensor(2.5), "none": torch.zeros(0, 3), "b": torch.ones(3) > 0,
        "größe": torch.arange(6).reshape(2, 3).T, "bf16": torch.ones(5, dtype=torch.bfloat16),
        "u16": torch.ones(1, dtype=torch.uint16),
    }  # fmt: skip
    save_archive(tensors, tmp_path / "t.irpa")
    found = read_archive(tmp_path / "t.irpa")
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert list(found[name]) == tensor.contiguous().reshape(-1).view(torch.uint8).tolist()
    save_archive({}, tmp_path / "empty.irpa")
    assert read_archive(tmp_path / "empty.irpa") == {}


def program():
    """Four weights with names that need care, one of them twice."""
    builder = ProgramBuilder()
    value = builder.input("x", torch.float32, [2, 8])
    tensors = [torch.from_numpy(np.full((8, 8), number, np.float32)) for number in range(len(NAMES))]
    for name, tensor in zip([*NAMES, "tied"], [*tensors, tensors[0]], strict=True):
        weight = builder.constant(name, torch.float32, [8, 8], lambda tensor=tensor: tensor)
        value = builder.call("aten.mm.default", value, weight)
    return finish(builder, [value])


@pytest.mark.parametrize("dialect", ["linalg", "torch", "tosa", "stablehlo"])
def test_modules_load_parameters_under_onnx_names(dialect: str, tmp_path: Path) -> None:
    exported = program()
    is_linalg = dialect == "linalg"
    module = to_linalg(lower(exported), weights="irpa") if is_linalg else to_dialect(exported, dialect, weights="irpa")
    module.save(tmp_path / "m.mlirbc")
    assert list(read_archive(tmp_path / "m.irpa")) == NAMES
    context = module.module.context
    for source in ((tmp_path / "m.mlirbc").read_bytes(), str(module)):
        parsed = ir.Module.parse(source, context)
        assert len(ir.SymbolTable(parsed.operation)["main"].arguments) == 1
    globals_ = [op for op in module.module.body.operations if op.operation.name == "util.global"]
    symbols = [ir.StringAttr(op.attributes["sym_name"]).value for op in globals_]
    assert symbols == ["main.1" if name == "main" else name for name in NAMES]
    keys = [str(op.attributes["initial_value"]) for op in globals_]
    assert keys[1] == r'#stream.parameter.named<"model"::"a \22b\22\5C"> : tensor<8x8xf32>'
    assert str(module).count('"util.global.load"') == len(NAMES)
