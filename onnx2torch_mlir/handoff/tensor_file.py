"""Weight files in the safetensors format, written straight from the tensors' memory.

The format (https://github.com/huggingface/safetensors#format): eight bytes little-endian length of the header, the
header in JSON (name -> dtype, shape, begin and end offset into what follows) padded with spaces, the tensors' bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import torch

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.handoff.atomic import replacing
from onnx2torch_mlir.handoff.weight_file import Progress, nbytes_of, write_tensor

_DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.complex64: "C64",
}

_ALIGNMENT = 64


def save_tensors(tensors: Mapping[str, torch.Tensor], path: str | os.PathLike[str], progress: Progress | None = None) -> None:
    """Write ``tensors`` to a safetensors file at ``path``, one after the other and without a copy of any.

    The format keeps the name ``__metadata__`` for itself: a tensor of this name is refused.

    Raises:
        Refusal: O2M-H003 for a dtype that the format lacks, O2M-U004 where ``path`` cannot be written.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        if name in header:
            raise refuse("O2M-H003", f"a safetensors file can hold no tensor named {name}", case=name)
        if tensor.dtype not in _DTYPES:
            raise refuse("O2M-H003", f"the safetensors format has no {tensor.dtype} for weight {name!r}", case=name)
        end = offset + nbytes_of(tensor)
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with replacing(path) as temporary, temporary.open("wb", buffering=0) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in tensors.values():
            write_tensor(file, tensor, progress)
