"""The forms in which a model comes: a path, bytes, a ModelProto, or an onnx_ir model; and what is no model at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import Finding, Refusal, refuse
from onnx2torch_mlir.model import wire
from onnx2torch_mlir.model.external_data import ExternalFiles, let_go, map_file, span
from onnx2torch_mlir.model.places import graphs_in
from onnx2torch_mlir.model.weights import MappedTensor, nbytes_of

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto | ir.Model
"""What `read` takes."""

_SIGNATURES: dict[bytes, str] = {
    b"PK\x03\x04": "a zip archive (a PyTorch .pt file or an archive of a model?)",
    b"\x80\x02": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x1f\x8b": "gzip-compressed",
    b"\x89HDF": "an HDF5 file",
    b"GGUF": "a GGUF file",
    b"version https://git-lfs": "a git-lfs pointer; fetch the file with git lfs pull",
    b"ML\xefR": "MLIR bytecode",
    b"<": "a text in XML or HTML",
    b"{": "a text in JSON",
    b"ir_version:": "ONNX in protobuf's text format; load it with onnx.load",
    b"\x7fELF": "an ELF object",
}


@dataclass
class Slim:
    """A model without its weights: ``proto``, the bytes ``own`` that its ``marker`` location refers to, and tensors
    that stand for themselves, by location (``given``).
    """

    proto: onnx.ModelProto
    own: memoryview
    marker: str
    path: Path | None = None
    given: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def open_source(source: Source, marker: str) -> Slim:
    """The slim model of ``source``.

    Raises:
        Refusal: where there is no readable file, or no ONNX model in it.
        TypeError: where ``source`` is of no type that this takes.
    """
    if isinstance(source, ir.Model):
        return _from_ir(source, marker)
    if isinstance(source, onnx.ModelProto):
        return _from_proto(source, marker)
    if isinstance(source, bytes | bytearray | memoryview):
        data = memoryview(source).cast("B") if len(source) else memoryview(b"")
        return Slim(_parse(data, marker, "The bytes"), data, marker)
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"a model is a path, bytes, an onnx.ModelProto or an onnx_ir.Model, not {type(source).__name__}"
        )
    path = Path(source)
    try:
        data = map_file(path)
    except (OSError, ValueError) as error:
        why = "it is a directory" if _is_dir(path) else getattr(error, "strerror", None) or str(error)
        raise refuse("O2M-R001", f"{os.fspath(source)!r} cannot be read: {why}.", case=os.fspath(source)) from None
    slim = Slim(_parse(data, marker, f"The file {path.name!r}"), data, marker, path)
    let_go(data)
    return slim


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _from_proto(proto: onnx.ModelProto, marker: str) -> Slim:
    try:
        data = memoryview(proto.SerializeToString())
    except Exception as error:  # protobuf raises its own EncodeError, or ValueError beyond 2 GB
        raise refuse(
            "O2M-R004",
            f"The ModelProto cannot be serialized: {error}.",
            hint="Save it with external data; give its path.",
        ) from None
    return Slim(_parse(data, marker, "The ModelProto"), data, marker)


def _from_ir(model: ir.Model, marker: str) -> Slim:
    """Serialize a copy whose tensors are stand-ins, so that none of them is loaded or copied."""
    given: dict[str, ir.TensorProtocol] = {}
    folders: dict[str, ExternalFiles] = {}
    findings: list[Finding] = []

    def stand_in(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        if tensor.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
            return tensor
        if isinstance(tensor, ir.ExternalTensor) and not isinstance(tensor, MappedTensor):
            found = _map_tensor(tensor, folders)
            if isinstance(found, Finding):
                findings.append(found)
            else:
                tensor = found
        location = f"{marker}:given:{len(given)}"
        given[location] = tensor
        return ir.ExternalTensor(
            location,
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            doc_string=None,
        )

    try:
        copy = model.clone()
        for_each_tensor(copy, stand_in)
        proto = ir.serde.serialize_model(copy)
    except Exception:
        given.clear()
        findings.clear()
        try:
            return _from_proto(ir.serde.serialize_model(model), marker)
        except Refusal:
            raise
        except Exception as error:
            raise refuse("O2M-R004", f"The onnx_ir model cannot be serialized: {first_line(error)}.") from None
    return Slim(proto, memoryview(b""), marker, given=given, findings=tuple(findings))


def _map_tensor(tensor: ir.ExternalTensor, folders: dict[str, ExternalFiles]) -> MappedTensor | Finding:
    """``tensor`` with its file checked and mapped."""
    folder, location = os.fspath(tensor.base_dir) or ".", os.fspath(tensor.location)
    buffer = folders.setdefault(folder, ExternalFiles(Path(folder))).contents(location)
    if isinstance(buffer, Finding):
        return replace(buffer, reason=f"Tensor {tensor.name!r}: {buffer.reason}")
    entries = {"offset": str(tensor.offset or 0), "length": "" if tensor.length is None else str(tensor.length)}
    where = span(entries, nbytes_of(tensor.dtype, tuple(tensor.shape.numpy())), len(buffer))
    if isinstance(where, str):
        return Finding("O2M-R013", f"Tensor {tensor.name!r}: {where}", case=tensor.name or "")
    return MappedTensor(
        location, *where, tensor.dtype, shape=tensor.shape, name=tensor.name or "", base_dir=folder, buffer=buffer
    )


def for_each_tensor(model: ir.Model, change: Callable[[ir.TensorProtocol], ir.TensorProtocol]) -> None:
    """Replace every tensor of ``model``, in initializers and attributes, by ``change(tensor)``."""
    graphs = graphs_in(model)
    for graph in graphs:
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.const_value = change(value.const_value)
    for attributes in all_attributes(model, graphs):
        for name, attribute in list(attributes.items()):
            if attribute.is_ref() or attribute.value is None:
                continue
            if attribute.type is ir.AttributeType.TENSOR:
                attributes[name] = ir.AttrTensor(name, change(attribute.as_tensor()))
            elif attribute.type is ir.AttributeType.TENSORS:
                attributes[name] = ir.AttrTensors(name, [change(tensor) for tensor in attribute.as_tensors()])


def all_attributes(model: ir.Model, graphs: Sequence[ir.Graph]) -> Iterator[MutableMapping[str, ir.Attr]]:
    """The attributes of every node in ``graphs``, the model's, and the defaults of its functions."""
    yield from (node.attributes for graph in graphs for node in graph)
    yield from (function.attributes for function in model.functions.values())


def first_line(error: BaseException) -> str:
    """The innermost message of an exception, its first line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _parse(data: memoryview, marker: str, what: str) -> onnx.ModelProto:
    if not len(data):
        raise refuse("O2M-R002", f"{what} has no contents." if what != "The bytes" else "There are no bytes.")
    looks = next((f"It looks like {name}." for start, name in _SIGNATURES.items() if data[: len(start)] == start), "")
    try:
        slim, known = wire.slim(data, marker)
    except wire.WireError as error:
        if {1, 7} & error.known and not looks:
            raise refuse("O2M-R004", f"{what} is damaged or cut off {error}.") from None
        raise refuse("O2M-R003", f"{what} is not a serialized ONNX model.", hint=looks) from None
    proto = onnx.ModelProto()
    if not {1, 7, 8} & known:
        raise refuse("O2M-R003", f"{what} has none of the fields of an ONNX model.", hint=looks)
    try:
        proto.ParseFromString(slim)
    except Exception as error:  # google.protobuf.message.DecodeError, not imported for its name alone
        raise refuse("O2M-R004", f"{what} cannot be parsed: {first_line(error)}.") from None
    return proto
