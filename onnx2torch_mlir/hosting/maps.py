"""DictVectorizer and CastMap of maps that onnxruntime does not take from Python: of other values than float32, and empty."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx2torch_mlir.hosting.sessions import OnnxruntimeSession

Array = np.ndarray[Any, Any]

TAKES_A_MAP = ("CastMap", "DictVectorizer")
"""Operators of ai.onnx.ml whose input is a map."""

_CASTS: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}


class MapSession:
    """A model of one of `TAKES_A_MAP`: in onnxruntime where its Python interface takes the map, else by what ONNX says.

    ``base_dir`` is where the external data of the model are. What onnxruntime raises on loading, it raises.
    """

    def __init__(self, model: onnx.ModelProto, base_dir: Path | None = None) -> None:
        self._session = OnnxruntimeSession(model, base_dir)
        self.name = self._session.name
        [self._node] = model.graph.node
        [given] = model.graph.input
        self._values = given.type.map_type.value_type.tensor_type.elem_type

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The output."""
        [held] = feeds.values()
        if held and self._values == TensorProto.FLOAT:
            return self._session.run(feeds)
        attributes = {item.name: helper.get_attribute_value(item) for item in self._node.attribute}
        if self._node.op_type == "DictVectorizer":
            return [_vector(held, attributes, self._values)]
        return [_cast(held, attributes)]


def _vector(held: Mapping[Any, Any], attributes: Mapping[str, Any], values: int) -> Array:
    """The value of each word of the vocabulary, 0 or "" without one: [1, words]. Source: ONNX DictVectorizer."""
    words = attributes.get("int64_vocabulary") or [word.decode() for word in attributes.get("string_vocabulary", ())]
    absent: Any = "" if values == TensorProto.STRING else 0
    return np.array([[held.get(word, absent) for word in words]], helper.tensor_dtype_to_np_dtype(values))


def _cast(held: Mapping[int, Any], attributes: Mapping[str, Any]) -> Array:
    """The values in the order of their keys: [1, values], or each at its key: [1, max_map]. Source: ONNX CastMap."""
    wanted = attributes.get("cast_to", b"TO_FLOAT").decode()
    numbers: dict[str, Any] = {"TO_FLOAT": float, "TO_INT64": int, "TO_STRING": str}
    cast = {key: numbers[wanted](held[key]) for key in sorted(held)}
    row = list(cast.values())
    if attributes.get("map_form", b"DENSE") == b"SPARSE":
        if any(key < 0 for key in cast):
            raise ValueError("a key of a sparse map is negative")
        # onnxruntime's word for an absent number.
        absent: Any = "0.f" if wanted == "TO_STRING" else 0
        row = [cast.get(key, absent) for key in range(attributes.get("max_map", 1))]
    return np.array([row], _CASTS[wanted])
