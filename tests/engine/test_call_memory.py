"""How much memory calls ask for."""

import pytest

from onnx2torch_mlir.engine.compiler.call_memory import workspace
from tests.engine.computed_text import computed


@pytest.mark.parametrize(
    ("size", "asked"),
    [(0, 0), (100, 100), ((256 << 10) - 1, (256 << 10) - 1), (256 << 10, 2 << 20), (2 << 20, 2 << 20), (9 << 20, 9 << 20)],
)
def test_a_workspace_from_a_quarter_mb_on_has_a_huge_page(size, asked):
    *lines, call = workspace("room", "%size")
    assert call.startswith("%room = func.call @o2m_alloc(%ctx, %room_size)")
    assert computed(lines, size=size)[0]["room_size"] == asked
