"""Inputs and expected outputs in files: arrays of NumPy's, or the tensors, sequences and optionals of ONNX's test data."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnx2torch_mlir.diagnostics import Refusal, refuse
from onnx2torch_mlir.hosting import settled
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, read
from onnx2torch_mlir.model.sources import Source

Array = np.ndarray[Any, Any]
_PROTOS: dict[Kind, Any] = {Kind.SEQUENCE: onnx.SequenceProto, Kind.OPTIONAL: onnx.OptionalProto, Kind.MAP: onnx.MapProto}


def load_inputs(loaded: LoadedModel, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Inputs from ``path``.

    That is an .npz by name (or arr_0 … in order), an .npy or .pb for a model of one input, or a folder with
    input_0.pb … as ONNX's test data have them. In an .npz the elements of a sequence are called ``name[0]``, ``name[1]``
    … (as `leaves` names them), or one array ``name`` holds them along its first axis, which may be empty. An optional
    that is not in the file is absent.

    Raises:
        Refusal: O2M-U003 where the file cannot be read, or its arrays are not the model's inputs.
    """
    path = Path(path)
    if path.is_dir() or path.suffix == ".pb":
        return _from_protos(loaded, path)
    arrays = _from_numpy(path)
    names = [value.name for value in loaded.inputs]
    if isinstance(arrays, dict) and all(key.startswith("arr_") for key in arrays) and not set(arrays) & set(names):
        arrays = list(arrays.values())
    if isinstance(arrays, list):
        if len(arrays) != len(names):
            raise refuse("O2M-U003", f"{path} has {len(arrays)} arrays, the model {len(names)} inputs", case=str(path))
        arrays = dict(zip(names, arrays, strict=True))
    missing = [value.name for value in loaded.inputs if value.kind is not Kind.OPTIONAL and not _held(value, arrays)]
    if missing:
        hint = f"it has: {', '.join(arrays)}"
        raise refuse("O2M-U003", f"{path} has no array named {', '.join(missing)}", hint=hint, case=str(path))
    return {value.name: _assembled(value, value.name, arrays) for value in loaded.inputs}


def read_for(model: Source, inputs: Any) -> LoadedModel:
    """The model, with initializers that it lists as inputs too as run-time inputs where ``inputs`` (arrays by name, or the
    path of an .npz) give them.

    Raises:
        Refusal: as `model.read`.
    """
    loaded = read(model)
    if not loaded.overridable:
        return loaded
    given: Any = inputs if isinstance(inputs, Mapping) else ()
    if isinstance(inputs, str | os.PathLike) and Path(inputs).suffix == ".npz" and Path(inputs).is_file():
        found = _from_numpy(Path(inputs))
        given = found if isinstance(found, dict) else ()
    kept = [name for name in loaded.overridable if name in given]
    return read(model, keep_overridable=kept) if kept else loaded


def load_outputs(loaded: LoadedModel, folder: str | os.PathLike[str]) -> list[Any]:
    """The expected outputs output_0.pb … of a folder of ONNX's test data; empty where there are none.

    Raises:
        Refusal: O2M-U003 where they cannot be read, or there are more or fewer than the model has.
    """
    found = Path(folder)
    paths = _numbered(found, "output") if found.is_dir() else []
    if paths and len(paths) != len(loaded.outputs):
        reason = f"{found} has {len(paths)} outputs, the model {len(loaded.outputs)}"
        raise refuse("O2M-U003", reason, case=str(found))
    return [_from_proto(value, path) for value, path in zip(loaded.outputs, paths, strict=False)]


def _from_numpy(path: Path) -> dict[str, Array] | list[Array]:
    try:
        found = np.load(path, allow_pickle=False)
        return [found] if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> Refusal:
    reason = f"{path} cannot be read as inputs: {error}"
    hint = "inputs are an .npz, an .npy, a .pb, or a folder with input_0.pb …"
    return refuse("O2M-U003", reason, hint=hint, case=str(path))


def _element_name(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name) + r"\[(\d+)\]")


def _held(value: ValueType, arrays: Mapping[str, Array]) -> bool:
    element = _element_name(value.name)
    return value.name in arrays or any(element.fullmatch(key) for key in arrays)


def _assembled(value: ValueType, name: str, arrays: Mapping[str, Array]) -> Any:
    """The value called ``name`` of the arrays of a file."""
    if value.kind is Kind.OPTIONAL and value.element is not None:
        present = _held(ValueType(name), arrays)
        return _assembled(value.element, name, arrays) if present else None
    if value.kind is not Kind.SEQUENCE or value.element is None:
        return _typed(value, arrays[name])
    if name in arrays:
        return [_typed(value.element, item) for item in arrays[name]]
    numbers = [int(found[1]) for key in arrays if (found := _element_name(name).fullmatch(key))]
    if sorted(numbers) != list(range(len(numbers))):
        raise refuse("O2M-U003", f"the elements of {name} are not numbered from 0 without a gap", case=name)
    return [_typed(value.element, arrays[f"{name}[{number}]"]) for number in range(len(numbers))]


def _typed(value: ValueType, array: Array) -> Any:
    """``array`` in a type that NumPy's files do not know (bfloat16, float8), if ``value`` is of one; strings as objects."""
    dtype = value.dtype.numpy() if value.dtype is not None else array.dtype
    if array.dtype == np.float32 and dtype.isbuiltin == 2:
        return array.astype(dtype)
    return settled(np.asarray(array))


def _from_protos(loaded: LoadedModel, path: Path) -> dict[str, Any]:
    paths = _numbered(path, "input") if path.is_dir() else [path]
    if len(paths) != len(loaded.inputs):
        raise refuse("O2M-U003", f"{path} has {len(paths)} arrays, the model {len(loaded.inputs)} inputs", case=str(path))
    return {value.name: _from_proto(value, item) for value, item in zip(loaded.inputs, paths, strict=True)}


def _numbered(folder: Path, role: str) -> Sequence[Path]:
    paths = [path for path in folder.glob(f"{role}_*.pb") if path.stem.rpartition("_")[2].isdigit()]
    return sorted(paths, key=lambda path: int(path.stem.rpartition("_")[2]))


def _from_proto(value: ValueType, path: Path) -> Any:
    """What ``path`` holds, a protobuf message of the kind that ``value`` declares."""
    try:
        message = _PROTOS.get(value.kind, onnx.TensorProto)()
        message.ParseFromString(path.read_bytes())
        if value.kind is Kind.SEQUENCE:
            return numpy_helper.to_list(message)
        if value.kind is Kind.OPTIONAL:
            return numpy_helper.to_optional(message)
        if value.kind is Kind.MAP:
            return numpy_helper.to_dict(message)
        return settled(np.asarray(numpy_helper.to_array(message)))
    except Exception as error:
        raise _unreadable(path, error) from error
