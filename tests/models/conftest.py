"""Models are exported once for all test processes; a program is compiled once for all tests of a model."""

from __future__ import annotations

import fcntl
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine import Engine
from onnx2torch_mlir.program import CoreProgram
from tests.models.architectures import ARCHITECTURES, EXPORTERS, Architecture, export


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "light: runs a CNN of full size; takes seconds (deselect with -m 'not light')")


@dataclass
class Built:
    """A model file, its program and its native code, each made when first asked for."""

    architecture: Architecture
    path: Path

    @cached_property
    def program(self) -> CoreProgram:
        return o2m.convert(self.path)

    @cached_property
    def engine(self) -> Engine:
        return o2m.compile(self.program)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a test run share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    (shared / "models").mkdir(exist_ok=True)
    return shared / "models"


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock beside ``path``, against other processes."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """``path``, made by the first process that asks."""
    with alone(path):
        if not path.exists():
            new = path.with_name(f"new_{path.name}")
            make(new)
            new.rename(path)
    return path


CASES = [(architecture, exporter) for architecture in ARCHITECTURES for exporter in EXPORTERS]


def case_name(case: tuple[Architecture, str]) -> str:
    return f"{case[0].name}-{case[1]}"


@pytest.fixture(scope="module", params=CASES, ids=case_name)
def built(request: pytest.FixtureRequest, folder: Path) -> Built:
    """Each architecture by each exporter."""
    architecture, exporter = request.param

    def write(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export(architecture, exporter, path)

    return Built(architecture, made(folder / f"{architecture.name}_{exporter}.onnx", write))
