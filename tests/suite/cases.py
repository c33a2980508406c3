"""The cases of ONNX's backend suite, as plain data that another process can take."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")

DataSet = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class Case:
    """One case: a model (bytes, or the path of one of the light models), its data, and the suite's own tolerances."""

    name: str
    kind: str
    model: bytes | str
    data_sets: tuple[DataSet, ...]
    rtol: float
    atol: float

    @property
    def id(self) -> str:
        """Kind and name: unique in the suite."""
        return f"{self.kind}/{self.name}"


def load_cases(kinds: tuple[str, ...] = KINDS) -> list[Case]:
    """All cases of ``kinds``, in the suite's order."""
    cases: list[Case] = []
    for kind in kinds:
        if kind == "node":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cases += [_node(test) for test in load_model_tests(kind="node")]
        elif kind == "light":
            cases += [_light(Path(test)) for test in sorted((Path(DATA_DIR) / "real").iterdir()) if test.is_dir()]
        else:
            cases += sorted((_stored(test) for test in load_model_tests(kind=kind)), key=lambda case: case.name)
    return cases


def _node(test: Any) -> Case:
    data = tuple(
        ([_array(item) for item in inputs], [_array(item) for item in outputs]) for inputs, outputs in test.data_sets
    )
    return Case(test.name, "node", test.model.SerializeToString(), data, test.rtol, test.atol)


def _array(item: Any) -> Any:
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else item


def _stored(test: Any) -> Case:
    folder = Path(test.model_dir)
    content = (folder / "model.onnx").read_bytes()
    graph = onnx.ModelProto.FromString(content).graph
    data = tuple(
        (_protos(path, "input", graph.input), _protos(path, "output", graph.output))
        for path in sorted(folder.glob("test_data_set_*"))
    )
    return Case(test.name, test.kind, content, data, test.rtol, test.atol)


def _protos(folder: Path, role: str, values: Any) -> list[Any]:
    count = len(list(folder.glob(f"{role}_*.pb")))
    return [_load((folder / f"{role}_{index}.pb").read_bytes(), values[index].type) for index in range(count)]


def _load(content: bytes, type_: onnx.TypeProto) -> Any:
    """As the runner loads it: a tensor, a sequence or an optional, by the declared type."""
    if type_.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if type_.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def _light(folder: Path) -> Case:
    """A light model: the runner's own dummy input, and the expected output that is stored beside the model."""
    settings = json.loads((folder / "data.json").read_text())
    path = Path(DATA_DIR) / "light" / f"light_{settings['model_name']}.onnx"
    graph = onnx.load(path, load_external_data=False).graph
    held = {tensor.name for tensor in graph.initializer}
    inputs = []
    for value in graph.input:
        if value.name not in held:
            shape = tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim)
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    outputs = [
        numpy_helper.to_array(onnx.load_tensor(str(path.with_name(f"{path.stem}_output_{index}.pb"))))
        for index in range(len(graph.output))
    ]
    return Case(
        f"light_{settings['model_name']}", "light", str(path), ((inputs, outputs),), settings["rtol"], settings["atol"]
    )
