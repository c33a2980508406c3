"""The contents of a program's weights, as it declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import arrays
from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.mapped_files import MappedFiles
from onnx2torch_mlir.lowering.lowered import Weight


def loaded(weight: Weight, *, aligned: bool = True, files: MappedFiles | None = None) -> Array:
    """A dense array, without copying where that is possible; raises `Refusal` O2M-X002 if it is not what is declared.

    Native code reads only what is ``aligned``. What had to be copied does not stay in memory of ``files``.
    """
    case = f"weight {weight.name}"
    try:
        contents = weight.array() if callable(weight.array) else weight.array
        array = arrays.from_anything(contents, weight.spec.dtype, aligned=aligned)
    except ValueError as error:
        raise refuse("O2M-X002", f"{case} {error}", case=case) from None
    if array.dtype != arrays.numpy_dtype(weight.spec.dtype) or array.shape != tuple(weight.spec.shape):
        raise refuse("O2M-X002", f"{case} is {array.dtype}{list(array.shape)}, declared {weight.spec}", case=case)
    if files is not None:
        address, length = _place(contents)
        if address != arrays.address_of(array):
            files.drop(address, length)
    return array


def _place(contents: Any) -> tuple[int, int]:
    """The address and the number of bytes of a tensor or of what is an array."""
    if isinstance(contents, torch.Tensor):
        return contents.data_ptr(), contents.nbytes
    array = np.asarray(contents)
    return arrays.address_of(array), array.nbytes


class OnDemand(Mapping[int, Array]):
    """Weights by number, to be packed: each is loaded when it is asked for, wherever it lies, and not kept."""

    def __init__(self, weights: Sequence[Weight], files: MappedFiles) -> None:
        self._weights = weights
        self._files = files

    def __getitem__(self, number: int) -> Array:
        return loaded(self._weights[number], aligned=False, files=self._files)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._weights)))

    def __len__(self) -> int:
        return len(self._weights)
