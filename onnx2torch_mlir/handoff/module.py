"""The result of every conversion to MLIR, whatever the dialect: a module that is printed or saved on demand."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx2torch_mlir.diagnostics import Finding, refuse
from onnx2torch_mlir.handoff.arguments import FILE_SUFFIXES
from onnx2torch_mlir.handoff.atomic import replacing

if TYPE_CHECKING:
    import torch

    from onnx2torch_mlir.handoff.weight_file import Progress

BYTECODE_SUFFIXES = (".mlirbc", ".mlir.bc", ".bc")
"""Paths that end so are written as bytecode; every other path as text."""


class MlirModule:
    """An MLIR module: text by ``str()``, text or bytecode by `save`.

    Made from a live ``torch_mlir.ir.Module``, or from bytecode or text, which is parsed only when needed. Weights that
    are part of the module are referenced where they lie, not copied. ``weights`` are the tensors of a module that
    takes them as arguments from a file: `save` writes them beside the module as a ``.safetensors`` file.
    """

    def __init__(
        self,
        source: Any,
        *,
        dialect: str,
        weights: Mapping[str, torch.Tensor] | None = None,
        stored: str = "",
        findings: Iterable[Finding] = (),
        referenced: Sequence[torch.Tensor] = (),
        keep: Any = None,
    ) -> None:
        """Wrap ``source``: a ``torch_mlir.ir.Module``, its bytecode or text, or the `Path` of a file with one.

        ``findings`` are warnings about what the module does not say. ``referenced`` are the tensors whose memory the
        module's constants point into: they need not stay in memory while it is written. ``keep`` is kept alive as long
        as the module: what its memory or file belongs to.
        """
        self.dialect = dialect
        self.weights: Mapping[str, torch.Tensor] = weights or {}
        self.findings = tuple(findings)
        self._suffix = FILE_SUFFIXES.get(stored, "")
        self._source = source
        self._referenced = tuple(referenced)
        self._keep = keep
        self._module: Any = None

    @property
    def module(self) -> Any:
        """The live ``torch_mlir.ir.Module``; parsed on first use, in a context of its own."""
        if self._module is None:
            if isinstance(self._source, bytes | str | Path):
                from onnx2torch_mlir.handoff.context import parse

                self._module = parse(self._source, self.dialect)
            else:
                self._module = self._source
        return self._module

    def bytecode(self) -> bytes:
        """The module as MLIR bytecode."""
        if isinstance(self._source, bytes) and self._source.startswith(b"ML\xefR"):
            return self._source
        buffer = io.BytesIO()
        self.module.operation.write_bytecode(buffer)
        return buffer.getvalue()

    def text(self, *, locations: bool = True, elide: int | None = None) -> str:
        """The module as text.

        ``locations`` writes the ONNX node names that the operations carry; ``elide`` leaves out constants of more
        than that many elements (such a text cannot be parsed back).
        """
        return str(
            self.module.operation.get_asm(enable_debug_info=locations, large_elements_limit=elide, assume_verified=True)
        )

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights that `save` writes, into the module or beside it."""
        return sum(tensor.nbytes for tensor in (*self.weights.values(), *self._referenced))

    def save(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Write the module to ``path``: bytecode if it ends in ``.mlirbc``, text otherwise; all or nothing.

        Weights kept outside go to the same path with the suffix ``.safetensors`` or ``.irpa``. A path that cannot be written
        is refused with O2M-U004. ``progress`` is called with the numbers of bytes that have been written.
        """
        name = os.fspath(path)
        if self.weights:
            weights_path = self.weights_path(name)
            if weights_path == Path(name):
                raise refuse("O2M-U004", "module and weights would be the same file", case=name)
            if self._suffix == FILE_SUFFIXES["irpa"]:
                from onnx2torch_mlir.handoff.parameter_archive import save_archive

                save_archive(self.weights, weights_path, progress)
            else:
                from onnx2torch_mlir.handoff.tensor_file import save_tensors

                save_tensors(self.weights, weights_path, progress)
        self.save_module(name, progress=progress)

    def save_module(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Write the module alone to ``path``, as `save` does."""
        name = os.fspath(path)
        with replacing(name) as temporary:
            if isinstance(self._source, Path) and self._source.suffix in BYTECODE_SUFFIXES and name.endswith(BYTECODE_SUFFIXES):
                shutil.copyfile(self._source, temporary)
            else:
                with temporary.open("wb") as file:
                    self.write(file, bytecode=name.endswith(BYTECODE_SUFFIXES), progress=progress)

    def write(self, file: BinaryIO, *, bytecode: bool = True, progress: Progress | None = None) -> None:
        """Write the module to ``file`` as bytecode or as text, as `save_module` does.

        Raises:
            OSError: where ``file`` raises it.
        """
        from onnx2torch_mlir.handoff.paging import ReleasingFile

        target = ReleasingFile(file, self._referenced, progress)
        if not bytecode:
            self.module.operation.print(file=target, binary=True, enable_debug_info=True, assume_verified=True)
        elif isinstance(self._source, bytes):
            target.write(self.bytecode())
        else:
            self.module.operation.write_bytecode(target)
        target.tell_progress()

    def weights_path(self, path: str | os.PathLike[str]) -> Path:
        """Where `save` puts the weights of a module that is saved to ``path``."""
        return Path(path).with_suffix(self._suffix)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<MlirModule of the {self.dialect} dialect>"
