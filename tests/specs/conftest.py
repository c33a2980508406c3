"""The maintainers' tools as modules."""

import importlib.util
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def load_tool(name: str):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sync():
    return load_tool("sync_opsets")


@pytest.fixture(scope="session")
def draft_rows():
    return load_tool("draft_rows")
