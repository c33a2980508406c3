"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onnx2torch_mlir.diagnostics import refuse


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to; it takes the place of ``path`` when the block ends well.

    When the block raises, the temporary file goes and ``path`` stays as it was. A ``path`` that cannot be written, and
    a disk that fills up, are refused with O2M-U004. The temporary name keeps the suffix of ``path``. A ``path``
    that is no regular file (a terminal, ``/dev/null``, a pipe) is written to in place.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            yield target
            return
        if target.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        target = target.resolve()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
            temporary.replace(target)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise refuse("O2M-U004", f"{path} cannot be written: {error.strerror or error}", case=str(path)) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
