"""How a node of AttnLSTM is drawn."""

from __future__ import annotations

import numpy as np

from tools.fuzz_ops.draw import Draw

_FUNCTIONS = {"Relu": (), "Sigmoid": (), "Tanh": (), "Softsign": (), "HardSigmoid": (0.3, 0.4), "ScaledTanh": (0.8, 0.7)}
"""Functions of gates and memory, with their alpha and beta."""


def attn_lstm(d: Draw) -> None:
    """All directions and optional inputs; without Y onnxruntime reads what is not there."""
    direction = d.attribute("direction", "reverse", "bidirectional", "forward")
    count = 2 if direction == "bidirectional" else 1
    steps, batch, width, hidden = d.size(1, 5), d.size(1, 3), d.size(1, 5), d.size(1, 5)
    rows, depth, inner = d.size(1, 5), d.size(1, 5), d.size(1, 5)
    seen = d.size(1, 4) if d.flag() else 0
    d.attributes["hidden_size"] = hidden
    d.attribute("input_forget", 1)
    if d.flag():
        d.attributes["clip"] = 1.5
    if d.one_in(3):
        chosen = [d.choose(tuple(_FUNCTIONS)) for _ in range(3 * count)]
        d.attributes["activations"] = chosen
        for place, name in enumerate(("activation_alpha", "activation_beta")):
            numbers = [_FUNCTIONS[item][place] for item in chosen if _FUNCTIONS[item]]
            if numbers:
                d.attributes[name] = numbers
    d.tensor("X", (steps, batch, width))
    d.tensor("W", (count, 4 * hidden, width + (seen or depth)), low=-1, high=1, known=d.flag())
    d.tensor("R", (count, 4 * hidden, hidden), low=-1, high=1, known=d.flag())
    optional = {
        "B": d.array("float", (count, 8 * hidden), -1, 1),
        "sequence_lens": np.array([d.integer(1, steps) for _ in range(batch)], np.int32),
        "initial_h": d.array("float", (count, batch, hidden), -1, 1),
        "initial_c": d.array("float", (count, batch, hidden), -1, 1),
        "P": d.array("float", (count, 3 * hidden), -1, 1),
    }
    for name, array in optional.items():
        d.give(name, array if d.flag() else None)
    for name, shape in (("QW", (count, hidden, inner)), ("MW", (count, depth, inner)), ("V", (count, inner))):
        d.tensor(name, shape, low=-1, high=1, known=d.flag())
    d.tensor("M", (batch, rows, depth), low=-1, high=1)
    lens = np.array([d.integer(1, rows) for _ in range(batch)], np.int32)
    d.give("memory_seq_lens", lens if d.flag() else None)
    d.give("AW", d.array("float", (count, depth + hidden, seen), -1, 1) if seen else None)
    d.outputs = d.choose(((True, True, True), (True,), (True, True), (True, False, True)))


STRATEGIES = {"AttnLSTM": attn_lstm}
