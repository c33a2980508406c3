"""Core program -> ``.pt2``, the archive of `torch.export.save`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.handoff.atomic import replacing
from onnx2torch_mlir.handoff.paging import ReleasingFile

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from onnx2torch_mlir.handoff.weight_file import Progress


def save_pt2(exported: ExportedProgram, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
    """Save ``exported`` to ``path``, which `torch.export.load` reads back; all or nothing.

    The bytes depend on the program alone, not on ``path``. torch copies one weight at a time.

    Raises:
        Refusal: O2M-U001 where ``path`` does not end in ``.pt2``, O2M-U004 where it cannot be written, O2M-H003 where
            the program has something that the format cannot hold.
    """
    import torch

    if not os.fspath(path).endswith(".pt2"):
        raise refuse("O2M-U001", "torch.export writes only files that end in .pt2", case=os.fspath(path))
    tensors = list(exported.state_dict.values())
    with replacing(path) as temporary, temporary.open("wb") as file:
        target = _PatientFile(file, tensors, progress)
        try:
            # Given a path, torch would name everything in the archive after it.
            torch.export.save(exported, target)  # type: ignore[arg-type]
        except Exception as error:
            raise refuse("O2M-H003", f"torch.export cannot save the program: {error}", case="pt2") from error
        target.tell_progress()
        if target.error is not None:
            raise target.error


class _PatientFile(ReleasingFile):
    """A file that takes everything, and keeps the first ``error`` of writing for later: torch's archive writer, which meets one
    while it writes, ends the process."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of ``data``, unless writing has failed before."""
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes
