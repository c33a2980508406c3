"""Reading: text in pictures, kinds of files, languages."""

from __future__ import annotations

from tools.corpus.feeds import picture, tokens
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject

_RAPIDOCR = "rapidocr_onnxruntime/models"

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "ppocr-v4-detection",
        "paddle2onnx",
        "shipped",
        Shipped("pip", "rapidocr-onnxruntime", "1.4.4", f"{_RAPIDOCR}/ch_PP-OCRv4_det_infer.onnx"),
        ({"batch": 1, "height": 96, "width": 160}, {"batch": 2, "height": 128, "width": 64}),
        {"x": picture("batch", 3, "height", "width", low=-1)},
    ),
    Subject(
        "ppocr-v4-recognition",
        "paddle2onnx",
        "shipped",
        Shipped("pip", "rapidocr-onnxruntime", "1.4.4", f"{_RAPIDOCR}/ch_PP-OCRv4_rec_infer.onnx"),
        ({"batch": 1, "width": 320}, {"batch": 3, "width": 168}),
        {"x": picture("batch", 3, 48, "width", low=-1)},
    ),
    Subject(
        "ppocr-v2-direction",
        "paddle2onnx 2.0",
        "shipped",
        Shipped("pip", "rapidocr-onnxruntime", "1.4.4", f"{_RAPIDOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        ({"batch": 1, "width": 192}, {"batch": 5, "width": 96}),
        {"x": picture("batch", 3, 48, "width", low=-1)},
    ),
    Subject(
        "magika",
        "tf2onnx",
        "shipped",
        Shipped("pip", "magika", "1.0.3", "magika/models/standard_v3_3/model.onnx"),
        ({"batch": 1}, {"batch": 7}),
        {"bytes": tokens("batch", 2048, below=257, dtype="int32")},
    ),
)
