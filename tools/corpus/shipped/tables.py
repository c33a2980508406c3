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
    Subject(
        "surfaces-regressor",
        "skl2onnx 1.19",
        "shipped",
        Shipped("pip", "surfaces-onnx-files", "0.0.1", "surfaces_onnx_files/gradient_boosting_regressor.onnx"),
        _ROWS,
        {"input": normal("rows", 4)},
    ),
    Subject(
        "nmr-shifts",
        "torch.onnx 2.8 (graph network)",
        "shipped",
        Shipped("pip", "caustic-nmr", "0.4.1", "caustic/data/best_v2_carbons.onnx"),
        ({"num_atoms": 9, "num_edges": 30, "num_residues": 2}, {"num_atoms": 40, "num_edges": 133, "num_residues": 5}),
        note="messages along the edges of a molecule, scattered to its atoms",
    ),
    Subject(
        "reaction-mapper",
        "torch.onnx 2.7",
        "shipped",
        Shipped("pip", "chython-rxnmap", "2.0", "chython_rxnmap/rxnmap.onnx"),
        ({"seq_len": 7}, {"seq_len": 24}),
    ),
)
