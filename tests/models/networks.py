"""Recurrent and convolutional networks, as users write them in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Tagger(nn.Module):
    """Token ids [batch, sequence] to scores [batch, sequence, tags]: embedding, two bidirectional LSTM layers, linear."""

    def __init__(self, vocabulary: int = 50, width: int = 12, hidden: int = 10, tags: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * hidden, tags)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        return self.score(states)


class GruForecast(nn.Module):
    """A series [batch, sequence, features] and a first state [1, batch, hidden] to a forecast and the last state."""

    def __init__(self, features: int = 7, hidden: int = 11, ahead: int = 3) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, ahead))

    def forward(self, series: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        states, last = self.gru(series, state)
        return self.head(states[:, -1]), last


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        same = stride == 1 and channels == out
        self.shortcut: nn.Module = (
            nn.Identity() if same else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, image: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(image)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(image))


class ResNet(nn.Module):
    """A residual network for images [batch, 3, height, width], of any size that survives its five strides."""

    def __init__(self, classes: int = 9) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 24, 2))
        self.classify = nn.Linear(24, classes)

    def forward(self, image: Tensor) -> Tensor:
        pooled = functional.adaptive_avg_pool2d(self.blocks(self.stem(image)), 1)
        return self.classify(torch.flatten(pooled, 1))


class SegmentationNet(nn.Module):
    """An encoder and decoder with a skip: depthwise and transposed convolutions, average pool, bilinear resize, concat."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.entry = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish())
        self.down = nn.Sequential(
            nn.AvgPool2d(2),
            nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8),
            nn.Conv2d(8, 16, 1),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
        )
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.exit = nn.Conv2d(16, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.entry(image)
        merged = torch.cat([fine, self.up(self.down(fine))], 1)
        return functional.interpolate(self.exit(merged), scale_factor=2.0, mode="bilinear", align_corners=False)
