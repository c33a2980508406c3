"""The contents of tensors: mapped from files, never copied by reading or converting.

Protobuf aligns nothing: contents inside a model file start at any byte. numpy views such bytes correctly, but native
code that loads whole vectors or assumes natural alignment needs an aligned copy (`is_aligned` says which).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import refuse

Array = npt.NDArray[np.generic]


def nbytes_of(dtype: ir.DataType, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor stored as ``raw_data``; types below a byte are packed, the last byte padded."""
    return -(-math.prod(shape) * dtype.bitwidth // 8)


def decode(buffer: memoryview, dtype: ir.DataType, shape: tuple[int, ...]) -> Array:
    """A read-only array of ``shape`` over little-endian ``buffer``; types below a byte are unpacked into a copy."""
    if dtype.bitwidth < 8:
        array = ir.PackedTensor(np.frombuffer(buffer, np.uint8), dtype, shape=shape).numpy()
    else:
        array = np.frombuffer(buffer, dtype.numpy().newbyteorder("<")).reshape(shape)
    array.flags.writeable = False
    return array


class MappedTensor(ir.ExternalTensor):
    """An external tensor whose file is mapped once for all its tensors and was checked when the model was read.

    ``path``, ``offset`` and ``length`` say where the bytes are; nothing is paged in before `numpy` is called.
    """

    __slots__ = ("_buffer",)

    def __init__(
        self,
        location: str,
        offset: int,
        length: int,
        dtype: ir.DataType,
        *,
        shape: ir.Shape,
        name: str,
        base_dir: str,
        buffer: memoryview,
        doc_string: str | None = None,
    ) -> None:
        super().__init__(
            location, offset, length, dtype, shape=shape, name=name, base_dir=base_dir, doc_string=doc_string
        )
        self._buffer = buffer[offset : offset + length]

    def _check_path_containment(self) -> None:
        """Done when the model was read (`external_data`); a hard-linked file is fine there."""

    def _load(self) -> None:
        self._array = decode(self._buffer, self.dtype, tuple(self.shape.numpy()))

    def tobytes(self) -> bytes:
        """The bytes of the tensor, copied."""
        return bytes(self._buffer)


def buffer_tensor(
    buffer: memoryview, dtype: ir.DataType, shape: ir.Shape, name: str, doc_string: str | None
) -> ir.TensorProtocol:
    """A tensor that views bytes in memory; packed types stay packed until they are asked for."""
    if dtype.bitwidth < 8:
        raw = np.frombuffer(buffer, np.uint8)
        return ir.PackedTensor(raw, dtype, shape=shape, name=name, doc_string=doc_string)
    return ir.Tensor(
        decode(buffer, dtype, tuple(shape.numpy())), dtype=dtype, shape=shape, name=name, doc_string=doc_string
    )


def sparse_tensor(
    values: ir.TensorProtocol, indices: ir.TensorProtocol, shape: tuple[int, ...], name: str
) -> ir.TensorProtocol:
    """The dense tensor of a SparseTensorProto, made when it is first asked for.

    ``indices`` is int64, either [n] into the flattened tensor or [n, rank]; their bounds are checked then
    (https://onnx.ai/onnx/repo-docs/IR.html#sparse-tensors), and a bad one raises Refusal (O2M-R015).
    """

    def dense() -> ir.TensorProtocol:
        stored, where = array(values), array(indices).astype(np.int64)
        try:
            full = np.zeros(shape, dtype=stored.dtype)
            flat = where if where.ndim == 1 else np.ravel_multi_index(tuple(where.T), shape)
        except (ValueError, MemoryError) as error:
            raise refuse(
                "O2M-R015", f"The sparse tensor of shape {list(shape)} is wrong: {error}.", case=name
            ) from None
        if flat.size and not 0 <= flat.min() <= flat.max() < full.size:
            raise refuse(
                "O2M-R015", f"An index of the sparse tensor lies outside of its shape {list(shape)}.", case=name
            )
        full.reshape(-1)[flat] = stored.reshape(-1)
        return ir.Tensor(full, dtype=values.dtype, name=name)

    return _lazy(dense, values.dtype, shape, name)


def _lazy(
    make: Callable[[], ir.TensorProtocol], dtype: ir.DataType, shape: tuple[int, ...], name: str
) -> ir.TensorProtocol:
    return ir.LazyTensor(make, dtype=dtype, shape=ir.Shape(shape), cache=True, name=name)


def array(tensor: ir.TensorProtocol) -> Array:
    """The contents of ``tensor`` as a read-only array of its shape, a view of the mapped file where there is one.

    bfloat16, float8, float6, float4, int4, uint4, int2 and uint2 have ml_dtypes' types, those below a byte unpacked
    (one element a byte); strings are an object array of bytes. The view may be unaligned: see `is_aligned`.
    """
    contents = tensor.numpy()
    if contents.flags.writeable:
        contents = contents.view()
        contents.flags.writeable = False
    return contents


def is_aligned(tensor: ir.TensorProtocol, alignment: int = 64) -> bool:
    """Whether the array of ``tensor`` starts at a multiple of ``alignment`` bytes, as native code may want it."""
    return int(array(tensor).__array_interface__["data"][0]) % alignment == 0
