import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Each test compiles by itself."""
    monkeypatch.setenv("ONNX2MLIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
