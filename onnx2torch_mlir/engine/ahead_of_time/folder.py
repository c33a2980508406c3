"""Several files that appear in a folder together or not at all, and never in the place of what somebody else put there."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onnx2torch_mlir.diagnostics import refuse

FORMAT = "onnx2torch_mlir native code"
"""How a manifest calls itself."""


@contextmanager
def filled(folder: Path, manifest: str, names: list[str], *, force: bool) -> Iterator[Path]:
    """A temporary folder to write into; what is in it moves to ``folder`` when the block ends well.

    ``manifest`` is the name of the JSON file that lists the others (``files``); ``names`` are those that may be written. Files
    of an earlier manifest are replaced, or removed if they are not written again; others are in the way unless ``force``.
    Whatever fails, ``folder`` is as it was.

    Raises:
        Refusal: O2M-U004 where something is in the way, or cannot be written.
    """
    folder = folder.resolve()
    try:
        own = _own(folder, manifest)
        _refuse_others(folder, [name for name in [*names, manifest] if name not in own], force)
        existed = folder.is_dir()
        if not existed:
            folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, or within one that is there: it may be the root of a file system.
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder if existed else folder.parent))
        try:
            new = temporary / "new"
            new.mkdir()
            yield new
            if existed:
                _refuse_others(folder, [path.name for path in new.iterdir() if path.name not in own], force)
                _exchange(folder, new, temporary / "old", own)
            else:
                new.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise refuse("O2M-U004", f"{folder} cannot be written: {error.strerror or error}", case=str(folder)) from error


def contents(path: Path) -> dict[str, Any]:
    """What a manifest says of a file: its size and SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _own(folder: Path, manifest: str) -> set[str]:
    """The files in ``folder`` that the manifest there lists, as they were written, and the manifest."""
    listed: Mapping[str, Any] = {}
    with suppress(OSError, ValueError):
        told = json.loads((folder / manifest).read_text())
        if isinstance(told, dict) and told.get("format") == FORMAT and isinstance(told.get("files"), dict):
            listed = told["files"]
    own = {manifest} if listed else set()
    for name, said in listed.items():
        path = folder / name
        if Path(name).name == name and path.is_file() and not path.is_symlink() and contents(path) == said:
            own.add(name)
    return own


def _refuse_others(folder: Path, names: list[str], force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise refuse("O2M-U004", f"{folder} is no folder", case=str(folder))
    for name in names:
        path = folder / name
        if not path.exists() and not path.is_symlink():
            continue
        if path.is_dir():
            raise refuse("O2M-U004", f"{path} is a folder, a file of this name has to be written", case=str(path))
        if not force:
            reason = f"{path} is there already, and is not (or no longer) what an earlier run wrote"
            raise refuse("O2M-U004", reason, hint="--force overwrites it; --name chooses other names.", case=str(path))


def _exchange(folder: Path, new: Path, old: Path, own: set[str]) -> None:
    """Move the files of ``new`` to ``folder``, and what they replace to ``old``; all goes back if that fails."""
    old.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        for name in sorted(own | {path.name for path in new.iterdir()}):
            for source, target in ((folder / name, old / name), (new / name, folder / name)):
                if source.exists() or source.is_symlink():
                    source.replace(target)
                    moved.append((source, target))
    except BaseException:
        for source, target in reversed(moved):
            target.replace(source)
        raise
