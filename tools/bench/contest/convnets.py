"""Convolutional networks of their published sizes, in plain PyTorch, with 1000 classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]
ReLU, HardSwish, SiLU = (partial(kind, inplace=False) for kind in (nn.ReLU, nn.Hardswish, nn.SiLU))


def convolution(
    channels: int, out: int, kernel: int = 1, stride: int = 1, *, groups: int = 1, act: Activation | None = None
) -> nn.Sequential:
    """A convolution that keeps the size (divided by the stride), its normalization, and an activation."""
    layers = [nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """``body`` beside ``shortcut``, and an activation of the sum."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, after: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut, self.after = body, shortcut or nn.Identity(), after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.body(x) + self.shortcut(x))


def _head(channels: int, *before: nn.Module) -> list[nn.Module]:
    return [*before, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]


def resnet(depths: tuple[int, ...], bottleneck: bool) -> nn.Module:
    """ResNet (He et al. 2015): of two convolutions a block, or of three with a bottleneck; strides in the 3x3."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2, act=ReLU), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        out = 4 * width if bottleneck else width
        for block in range(depth):
            stride = 2 if stage and not block else 1
            if bottleneck:
                first, second = convolution(channels, width, act=ReLU), convolution(width, width, 3, stride, act=ReLU)
                body = nn.Sequential(first, second, convolution(width, out))
            else:
                body = nn.Sequential(convolution(channels, width, 3, stride, act=ReLU), convolution(width, out, 3))
            shortcut = convolution(channels, out, 1, stride) if stride > 1 or channels != out else None
            layers.append(Residual(body, shortcut, ReLU()))
            channels = out
    return nn.Sequential(*layers, *_head(channels))


class Squeeze(nn.Module):
    """Channels scaled by what all pixels say."""

    def __init__(self, channels: int, hidden: int, act: Activation, gate: Activation) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, hidden, 1), act(), nn.Conv2d(hidden, channels, 1), gate()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale(x)


def _inverted(
    channels: int, wide: int, out: int, kernel: int, stride: int, act: Activation, squeeze: nn.Module | None
) -> nn.Module:
    layers = [convolution(channels, wide, act=act)] if wide != channels else []
    layers.append(convolution(wide, wide, kernel, stride, groups=wide, act=act))
    body = nn.Sequential(*layers, *([squeeze] if squeeze else []), convolution(wide, out))
    return Residual(body) if stride == 1 and channels == out else body


MOBILENET = """
3 16 16 0 R 1,3 64 24 0 R 2,3 72 24 0 R 1,5 72 40 1 R 2,5 120 40 1 R 1,5 120 40 1 R 1,3 240 80 0 H 2,3 200 80 0 H 1,
3 184 80 0 H 1,3 184 80 0 H 1,3 480 112 1 H 1,3 672 112 1 H 1,5 672 160 1 H 2,5 960 160 1 H 1,5 960 160 1 H 1
"""
"""Blocks of MobileNetV3-Large (Howard et al. 2019, table 1): kernel, expansion, channels, squeeze, activation, stride."""


def mobilenet_v3() -> nn.Module:
    """MobileNetV3-Large."""
    layers: list[nn.Module] = [convolution(3, 16, 3, 2, act=HardSwish)]
    channels = 16
    for row in MOBILENET.replace("\n", "").split(","):
        kernel, wide, out, squeezed, act, stride = row.split()
        hidden = max(8, (int(wide) // 4 + 4) // 8 * 8)
        squeeze = Squeeze(int(wide), hidden, ReLU, nn.Hardsigmoid) if squeezed == "1" else None
        chosen = ReLU if act == "R" else HardSwish
        layers.append(_inverted(channels, int(wide), int(out), int(kernel), int(stride), chosen, squeeze))
        channels = int(out)
    layers += [convolution(channels, 960, act=HardSwish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(960, 1280), HardSwish(), nn.Linear(1280, 1000))


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0 (Tan and Le 2019, table 1)."""
    layers: list[nn.Module] = [convolution(3, 32, 3, 2, act=SiLU)]
    channels = 32
    stages = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4))
    for expand, kernel, stride, out, depth in (*stages, (6, 3, 1, 320, 1)):
        for block in range(depth):
            wide = expand * channels
            squeeze = Squeeze(wide, channels // 4, SiLU, nn.Sigmoid)
            layers.append(_inverted(channels, wide, out, kernel, 1 if block else stride, SiLU, squeeze))
            channels = out
    return nn.Sequential(*layers, *_head(1280, convolution(channels, 1280, act=SiLU)))


class ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Scaled(nn.Module):
    """Images scaled by a number for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Permute(nn.Module):
    """Axes in another order."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.order)


def _convnext_block(width: int) -> nn.Module:
    inside = [nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
    spread = nn.Conv2d(width, width, 7, padding=3, groups=width)
    return Residual(nn.Sequential(spread, Permute(0, 2, 3, 1), *inside, Permute(0, 3, 1, 2), Scaled(width)))


def convnext_tiny() -> nn.Module:
    """ConvNeXt-T (Liu et al. 2022)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, eps=1e-6)]
    for stage, depth in enumerate((3, 3, 9, 3)):
        width = 96 << stage
        if stage:
            layers += [ChannelNorm(width // 2, eps=1e-6), nn.Conv2d(width // 2, width, 2, 2)]
        layers += [_convnext_block(width) for _ in range(depth)]
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)]
    return nn.Sequential(*layers, *pooled)


class Dense(nn.Module):
    """What came in, and behind it what ``body`` makes of it."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet_121() -> nn.Module:
    """DenseNet-121 (Huang et al. 2016): growth of 32, bottlenecks of 128."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2, act=ReLU), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate((6, 12, 24, 16)):
        if stage:
            layers += [nn.BatchNorm2d(channels), ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(depth):
            narrow = convolution(channels, 128, act=ReLU)
            body = [nn.BatchNorm2d(channels), ReLU(), *narrow, nn.Conv2d(128, 32, 3, padding=1, bias=False)]
            layers.append(Dense(nn.Sequential(*body)))
            channels += 32
    return nn.Sequential(*layers, *_head(channels, nn.BatchNorm2d(channels), ReLU()))
