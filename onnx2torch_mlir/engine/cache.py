"""Compiled programs on disk, found by content.

``ONNX2MLIR_CACHE`` names the folder, or switches the cache off with ``0``, ``off`` or the empty string; by default it
is ``onnx2torch_mlir`` in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.options import Options

_MAGIC = b"o2mobj1\n"
_LIMIT = 4 << 30
_stores = itertools.count()


def folder() -> Path | None:
    """Where compiled programs are kept, or None if the cache is off."""
    configured = os.environ.get("ONNX2MLIR_CACHE")
    if configured is not None:
        return None if configured.lower() in ("", "0", "off") else Path(configured).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "onnx2torch_mlir"


@functools.cache
def _surroundings() -> bytes:
    """Everything beside the program that the machine code depends on."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in [here / "layout.py", here / "derived.py", *sorted((here / "compiler").glob("*.py"))]:
        digest.update(source.read_bytes())
    digest.update(f"{version('torch-mlir')} {objects.machine()}".encode())
    return digest.digest()


def key(program: bytes, options: Options) -> str:
    """The name under which the machine code of ``program`` (the module's bytes) with these options is kept."""
    return hashlib.sha256(_surroundings() + options.key() + b"\0" + program).hexdigest()


def load(name: str) -> dict[str, Any] | None:
    """What `store` kept under ``name``; None if there is nothing or it is damaged."""
    root = folder()
    if root is None:
        return None
    try:
        data = (root / f"{name}.o2m").read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 32
    payload = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
        return None
    length = int.from_bytes(payload[:8], "little")
    entry: dict[str, Any] = json.loads(payload[8 : 8 + length])
    entry["object"] = payload[8 + length :]
    return entry


def store(name: str, entry: dict[str, Any]) -> None:
    """Keep ``entry`` (JSON values, and the object file as ``object``); a cache that cannot be written is no error."""
    root = folder()
    if root is None:
        return
    head = json.dumps({field: value for field, value in entry.items() if field != "object"}).encode()
    payload = len(head).to_bytes(8, "little") + head + entry["object"]
    with contextlib.suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=root, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
            Path(temporary).replace(root / f"{name}.o2m")
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        if next(_stores) % 64 == 0:
            _prune(root)


def _prune(root: Path) -> None:
    """Remove the oldest entries of a cache that has grown past its limit."""
    entries = sorted((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in root.glob("*.o2m"))
    excess = sum(size for _, size, _ in entries) - _LIMIT
    for _, size, path in entries:
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size
