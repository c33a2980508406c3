"""The reference's results: onnxruntime on the CPU, or ONNX's reference evaluator where onnxruntime has no kernel.

onnxruntime refuses some models that are fine; these obstacles are taken out of the way without changing what the
model means: an ir_version that it does not know is lowered, opsets that are not released are allowed, and types that
it cannot hand over as NumPy arrays (bfloat16, float8, int4 …) are cast, without loss, at the model's border.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx2torch_mlir.diagnostics import refuse

Array = np.ndarray[Any, Any]

NEWEST_IR = 13
"""The newest ir_version that onnxruntime 1.31 reads."""

_CARRIERS = {
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FN: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FNUZ: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2FNUZ: TensorProto.FLOAT,
    TensorProto.INT4: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.UINT8,
}
"""Element types without a NumPy type of their own, and the type that holds each of their values."""


@dataclass(frozen=True)
class ReferenceRun:
    """Results in the order of the outputs; ``name`` says what computed them, ``note`` why it is not onnxruntime."""

    outputs: list[Any]
    name: str
    note: str = ""


def run_reference(
    source: str | os.PathLike[str] | onnx.ModelProto, feeds: Mapping[str, Array], *, base_dir: Path | None = None
) -> ReferenceRun:
    """Run a model on ``feeds``. ``base_dir`` is where the external data of a ModelProto are.

    Raises:
        Refusal: O2M-V002 where neither onnxruntime nor the reference evaluator can run it.
    """
    import onnxruntime

    try:
        outputs = _onnxruntime(source, feeds, base_dir)
        return ReferenceRun(outputs, f"onnxruntime {onnxruntime.__version__}")
    except Exception as error:
        why = _first_line(error)
    try:
        from onnx.reference import ReferenceEvaluator

        model = _loaded(source, base_dir)
        with np.errstate(all="ignore"):
            outputs = list(ReferenceEvaluator(model).run(None, dict(feeds)))
    except Exception as error:
        reason = f"onnxruntime: {why}; onnx.reference: {_first_line(error)}"
        hint = "if the generated inputs do not fit, give inputs with --inputs, or sizes with --dim NAME=N"
        raise refuse("O2M-V002", reason, hint=hint) from error
    return ReferenceRun([_array(item) for item in outputs], f"onnx.reference {onnx.__version__}", f"onnxruntime: {why}")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _array(item: Any) -> Any:
    return item if isinstance(item, list) or item is None else np.asarray(item)


def _loaded(source: str | os.PathLike[str] | onnx.ModelProto, base_dir: Path | None) -> onnx.ModelProto:
    if not isinstance(source, onnx.ModelProto):
        return onnx.load(source)
    if base_dir is None:
        return source
    model = onnx.ModelProto()
    model.CopyFrom(source)
    onnx.load_external_data_for_model(model, str(base_dir))
    return model


def _onnxruntime(
    source: str | os.PathLike[str] | onnx.ModelProto, feeds: Mapping[str, Array], base_dir: Path | None
) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # The nodes as the model states them, without fusions that round differently.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = source if isinstance(source, onnx.ModelProto) else onnx.load(source, load_external_data=False)
    folder = base_dir if isinstance(source, onnx.ModelProto) else Path(source).resolve().parent
    border = _Border(model)
    content: str | bytes
    if not isinstance(source, onnx.ModelProto) and model.ir_version <= NEWEST_IR and not border.needed:
        content = os.fspath(source)
    else:
        content = border.model(min(model.ir_version, NEWEST_IR)).SerializeToString()
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    with _unreleased_opsets():
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    given = {item.name for item in session.get_inputs()}
    carried = {name: array for name, array in border.feeds(feeds).items() if name in given}
    return border.results(session.run(None, carried))


class _unreleased_opsets:  # noqa: N801
    """onnxruntime reads this variable when it loads a model."""

    VARIABLE = "ALLOW_RELEASED_ONNX_OPSET_ONLY"

    def __enter__(self) -> None:
        self.before = os.environ.get(self.VARIABLE)
        os.environ[self.VARIABLE] = "0"

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            del os.environ[self.VARIABLE]
        else:
            os.environ[self.VARIABLE] = self.before


class _Border:
    """Casts at the inputs and outputs of a model for element types without a NumPy type."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        held = {tensor.name for tensor in model.graph.initializer}
        self._inputs = {
            value.name: value.type.tensor_type.elem_type
            for value in model.graph.input
            if value.type.tensor_type.elem_type in _CARRIERS and value.name not in held
        }
        self._outputs = [value.type.tensor_type.elem_type for value in model.graph.output]
        self.needed = bool(self._inputs) or any(kind in _CARRIERS for kind in self._outputs)

    def model(self, ir_version: int) -> onnx.ModelProto:
        """A copy of the model with the casts."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        model.ir_version = ir_version
        if not self.needed:
            return model
        graph = model.graph
        before = []
        for value in graph.input:
            if value.name in self._inputs:
                kind = self._inputs[value.name]
                before.append(helper.make_node("Cast", [f"{value.name}/carried"], [value.name], to=kind))
                value.name = f"{value.name}/carried"
                value.type.tensor_type.elem_type = _CARRIERS[kind]
        nodes = [*before, *graph.node]
        for value, kind in zip(graph.output, self._outputs, strict=True):
            if kind in _CARRIERS:
                nodes.append(helper.make_node("Cast", [value.name], [f"{value.name}/carried"], to=_CARRIERS[kind]))
                value.name = f"{value.name}/carried"
                value.type.tensor_type.elem_type = _CARRIERS[kind]
        del graph.node[:]
        graph.node.extend(nodes)
        return model

    def feeds(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays under the names and types of the model with the casts."""
        carried = {name: helper.tensor_dtype_to_np_dtype(_CARRIERS[kind]) for name, kind in self._inputs.items()}
        return {
            f"{name}/carried" if name in carried else name: array.astype(carried[name]) if name in carried else array
            for name, array in feeds.items()
        }

    def results(self, outputs: Sequence[Any]) -> list[Any]:
        """Results in their declared types."""
        return [
            item.astype(helper.tensor_dtype_to_np_dtype(kind)) if kind in _CARRIERS else item
            for item, kind in zip(outputs, self._outputs, strict=True)
        ]
