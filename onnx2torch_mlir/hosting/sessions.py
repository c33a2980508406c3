"""Sessions that run a model as it stands: onnxruntime on the CPU, or ONNX's reference evaluator.

onnxruntime refuses some models that are fine; these obstacles are taken out of the way without changing what the
model means: an ir_version that it does not know is lowered, opsets that are not released are allowed, and types that
it cannot hand over as NumPy arrays (bfloat16, float8, int4 …) are cast, without loss, at the model's border.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

from onnx2torch_mlir.hosting.border import Border
from onnx2torch_mlir.model.function_checks import all_nodes

NEWEST_IR = 13
"""The newest ir_version that onnxruntime 1.31 reads."""

Source = str | os.PathLike[str] | onnx.ModelProto


class HostSession(Protocol):
    """A model that is ready to run. ``name`` says by what."""

    name: str

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs in order: arrays (strings as object arrays), or lists and dicts of them."""
        ...


class OnnxruntimeSession:
    """``source`` in onnxruntime, its nodes as the model states them, without fusions that round differently.

    Where the model has products of quantized tensors, it is optimized so that they are exact: on a CPU without VNNI the
    kernels of uint8 by int8 saturate the sum of two products. ``base_dir`` is where the external data of a ModelProto are.
    With ``optimized`` all of onnxruntime's optimizations are made. What onnxruntime raises, it raises.
    """

    def __init__(self, source: Source, base_dir: Path | None = None, *, optimized: bool = False) -> None:
        import onnxruntime

        self.name = f"onnxruntime {onnxruntime.__version__}"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
        model = source if isinstance(source, onnx.ModelProto) else onnx.load(source, load_external_data=False)
        folder = base_dir if isinstance(source, onnx.ModelProto) else Path(source).resolve().parent
        self._border = Border(model)
        content: str | bytes
        if not isinstance(source, onnx.ModelProto) and model.ir_version <= NEWEST_IR and not self._border.needed:
            content = os.fspath(source)
        else:
            content = self._border.model(min(model.ir_version, NEWEST_IR)).SerializeToString()
            if folder is not None:
                options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        with _unreleased_opsets():
            exact = _exact_session(content, options) if _has_products(model) else None
            self._session = exact or onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        overridable = self._session.get_overridable_initializers()
        self._given = {item.name for item in (*self._session.get_inputs(), *overridable)}

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs in order."""
        carried = {name: array for name, array in self._border.feeds(feeds).items() if name in self._given}
        return self._border.results(self._session.run(None, carried))


_PRODUCTS = frozenset(
    "MatMulInteger ConvInteger QLinearMatMul QLinearConv QGemm QAttention DynamicQuantizeMatMul MatMulIntegerToFloat".split()
)
"""Operators with kernels that saturate, under the names that they have in all domains."""


def _has_products(model: onnx.ModelProto) -> bool:
    nodes = [model.graph.node, *(function.node for function in model.functions)]
    return any(node.op_type in _PRODUCTS for part in nodes for node in all_nodes(part))


def _exact_session(content: str | bytes, options: Any) -> Any:
    """A session with exact products of uint8 by int8; None where onnxruntime has no kernels for these (int8 by int8)."""
    import onnxruntime

    before = options.graph_optimization_level
    if before == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception:  # of many classes: the other session says it again, if it is the model's fault
        options.graph_optimization_level = before
        options.add_session_config_entry("session.x64quantprecision", "0")
        return None


class EvaluatorSession:
    """``source`` in ONNX's reference evaluator; what that raises, it raises."""

    def __init__(self, source: Source, base_dir: Path | None = None) -> None:
        from onnx.reference import ReferenceEvaluator

        self.name = f"onnx.reference {onnx.__version__}"
        self._evaluator = ReferenceEvaluator(_loaded(source, base_dir))

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs in order."""
        with np.errstate(all="ignore"):
            outputs: Any = self._evaluator.run(None, dict(feeds))
        return [item if isinstance(item, list | dict) or item is None else np.asarray(item) for item in outputs]


def _loaded(source: Source, base_dir: Path | None) -> onnx.ModelProto:
    if not isinstance(source, onnx.ModelProto):
        return onnx.load(source)
    if base_dir is None:
        return source
    model = onnx.ModelProto()
    model.CopyFrom(source)
    onnx.load_external_data_for_model(model, str(base_dir))
    return model


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
