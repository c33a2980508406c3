"""Voice activity, wake words, speech and music."""

from __future__ import annotations

from tools.corpus.feeds import full, waves, zeros
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject

_SILERO = "silero_vad/data"
_SOUND = {"input": waves("batch", "length"), "state": zeros(2, "batch", 128), "sr": full("rate", dtype="int64")}

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "silero-vad",
        "spox",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad.onnx"),
        (
            {"batch": 1, "length": 576, "rate": 16000},
            {"batch": 3, "length": 288, "rate": 8000},
            {"batch": 2, "length": 576, "rate": 16000},
        ),
        _SOUND,
    ),
    Subject(
        "silero-vad-op15",
        "torch.onnx 2.3",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_16k_op15.onnx"),
        ({"batch": 1, "length": 576, "rate": 16000}, {"batch": 4, "length": 576, "rate": 16000}),
        _SOUND,
    ),
    Subject(
        "silero-vad-sequence",
        "torch.onnx 2.11",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_16k_sequence.onnx"),
        ({"length": 1}, {"length": 23}),
        {"input": waves("length", 576), "h": zeros(1, 1, 128), "c": zeros(1, 1, 128)},
    ),
    Subject(
        "silero-vad-half",
        "torch.onnx 2.3, float16 weights",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_half.onnx"),
        ({"batch": 1, "length": 576}, {"batch": 2, "length": 576}),
        _SOUND,
    ),
    Subject(
        "silero-vad-ifless",
        "torch.onnx 2.9",
        "shipped",
        Shipped("pip", "silero-vad", "6.2.3", f"{_SILERO}/silero_vad_op18_ifless.onnx"),
        ({"batch": 1, "length": 576, "rate": 16000}, {"batch": 3, "length": 288, "rate": 8000}),
        _SOUND,
    ),
    Subject(
        "silero-vad-legacy",
        "torch.onnx 1.12, onnxruntime optimizer",
        "shipped",
        Shipped("npm", "@ricky0123/vad-web", "0.0.31", "package/dist/silero_vad_legacy.onnx"),
        ({"batch": 1, "length": 1536, "rate": 16000}, {"batch": 2, "length": 512, "rate": 8000}),
        {
            "input": waves("batch", "length"),
            "sr": full("rate", dtype="int64"),
            "h": zeros(2, "batch", 64),
            "c": zeros(2, "batch", 64),
        },
    ),
)
