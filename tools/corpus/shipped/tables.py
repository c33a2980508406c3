"""Trees and other models of rows of numbers."""

from __future__ import annotations

from tools.corpus.feeds import normal
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject

_TRAFFIC = "atspm_detector/weights"
_ROWS = ({"rows": 1}, {"rows": 1000})

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "traffic-phase-trees",
        "lightgbm, own writer",
        "shipped",
        Shipped("pip", "atspm-detector", "1.1.0", f"{_TRAFFIC}/phase_lgbm_v5_s0.onnx"),
        _ROWS,
        {"X": normal("rows", 261, std=3, dtype="float64")},
    ),
    Subject(
        "traffic-function-trees",
        "lightgbm, own writer",
        "shipped",
        Shipped("pip", "atspm-detector", "1.1.0", f"{_TRAFFIC}/function/function229_s0.onnx"),
        _ROWS,
        {"X": normal("rows", 229, std=3, dtype="float64")},
    ),
    Subject(
        "traffic-pairs",
        "torch.onnx 2.14",
        "shipped",
        Shipped("pip", "atspm-detector", "1.1.0", f"{_TRAFFIC}/funcnet/x100_w32full_pair.onnx"),
        ({"rows": 1, "time": 64}, {"rows": 7, "time": 160}),
        {"x": normal("rows", 15, "time")},
    ),
    Subject(
        "traffic-heads",
        "torch.onnx 2.14",
        "shipped",
        Shipped("pip", "atspm-detector", "1.1.0", f"{_TRAFFIC}/funcnet/x100_w32full_head.onnx"),
        ({"D": 1, "K": 4}, {"D": 6, "K": 3}),
        {"logit": normal("D", "K"), "Z": normal("D", "K", 128), "act": normal("D", mean=2)},
    ),
)
