"""Generated and loaded inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import LoadedModel, read
from onnx2torch_mlir.verification import generate_inputs, load_inputs, load_outputs

EMBEDDING = """<ir_version: 8, opset_import: ["": 17]>
g (int64[batch, seq] input_ids, int64[batch, seq] attention_mask, int64[batch, seq] token_type_ids) => (float[batch, seq, 4] y)
<float[11, 4] table = {ELEVEN}, float[2, 4] types = {0, 0, 0, 0, 1, 1, 1, 1}> {
  ids = Identity(input_ids)
  a = Gather <axis = 0> (table, ids)
  b = Gather <axis = 0> (types, token_type_ids)
  c = Add(a, b)
  m = Cast <to = 1> (attention_mask)
  one = Constant <value_ints = [2]> ()
  u = Unsqueeze(m, one)
  y = Mul(c, u)
}""".replace("ELEVEN", ", ".join(["0.5"] * 44))


def loaded(text: str) -> LoadedModel:
    model = parser.parse_model(text)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = dim.dim_param.replace("_plus_", " + ")
    return read(model)


def test_indices_stay_within_what_they_index() -> None:
    inputs = generate_inputs(loaded(EMBEDDING), {"batch": 40, "seq": 30})
    ids = inputs["input_ids"]
    assert ids.shape == (40, 30)
    assert ids.min() == 0
    assert ids.max() == 10
    assert inputs["token_type_ids"].max() == 1


def test_masks_begin_with_ones() -> None:
    mask = generate_inputs(loaded(EMBEDDING), {"batch": 20, "seq": 6})["attention_mask"]
    assert set(np.unique(mask)) == {0, 1}
    assert (mask[:, 0] == 1).all()
    assert (np.diff(mask, axis=1) <= 0).all()


def test_the_same_inputs_every_time_and_other_ones_for_another_seed() -> None:
    model = loaded(EMBEDDING)
    first, second = generate_inputs(model), generate_inputs(model)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    other = generate_inputs(model, seed=1)
    assert not np.array_equal(first["input_ids"], other["input_ids"])


def test_dims_are_small_distinct_and_computed_where_their_name_says_so() -> None:
    model = loaded("""<ir_version: 8, opset_import: ["": 17]>
    g (float[batch, past] a, float[batch, seq] b, float[batch, past_plus_seq] c) => (float[batch, past_plus_seq] y) {
      ab = Concat <axis = 1> (a, b)
      y = Add(ab, c)
    }""")
    shapes = {name: array.shape for name, array in generate_inputs(model).items()}
    assert shapes["a"][0] == 2
    assert len({2, shapes["a"][1], shapes["b"][1]}) == 3
    assert shapes["c"] == (2, shapes["a"][1] + shapes["b"][1])
    assert generate_inputs(model, {"past": 0})["a"].shape == (2, 0)


def test_an_unknown_dim_is_refused() -> None:
    with pytest.raises(Refusal, match="O2M-U002"):
        generate_inputs(loaded(EMBEDDING), {"nothing": 3})


def test_inputs_come_from_files(tmp_path: Path) -> None:
    model = loaded(EMBEDDING)
    arrays = generate_inputs(model)
    np.savez(tmp_path / "named.npz", **arrays)
    np.savez(tmp_path / "ordered.npz", *arrays.values())
    for index, array in enumerate(arrays.values()):
        onnx.save_tensor(numpy_helper.from_array(array), str(tmp_path / f"input_{index}.pb"))
    onnx.save_tensor(numpy_helper.from_array(np.ones(3, np.float32)), str(tmp_path / "output_0.pb"))
    for source in (tmp_path / "named.npz", tmp_path / "ordered.npz", tmp_path):
        found = load_inputs(model, source)
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert [item.tolist() for item in load_outputs(model, tmp_path)] == [[1, 1, 1]]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"not an array"])
def test_files_that_are_no_inputs_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(Refusal, match="O2M-U003"):
        load_inputs(loaded(EMBEDDING), path)
    with pytest.raises(Refusal, match="O2M-U003"):
        load_inputs(loaded(EMBEDDING), tmp_path / "missing.npz")
