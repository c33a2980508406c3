"""RNN, GRU and LSTM against onnxruntime: directions, optional inputs, activations, layouts, dynamic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.one_node import agrees

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def arrays(op, seq=5, batch=3, size=4, hidden=6, directions=1, *, bias=True, lens=False, state=False, peepholes=False):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(size=shape, scale=0.5).astype(np.float32)

    width = GATES[op] * hidden
    inputs = [draw(seq, batch, size), draw(directions, width, size), draw(directions, width, hidden)]
    inputs.append(draw(directions, 2 * width) if bias else None)
    inputs.append(np.array([seq, 2, 1][:batch], dtype=np.int32) if lens else None)
    inputs.append(draw(directions, batch, hidden) if state else None)
    if op == "LSTM":
        inputs.append(draw(directions, batch, hidden) if state else None)
        inputs.append(draw(directions, 3 * hidden) if peepholes else None)
    while inputs[-1] is None:
        inputs.pop()
    return inputs


CASES = [
    ("RNN", {}, {}),
    ("RNN", {"directions": 2, "state": True}, {"direction": "bidirectional", "activations": ["Relu", "Tanh"]}),
    ("RNN", {"bias": False}, {"activations": ["Affine"], "activation_alpha": [0.7], "activation_beta": [0.1]}),
    ("RNN", {"lens": True, "state": True}, {"direction": "reverse"}),
    ("GRU", {}, {}),
    ("GRU", {"directions": 2, "lens": True, "state": True}, {"direction": "bidirectional"}),
    ("GRU", {"state": True}, {"linear_before_reset": 1}),
    ("GRU", {"bias": False}, {"linear_before_reset": 1, "direction": "reverse"}),
    ("GRU", {}, {"clip": 0.2}),
    ("LSTM", {}, {}),
    ("LSTM", {"directions": 2, "lens": True, "state": True}, {"direction": "bidirectional"}),
    ("LSTM", {"state": True, "peepholes": True}, {}),
    ("LSTM", {"bias": False}, {"input_forget": 1}),
    ("LSTM", {"lens": True}, {"direction": "reverse", "clip": 0.3}),
    ("LSTM", {"seq": 1, "batch": 1}, {"activations": ["HardSigmoid", "Softsign", "Tanh"]}),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("op", "shape", "attributes"), CASES)
def test_numbers(op, shape, attributes, dynamic):
    inputs = arrays(op, **shape)
    outputs = 3 if op == "LSTM" else 2
    known = (1, 2, 3) if len(inputs) > 3 and inputs[3] is not None else (1, 2)
    agrees(op, inputs, opset=14, known=known, outputs=outputs, dynamic=dynamic, hidden_size=6, **attributes)


@pytest.mark.parametrize("op", list(GATES))
def test_old_opset(op):
    outputs = 3 if op == "LSTM" else 2
    agrees(op, arrays(op), opset=7, known=(1, 2, 3), outputs=outputs, hidden_size=6)


@pytest.mark.parametrize("op", list(GATES))
def test_weights_of_open_sizes_follow_hidden_size(op):
    outputs = 3 if op == "LSTM" else 2
    inputs = arrays(op, directions=2, state=True, lens=True)
    agrees(op, inputs, opset=14, outputs=outputs, dynamic=True, hidden_size=6, direction="bidirectional")


def test_a_clip_leaves_the_memory():
    inputs = arrays("LSTM", state=True, peepholes=True)
    inputs[6] = inputs[6] * 4
    agrees("LSTM", inputs, opset=14, outputs=3, hidden_size=6, clip=0.4)
