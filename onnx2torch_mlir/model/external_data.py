"""External data: where a tensor's bytes are, checked before anything of them is read.

A location is a path relative to the model's folder and must stay in it
(https://onnx.ai/onnx/repo-docs/ExternalData.html): an absolute path, one that climbs out with ``..``, and a link that
leads out are refused. A model that is itself a link (as download caches make them) may also have its data beside the
file that the link leads to.
"""

from __future__ import annotations

import errno
import mmap
import ntpath
import os
import posixpath
import stat
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path

import onnx

from onnx2torch_mlir.diagnostics import Finding

_lock = threading.Lock()
_mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
"""Files that `map_file` has mapped and somebody still uses: what others have mapped may hold what is in no file."""


def map_file(path: Path) -> memoryview:
    """The bytes of a regular file, mapped read-only; OSError as `open` raises it, or where it is no regular file."""
    try:
        return _map_file(path)
    except OSError as error:
        # Each mapping keeps a descriptor, and some exporters write a file per tensor: more than a process may open at first.
        if error.errno != errno.EMFILE or not _raise_file_limit():
            raise
        return _map_file(path)


def _map_file(path: Path) -> memoryview:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a regular file")
        if status.st_size == 0:
            return memoryview(b"")
        mapping = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        with _lock:
            _mapped.add(mapping)
        return memoryview(mapping)
    finally:
        os.close(handle)


def let_go(data: memoryview) -> None:
    """Unmap what has been read of the file that ``data`` are in, if they are in one that is mapped here (Linux).

    It comes back where somebody reads it again, mostly from the system's cache.
    """
    if not isinstance(data.obj, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    with _lock:
        is_ours = data.obj in _mapped
    if is_ours:
        data.obj.madvise(mmap.MADV_DONTNEED)


def _raise_file_limit() -> bool:
    """Let this process open as many files as the system allows; whether that is more than before."""
    try:
        import resource
    except ImportError:
        return False
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return False
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] != soft


class ExternalFiles:
    """The files that a model's tensors may refer to, each mapped once."""

    def __init__(self, base_dir: Path | None, model_file: Path | None = None) -> None:
        self.base_dir = base_dir
        roots = [folder for folder in (base_dir, model_file and Path(os.path.realpath(model_file)).parent) if folder]
        self._roots = [os.path.realpath(root) for root in roots]
        self._known: dict[str, memoryview | Finding] = {}

    def contents(self, location: str) -> memoryview | Finding:
        """The bytes of the file at ``location``, or why they may not or cannot be read."""
        if location not in self._known:
            self._known[location] = self._open(location)
        return self._known[location]

    def _open(self, location: str) -> memoryview | Finding:
        if not location:
            return Finding("O2M-R012", "The tensor's data are external, but no location is given.")
        if self.base_dir is None:
            return Finding(
                "O2M-R012",
                f"The data are in the file {location!r}, and a model given as bytes or object has no folder.",
                hint="Give the model's path, or base_dir=.",
                case=location,
            )
        if problem := self._leads_out(location):
            return Finding("O2M-R014", problem, hint="Move the data file into the model's folder.", case=location)
        try:
            return map_file(Path(os.path.realpath(self.base_dir / location)))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return Finding(
                "O2M-R012",
                f"The data file {location!r} cannot be read: {why}.",
                hint="Put the data file into the model's folder.",
                case=location,
            )

    def _leads_out(self, location: str) -> str:
        if posixpath.isabs(location) or ntpath.isabs(location) or ntpath.splitdrive(location)[0]:
            return f"The location {location!r} is absolute."
        if posixpath.normpath(location.replace("\\", "/")).split("/")[0] == "..":
            return f"The location {location!r} climbs out of the model's folder."
        assert self.base_dir is not None
        try:
            real = os.path.realpath(self.base_dir / location)
        except (OSError, ValueError):
            return ""
        if any(os.path.commonpath([real, root]) == root for root in self._roots):
            return ""
        return f"The location {location!r} is a link that leads out of the model's folder."


def entries_of(tensor: onnx.TensorProto) -> dict[str, str]:
    """The entries of an external tensor: location, offset, length."""
    return {entry.key: entry.value for entry in tensor.external_data}


def span(entries: Mapping[str, str], expected: int, size: int) -> tuple[int, int] | str:
    """Offset and length in bytes of an external tensor's contents in a file of ``size`` bytes, or what is wrong.

    ``entries`` are those of the tensor, as text. ``expected`` is the length that shape and element type ask for; a
    missing length means that.
    """
    numbers = {}
    for key, default in (("offset", 0), ("length", expected)):
        text = entries.get(key, "") or str(default)
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20):
            return f"The {key} {text[:40]!r} is not a number."
        numbers[key] = int(text)
        if numbers[key] < 0:
            return f"The {key} {text} is negative."
    offset, length = numbers["offset"], numbers["length"]
    if length != expected:
        return f"The length is {length} bytes, but shape and element type ask for {expected}."
    if offset + length > size:
        return f"Bytes {offset} to {offset + length} are asked for, but the file has {size}."
    return offset, length


def location_of(tensor: onnx.TensorProto) -> str:
    """The location of an external tensor, ``""`` if it has none."""
    return entries_of(tensor).get("location", "")
