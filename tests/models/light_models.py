"""The nine CNNs that the onnx wheel carries, at any batch and with weights that tell channels apart.

As shipped, all weights of these models are 0.02, under which a wrong order of channels or filters would go unseen, and
the batch is 1: in the declared input and output, and as the leading number of the shapes that Reshape is given. Here
weights are random, in an external file, and that leading 1 is 0, which in ONNX means the size the tensor has. Nothing
else changes; the values before the last Softmax become an output too, because Softmax hides errors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx")))


def shipped(name: str) -> Path:
    """The file as the wheel has it."""
    return FOLDER / f"light_{name}.onnx"


def write(name: str, path: Path) -> None:
    """Write the model ``name``, with the dim "batch" and random weights, as ``path`` and the file ``path`` + .data."""
    model = onnx.load(shipped(name))
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "ConstantOfShape"}
    _free_batch(graph, constants, set(shapes))
    weights = _weights(graph, {key: numpy_helper.to_array(constants[value]) for key, value in shapes.items()})
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    del graph.node[:]
    graph.node.extend(kept)
    data = path.with_name(f"{path.name}.data")
    with data.open("wb") as file:
        for key, array in weights.items():
            tensor = graph.initializer.add(name=key, data_type=onnx.TensorProto.FLOAT, dims=array.shape)
            tensor.raw_data = b""
            external_data_helper.set_external_data(tensor, data.name, offset=file.tell(), length=array.nbytes)
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            file.write(array.tobytes())
    last = next(node for node in graph.node if graph.output[0].name in node.output)
    if last.op_type == "Softmax":
        shape = ["batch", *[dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim][1:]]
        graph.output.append(helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, shape))
    path.write_bytes(model.SerializeToString())


def _free_batch(graph: onnx.GraphProto, constants: dict[str, onnx.TensorProto], weights: set[str]) -> None:
    for value in [item for item in graph.input if item.name not in constants] + list(graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[0] not in weights:
            target = numpy_helper.to_array(constants[node.input[1]]).copy()
            assert target[0] == 1
            target[0] = 0
            constants[node.input[1]].CopyFrom(numpy_helper.from_array(target, node.input[1]))


def _weights(graph: onnx.GraphProto, shapes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights of a size under which values neither vanish nor grow: by the number of terms that a result sums up."""
    rng = np.random.default_rng(0)
    made = {}
    for name, shape in shapes.items():
        if len(shape) < 2:
            made[name] = rng.uniform(0.5, 1.5, tuple(shape)).astype(np.float32)
            continue
        terms = int(np.prod(shape[1:]))
        made[name] = rng.standard_normal(tuple(shape), np.float32) * np.float32(np.sqrt(2 / terms))
    return made
