"""What stays in memory of a model's file after its weights were copied from it."""

import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.mapped_files import MappedFiles
from tests import resident

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells which files are mapped")

FLOAT, LONG = 1, 7
SIDE = 2048
_HUGE = 2 << 20
"""Bytes that the system brings into memory at once, at most."""


def saved(folder, *, aligned):
    """A product whose weight is packed, and rows of a table that is read as it is; the file of both."""
    random = np.random.default_rng(0)
    weight, table = (random.standard_normal((SIDE, SIDE)).astype("f") for _ in range(2))
    nodes = [helper.make_node("Gather", ["table", "rows"], ["x"]), helper.make_node("MatMul", ["x", "weight"], ["y"])]
    rows = helper.make_tensor_value_info("rows", LONG, [5])
    result = helper.make_tensor_value_info("y", FLOAT, [5, SIDE])
    kept = [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(table, "table")]
    graph = helper.make_graph(nodes, "g", [rows], [result], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    if aligned:
        onnx.save(model, path, save_as_external_data=True, location="data")
        return path, folder / "data", weight, table
    graph.doc_string = "x" * (5 - len(model.SerializeToString()) % 4)
    onnx.save(model, path)
    return path, path, weight, table


@pytest.mark.parametrize("aligned", [True, False])
def test_what_was_copied_does_not_stay(aligned, tmp_path, monkeypatch):
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    path, data, weight, table = saved(tmp_path, aligned=aligned)
    program = o2m.convert(path)
    rows = np.array([3, 1, 4, 1, 5])
    for _ in range(2):
        (found,) = program.compile(threads=1).run([rows])
        np.testing.assert_allclose(found, table[rows] @ weight, rtol=1e-4, atol=1e-4)
        assert resident.of_file(data) <= 3 * _HUGE


def test_codes_that_were_packed_do_not_stay(tmp_path, monkeypatch):
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    random = np.random.default_rng(0)
    side, blocks = 2 * SIDE, SIDE // 16
    codes, scales = random.integers(0, 255, (side, blocks, 16), np.uint8), random.random((side, blocks), np.float32)
    bits = {"K": side, "N": side, "bits": 4, "block_size": 32}
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", **bits)
    given, result = (helper.make_tensor_value_info(name, FLOAT, [1, side]) for name in "xy")
    kept = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [given], [result], kept), opset_imports=sets, ir_version=8)
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="data")
    x = random.standard_normal((1, side), np.float32)
    (found,) = o2m.convert(tmp_path / "model.onnx").compile(threads=1).run([x])
    numbers = np.stack([codes & 15, codes >> 4], -1).reshape(side, blocks, 32) - np.float32(8)
    expected = x @ (numbers * scales[..., None]).reshape(side, side).T
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    assert resident.of_file(tmp_path / "data") <= 2 * _HUGE


def test_what_is_only_here_stays(tmp_path):
    numbers = np.arange(1 << 18, dtype=np.float32)
    numbers.tofile(tmp_path / "data")
    own = np.memmap(tmp_path / "data", np.float32, mode="c")
    own[:] = -1
    written = np.memmap(tmp_path / "data", np.float32, mode="r+")
    read = np.memmap(tmp_path / "data", np.float32, mode="r")
    anonymous = numbers.copy()
    assert read.sum() == numbers.sum()
    files = MappedFiles()
    for array in (own, written, read, anonymous, read[5:9], read[:0]):
        files.drop(array.ctypes.data, array.nbytes)
    assert (own == -1).all() and (anonymous == numbers).all() and (read == numbers).all() and (written == numbers).all()


def test_what_was_read_around_goes_in_the_end(tmp_path):
    for name in ("data", "other"):
        np.arange(1 << 18, dtype=np.float32).tofile(tmp_path / name)
    read, other = (np.memmap(tmp_path / name, np.float32, mode="r") for name in ("data", "other"))
    assert read.sum() == other.sum()
    files = MappedFiles()
    files.drop(read.ctypes.data, read.nbytes // 2)
    assert resident.of_file(tmp_path / "data") >= read.nbytes // 4
    files.drop_rest()
    assert resident.of_file(tmp_path / "data") == 0
    # Nothing was copied of this one.
    assert resident.of_file(tmp_path / "other") == other.nbytes


def test_pages_of_a_file_that_is_only_read_go(tmp_path):
    np.arange(1 << 18, dtype=np.float32).tofile(tmp_path / "data")
    read = np.memmap(tmp_path / "data", np.float32, mode="r")
    assert read.sum() and resident.of_file(tmp_path / "data") == read.nbytes
    MappedFiles().drop(read.ctypes.data, read.nbytes)
    assert resident.of_file(tmp_path / "data") == 0
    assert read[-1] == len(read) - 1
