"""ONNX tensors as torch tensors that share their memory."""

from __future__ import annotations

import warnings

import numpy as np
import onnx_ir as ir
import torch

from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.model import array

_CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def torch_tensor(tensor: ir.TensorProtocol) -> torch.Tensor:
    """``tensor`` as a read-only view of its (mapped) memory.

    Raises:
        Refusal: O2M-C008 where torch has no such element type.
    """
    dtype = torch_dtype(int(tensor.dtype))
    return from_numpy(array(tensor), dtype)


def from_numpy(data: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """``data`` (NumPy or ml_dtypes element type) as ``dtype`` of the same size, without a copy where it is aligned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if not data.flags["C_CONTIGUOUS"] or not data.flags["ALIGNED"]:
            data = np.array(data, order="C")
        if data.size == 0:
            return torch.empty(data.shape, dtype=dtype)
        if data.dtype.kind in "biufc" and data.dtype.isbuiltin == 1:
            return torch.from_numpy(data).view(dtype)
        return torch.from_numpy(data.view(_CARRIERS[data.itemsize])).view(dtype)
