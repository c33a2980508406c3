"""Convolutional networks as users write them in plain PyTorch."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """Two convolutions, with the time in between."""

    def __init__(self, channels: int, out: int, times: int) -> None:
        super().__init__()
        self.first_norm, self.first = nn.GroupNorm(4, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(times, out)
        self.second_norm, self.second = nn.GroupNorm(4, out), nn.Conv2d(out, out, 3, padding=1)
        self.shortcut = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        inner = self.first(functional.silu(self.first_norm(image)))
        inner = inner + self.time(functional.silu(time))[:, :, None, None]
        return self.second(functional.silu(self.second_norm(inner))) + self.shortcut(image)


class CrossAttention(nn.Module):
    """Attention of pixels among themselves and to a context."""

    def __init__(self, channels: int, context: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(channels)
        self.own = nn.ModuleList(nn.Linear(channels, channels) for _ in range(3))
        self.other = nn.ModuleList(nn.Linear(width, channels, bias=False) for width in (channels, context, context))
        self.gate = nn.Linear(channels, 8 * channels)
        self.out = nn.Linear(4 * channels, channels)

    def forward(self, image: Tensor, context: Tensor) -> Tensor:
        batch, channels, height, width = image.shape
        pixels = image.flatten(2).transpose(1, 2)
        for project, source in ((self.own, None), (self.other, context)):
            inner = self.norm(pixels)
            sources = (inner, inner if source is None else source, inner if source is None else source)
            heads = [p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p, x in zip(project, sources, strict=True)]
            pixels = pixels + functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        value, gate = self.gate(pixels).chunk(2, -1)
        pixels = pixels + self.out(value * functional.gelu(gate))
        return pixels.transpose(1, 2).reshape(batch, channels, height, width)


class UNet(nn.Module):
    """A noisy sample [batch, 4, height, width], time steps [batch], a context [batch, sequence, 24], to the noise."""

    def __init__(self, channels: int = 16, context: int = 24) -> None:
        super().__init__()
        self.channels = channels
        self.time = nn.Sequential(nn.Linear(channels, 2 * channels), nn.SiLU(), nn.Linear(2 * channels, channels))
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.down = nn.ModuleList([Residual(channels, channels, channels), Residual(channels, 2 * channels, channels)])
        self.shrink = nn.ModuleList([nn.Conv2d(channels, channels, 3, 2, 1), nn.Conv2d(2 * channels, 2 * channels, 3, 2, 1)])
        self.attend = CrossAttention(2 * channels, context)
        self.middle = Residual(2 * channels, 2 * channels, channels)
        self.up = nn.ModuleList([Residual(4 * channels, channels, channels), Residual(2 * channels, channels, channels)])
        self.leave = nn.Sequential(nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, 4, 3, padding=1))

    def forward(self, sample: Tensor, timestep: Tensor, context: Tensor) -> Tensor:
        half = self.channels // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half) / half)
        angles = timestep[:, None] * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        hidden, skipped = self.enter(sample), []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            hidden = block(hidden, time)
            skipped.append(hidden)
            hidden = shrink(hidden)
        hidden = self.middle(self.attend(hidden, context), time)
        for block in self.up:
            skip = skipped.pop()
            hidden = functional.interpolate(hidden, scale_factor=2.0, mode="nearest")
            hidden = block(torch.cat([hidden, skip], 1), time)
        return self.leave(hidden)


class SegmentationUNet(nn.Module):
    """Images [batch, 1, height, width] of any size to classes; what is scaled up is cut or padded to what it joins."""

    def __init__(self, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(self._twice(a, b) for a, b in zip([1, *sizes[:-1]], sizes, strict=True))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(self._twice(2 * a, a) for a in sizes[:-1])
        self.classify = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _twice(channels: int, out: int) -> nn.Module:
        layers: list[nn.Module] = []
        for first in (channels, out):
            layers += [nn.Conv2d(first, out, 3, padding=1), nn.InstanceNorm2d(out, affine=True), nn.LeakyReLU(0.1)]
        return nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        skipped, hidden = [], image
        for index, block in enumerate(self.down):
            hidden = block(functional.max_pool2d(hidden, 2) if index else hidden)
            skipped.append(hidden)
        for grow, block, skip in zip(reversed(self.grow), reversed(self.up), reversed(skipped[:-1]), strict=True):
            hidden = grow(hidden)
            rows, columns = skip.shape[2] - hidden.shape[2], skip.shape[3] - hidden.shape[3]
            hidden = functional.pad(hidden, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            hidden = block(torch.cat([skip, hidden], 1))
        return self.classify(hidden)


class Upscaler(nn.Module):
    """Images [batch, 3, height, width] three times as large: shuffled channels, squeeze and excitation, pixel shuffle."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, width, 3), nn.PReLU(width))
        self.grouped = nn.Conv2d(width, width, 3, padding=1, groups=4)
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1), nn.Hardsigmoid()
        )
        self.leave = nn.Conv2d(width, 27, 3, padding=1, padding_mode="replicate")

    def forward(self, image: Tensor) -> Tensor:
        hidden = self.enter(image)
        batch, channels, height, width = hidden.shape
        inner = self.grouped(hidden).view(batch, 4, channels // 4, height, width).transpose(1, 2).reshape(hidden.shape)
        hidden = hidden + functional.mish(inner) * self.squeeze(inner)
        larger = functional.interpolate(image, scale_factor=3, mode="bicubic", align_corners=False)
        return functional.pixel_shuffle(self.leave(hidden), 3) + larger.clamp(0, 1)


class DenseInception(nn.Module):
    """Images to scores: layers that see all layers before, branches of several kernels, ceil-mode and average pools."""

    def __init__(self, width: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU6())
        self.dense = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d((n + 1) * width), nn.ReLU(), nn.Conv2d((n + 1) * width, width, 3, padding=1))
            for n in range(3)
        )
        self.branches = nn.ModuleList(
            [
                nn.Conv2d(4 * width, width, 1),
                nn.Sequential(
                    nn.Conv2d(4 * width, width, (1, 7), padding=(0, 3)), nn.Conv2d(width, width, (7, 1), padding=(3, 0))
                ),
                nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.Conv2d(4 * width, width, 1)),
                nn.Conv2d(4 * width, width, 3, padding=2, dilation=2),
            ]
        )
        self.score = nn.Linear(4 * width * 6, classes)

    def forward(self, image: Tensor) -> Tensor:
        hidden = functional.max_pool2d(self.stem(image), 3, 2, ceil_mode=True)
        for layer in self.dense:
            hidden = torch.cat([hidden, layer(hidden)], 1)
        joined = torch.cat([branch(hidden) for branch in self.branches], 1)
        pooled = [functional.adaptive_avg_pool2d(joined, 1), functional.adaptive_max_pool2d(joined, 1)]
        norms = [joined.norm(dim=(2, 3)), joined.std((2, 3)), joined.amax((2, 3)), torch.logsumexp(joined, (2, 3))]
        return self.score(torch.cat([*(p.flatten(1) for p in pooled), *norms], 1))
