"""RNN, GRU and LSTM, with the names that ONNX gives their inputs and attributes."""

from __future__ import annotations

from typing import Unpack

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.families.recurrent import GRU, LSTM, RNN, RecurrentAttributes, recurrent


def rnn(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    layout: int = 0,
    **layer: Unpack[RecurrentAttributes],
) -> tuple[Value, ...]:
    """ONNX RNN: Y, Y_h."""
    return recurrent(g, RNN, x, w, r, b, sequence_lens, [initial_h], None, flag=False, layout=layout, **layer)


def gru(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    layout: int = 0,
    linear_before_reset: int = 0,
    **layer: Unpack[RecurrentAttributes],
) -> tuple[Value, ...]:
    """ONNX GRU: Y, Y_h."""
    initial, flag = [initial_h], bool(linear_before_reset)
    return recurrent(g, GRU, x, w, r, b, sequence_lens, initial, None, flag=flag, layout=layout, **layer)


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
    input_forget: int = 0,
    layout: int = 0,
    **layer: Unpack[RecurrentAttributes],
) -> tuple[Value, ...]:
    """ONNX LSTM: Y, Y_h, Y_c."""
    initial, flag = [initial_h, initial_c], bool(input_forget)
    return recurrent(g, LSTM, x, w, r, b, sequence_lens, initial, p, flag=flag, layout=layout, **layer)
