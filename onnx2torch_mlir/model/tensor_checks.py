"""Whether a TensorProto's data fit its shape and element type, wherever the data are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import Finding, NodeRef
from onnx2torch_mlir.model.external_data import ExternalFiles, entries_of, location_of, span
from onnx2torch_mlir.model.types import Report
from onnx2torch_mlir.model.weights import nbytes_of

_D = ir.DataType
_NARROW = {dtype for dtype in _D if dtype.name not in ("UNDEFINED", "STRING") and dtype.bitwidth <= 16}
_FIELDS: dict[str, set[ir.DataType]] = {
    "float_data": {_D.FLOAT, _D.COMPLEX64},
    "int32_data": {_D.INT32, *_NARROW},
    "string_data": {_D.STRING},
    "int64_data": {_D.INT64},
    "double_data": {_D.DOUBLE, _D.COMPLEX128},
    "uint64_data": {_D.UINT64, _D.UINT32},
}
_PACKED = {_D.INT4, _D.UINT4, _D.FLOAT4E2M1, _D.INT2, _D.UINT2}


@dataclass(frozen=True)
class Place:
    """Where a tensor is: the word for it, and the node that carries it, if one does."""

    what: str
    node: NodeRef | None = None


@dataclass
class TensorChecker:
    """Checks tensors; ``own`` are the model's own bytes, to which the location ``marker`` refers.

    ``given`` are tensors that need no check, by location.
    """

    files: ExternalFiles
    own: memoryview
    marker: str
    given: Mapping[str, ir.TensorProtocol]
    report: Report

    def check(self, tensor: onnx.TensorProto, place: Place) -> None:
        """Report everything that is wrong with ``tensor``."""
        if self.given and location_of(tensor) in self.given:
            return
        code, reason = self._problem(tensor)
        if code:
            self.report(Finding(code, f"{place.what}: {reason}", case=tensor.name, node=place.node))
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            self._check_external(tensor, place)

    def _check_external(self, tensor: onnx.TensorProto, place: Place) -> None:
        location = location_of(tensor)
        contents = self.own if location == self.marker else self.files.contents(location)
        if isinstance(contents, Finding):
            reason = f"{place.what}: {contents.reason}"
            self.report(replace(contents, reason=reason, node=place.node))
            return
        expected = nbytes_of(ir.DataType(tensor.data_type), tuple(tensor.dims))
        where = span(entries_of(tensor), expected, len(contents))
        if isinstance(where, str):
            code = "O2M-R015" if location == self.marker else "O2M-R013"
            self.report(Finding(code, f"{place.what}: {where}", case=tensor.name, node=place.node))

    def _problem(self, tensor: onnx.TensorProto) -> tuple[str, str]:
        try:
            dtype = ir.DataType(tensor.data_type)
        except ValueError:
            return "O2M-R016", f"{tensor.data_type} is not an ONNX element type."
        if dtype is _D.UNDEFINED:
            return "O2M-R016", "It has no element type."
        if tensor.HasField("segment"):
            return "O2M-R015", "Tensors stored in segments are not supported."
        if any(size < 0 for size in tensor.dims):
            return "O2M-R015", f"The shape {list(tensor.dims)} has a negative size."
        filled = [name for name in _FIELDS if len(getattr(tensor, name))]
        if tensor.HasField("raw_data") and (tensor.raw_data or not filled):
            filled.append("raw_data")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            if dtype is _D.STRING:
                return "O2M-R015", "Strings cannot be external data."
            filled = [name for name in filled if name != "raw_data" or tensor.raw_data]
            return ("O2M-R015", f"It has external data and {filled[0]} too.") if filled else ("", "")
        if len(filled) > 1:
            return "O2M-R015", f"Its data are in {' and in '.join(filled)}."
        return self._fit(tensor, dtype, filled[0] if filled else "")

    def _fit(self, tensor: onnx.TensorProto, dtype: ir.DataType, name: str) -> tuple[str, str]:
        shape = tuple(tensor.dims)
        count = math.prod(shape)
        if name == "raw_data":
            if dtype is _D.STRING:
                return "O2M-R015", "Strings cannot be raw_data."
            given, expected, unit = len(tensor.raw_data), nbytes_of(dtype, shape), "bytes of raw_data"
        elif name:
            if dtype not in _FIELDS[name]:
                return "O2M-R015", f"{dtype.name} elements cannot be stored in {name}."
            given, unit = len(getattr(tensor, name)), f"elements of {name}"
            expected = nbytes_of(dtype, shape) if dtype in _PACKED else count
            expected *= 2 if dtype in (_D.COMPLEX64, _D.COMPLEX128) else 1
        else:
            given, expected, unit = 0, count, "elements"
        if given != expected:
            return "O2M-R015", f"{dtype.name}{list(shape)} needs {expected} {unit}, it has {given}."
        return "", ""
