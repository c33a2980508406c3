"""Core program -> ``.pt2``, the archive of `torch.export.save`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.handoff.atomic import replacing

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def save_pt2(exported: ExportedProgram, path: str | os.PathLike[str]) -> None:
    """Save ``exported`` to ``path``, which `torch.export.load` reads back; all or nothing.

    Raises:
        Refusal: O2M-U001 where ``path`` does not end in ``.pt2``, O2M-U004 where it cannot be written, O2M-H003 where
            the program has something that the format cannot hold.
    """
    import torch

    if not os.fspath(path).endswith(".pt2"):
        raise refuse("O2M-U001", "torch.export writes only files that end in .pt2", case=os.fspath(path))
    with replacing(path) as temporary:
        try:
            torch.export.save(exported, temporary)
        except OSError:
            raise
        except Exception as error:
            raise refuse("O2M-H003", f"torch.export cannot save the program: {error}", case="pt2") from error
