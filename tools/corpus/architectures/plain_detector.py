"""A detector in plain PyTorch: pyramid, anchors, decoding of boxes, and NonMaxSuppression class by class."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from onnxscript import opset18 as op
from torch import Tensor, nn
from torch.nn import functional

ANCHORS = ((8.0, 16.0), (16.0, 8.0), (24.0, 24.0))
MOST, OVERLAP, LEAST = 5, 0.5, 0.3


@torch.library.custom_op("corpus::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor) -> Tensor:
    """Boxes [batch, n, 4] and scores [batch, classes, n] to the rows (batch, class, box) that stay, [found, 3] int64."""
    rows = []
    for image, classes in enumerate(scores):
        for label, row in enumerate(classes):
            kept: list[int] = []
            for box in row.argsort(descending=True, stable=True).tolist():
                if (
                    len(kept) < MOST
                    and row[box] > LEAST
                    and all(_overlap(boxes[image, box], boxes[image, k]) <= OVERLAP for k in kept)
                ):
                    kept.append(box)
            rows += [[image, label, box] for box in kept]
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)


@nms.register_fake
def _(boxes: Tensor, scores: Tensor) -> Tensor:
    found = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty([found, 3], dtype=torch.int64)


def _overlap(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    common = (high - low).clamp(min=0).prod()
    return common / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common)


def onnx_nms(boxes: Any, scores: Any) -> Any:
    """`nms`, as the dynamo exporter traces it."""
    numbers = (op.Constant(value_ints=[MOST]), op.Constant(value_floats=[OVERLAP]), op.Constant(value_floats=[LEAST]))
    return op.NonMaxSuppression(boxes, scores, *numbers)


class _Suppression(torch.autograd.Function):
    """`nms`, which the TorchScript exporter writes as the operator."""

    @staticmethod
    def forward(ctx: Any, boxes: Tensor, scores: Tensor) -> Tensor:
        return nms(boxes, scores)

    @staticmethod
    def symbolic(g: Any, boxes: Any, scores: Any) -> Any:
        constants = [g.op("Constant", value_t=torch.tensor([number])) for number in (MOST, OVERLAP, LEAST)]
        return g.op("NonMaxSuppression", boxes, scores, *constants)


class Detector(nn.Module):
    """Images [batch, 3, height, width] to boxes [found, 4], their scores, labels and images [found]."""

    translations: ClassVar = {torch.ops.corpus.nms.default: onnx_nms}

    def __init__(self, classes: int = 3, width: int = 16) -> None:
        super().__init__()
        self.classes = classes
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU())
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU()) for _ in range(3)
        )
        self.lateral = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.heads = nn.Conv2d(width, len(ANCHORS) * (4 + classes), 3, 1, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        features = [self.stem(image)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        fine, coarse = features[-2], features[-1]
        fine = self.lateral[0](fine) + functional.interpolate(self.lateral[1](coarse), size=fine.shape[-2:], mode="nearest")
        boxes, scores = zip(*(self._decode(level, stride) for level, stride in ((fine, 8), (coarse, 16))), strict=True)
        every, likely = torch.cat(boxes, 1), torch.cat(scores, 1).transpose(1, 2)
        if torch.onnx.is_in_onnx_export() and not torch.compiler.is_compiling():
            rows = _Suppression.apply(every, likely)  # type: ignore[no-untyped-call]
        else:
            rows = nms(every, likely)
        images, labels, kept = rows.unbind(1)
        return every[images, kept], likely[images, labels, kept], labels, images

    def _decode(self, level: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        raw = self.heads(level)
        batch, _, height, width = raw.shape
        raw = raw.reshape(batch, len(ANCHORS), 4 + self.classes, height, width).permute(0, 3, 4, 1, 2)
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centre = torch.stack([x, y], -1)[None, :, :, None].to(raw.dtype) * stride + stride / 2
        size = torch.tensor(ANCHORS)
        middle = centre + raw[..., :2].tanh() * stride
        extent = size * raw[..., 2:4].clamp(-4, 4).exp()
        boxes = torch.cat([middle - extent / 2, middle + extent / 2], -1).flatten(1, 3)
        return boxes, raw[..., 4:].sigmoid().flatten(1, 3)
