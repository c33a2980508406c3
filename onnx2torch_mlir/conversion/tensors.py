"""ONNX tensors as torch tensors that share their memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnx2torch_mlir.core.narrow import narrow_of, unpacked
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.model import array


def torch_tensor(tensor: ir.TensorProtocol) -> torch.Tensor:
    """``tensor`` as a read-only view of its (mapped) memory.

    Raises:
        Refusal: O2M-C008 where torch has no such element type.
    """
    dtype = torch_dtype(int(tensor.dtype))
    return from_numpy(array(tensor), dtype)


def from_numpy(data: np.ndarray[Any, Any], dtype: torch.dtype) -> torch.Tensor:
    """``data`` (NumPy or ml_dtypes element type) as ``dtype`` of the same size, sharing its memory where contiguous.

    The memory need not be aligned: weights inside a model file seldom are. Elements of less than a byte are brought into the
    form in which they are held (`core.narrow`).
    """
    narrow = narrow_of(data.dtype)
    if narrow is not None:
        data = unpacked(data, narrow)
    if data.size == 0:
        return torch.empty(data.shape, dtype=dtype)
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(raw).view(dtype).reshape(data.shape)


def as_tensors(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, torch.Tensor]:
    """Arrays by name as torch tensors of the same element types, as `from_numpy` makes them.

    Raises:
        Refusal: O2M-C008 where torch has no such element type.
    """
    held = {name: np.asarray(data) for name, data in arrays.items()}
    return {name: from_numpy(data, torch_dtype(_element_type(data.dtype))) for name, data in held.items()}


def _element_type(dtype: np.dtype[Any]) -> int:
    return int(ir.DataType.STRING if dtype.kind in "OSU" else ir.DataType.from_numpy(dtype))
