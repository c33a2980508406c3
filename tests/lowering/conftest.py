import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def compile_cache(tmp_path_factory: pytest.TempPathFactory):
    """Programs are compiled once per session."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ONNX2MLIR_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
