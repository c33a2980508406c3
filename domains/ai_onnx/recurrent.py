"""RNN, GRU and LSTM, with the names that ONNX gives their inputs and attributes."""

from __future__ import annotations

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.families.recurrent import GRU, LSTM, RNN, recurrent


def rnn(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Value, ...]:
    """ONNX RNN: Y, Y_h."""
    return recurrent(
        g, RNN, x, w, r, b, sequence_lens, [initial_h], None,
        activations=activations, alphas=activation_alpha, betas=activation_beta, clip=clip, direction=direction,
        hidden_size=hidden_size, flag=False, layout=layout,
    )  # fmt: skip


def gru(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Value, ...]:
    """ONNX GRU: Y, Y_h."""
    return recurrent(
        g, GRU, x, w, r, b, sequence_lens, [initial_h], None,
        activations=activations, alphas=activation_alpha, betas=activation_beta, clip=clip, direction=direction,
        hidden_size=hidden_size, flag=bool(linear_before_reset), layout=layout,
    )  # fmt: skip


def lstm(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    *,
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Value, ...]:
    """ONNX LSTM: Y, Y_h, Y_c."""
    return recurrent(
        g, LSTM, x, w, r, b, sequence_lens, [initial_h, initial_c], p,
        activations=activations, alphas=activation_alpha, betas=activation_beta, clip=clip, direction=direction,
        hidden_size=hidden_size, flag=bool(input_forget), layout=layout,
    )  # fmt: skip
