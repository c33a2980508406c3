"""Single operators, and parts of networks of text, as modules of PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class MatMul(nn.Module):
    """The product of two activations."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b


class RMSNorm(nn.Module):
    """Rows divided by the root of their mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    """A block of Llama with a cache: [batch, sequence, width] and keys and values of the past, to the same and theirs.

    Queries in ``heads``, keys and values in ``groups`` of them; rotary positions, a causal mask, SwiGLU.
    """

    def __init__(self, width: int = 1024, heads: int = 16, groups: int = 4, hidden: int = 2816) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.before, self.between = RMSNorm(width), RMSNorm(width)

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(
        self, x: Tensor, past_key: Tensor | None = None, past_value: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, width = x.shape
        cached = () if past_key is None or past_value is None else (past_key, past_value)
        past = cached[0].shape[2] if cached else 0
        places = torch.arange(length) + past
        rates = 10000 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = (places[:, None] * rates).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        inner = self.before(x)
        projections = (self.query, self.key, self.value)
        query, key, value = (project(inner).unflatten(-1, (-1, self.size)).transpose(1, 2) for project in projections)
        key = self._turned(key, cos, sin)
        if cached:
            key, value = (torch.cat(pair, 2) for pair in zip(cached, (key, value), strict=True))
        keys, values = (kept.repeat_interleave(self.heads // self.groups, 1) for kept in (key, value))
        scores = self._turned(query, cos, sin) @ keys.transpose(-1, -2) / self.size**0.5
        hidden = torch.arange(past + length)[None] > places[:, None]
        found = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        inner = self.between(x)
        return x + self.down(functional.silu(self.gate(inner)) * self.up(inner)), key, value


class Recurrent(nn.Module):
    """The outputs of an LSTM or GRU of PyTorch, without its states."""

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]
