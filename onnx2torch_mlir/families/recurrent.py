"""RNN, GRU and LSTM: one loop over time (``scan``), one cell function per operator.

Source: https://onnx.ai/onnx/operators/onnx__LSTM.html and its neighbours. The products of the input with the weights are
taken for all steps at once, before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import scan
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.recurrent_activations import Activation, activations_of

DIRECTIONS = {"forward": (False,), "foward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs backwards; the misspelt name is the default that the standard gives GRU-1."""


Product = Callable[[ProgramBuilder, Value, Value], Value]
"""``product(g, x, weights)``: rows times weights [K, G*H]."""


@dataclass(frozen=True)
class Cell:
    """What a cell function needs beside the states: recurrent weights [H, G*H], biases, peepholes, activations."""

    hidden: int
    recurrent: Value
    recurrent_bias: Value | None
    peepholes: tuple[Value, ...]
    functions: tuple[Activation, ...]
    clip: float | None
    flag: bool
    product: Product

    def activate(self, g: ProgramBuilder, index: int, x: Value) -> Value:
        """Activation ``index`` of ``x``, clipped before."""
        if self.clip is not None:
            x = g.call("aten.clamp.default", x, -self.clip, self.clip)
        return self.functions[index](g, x)

    def gates(self, g: ProgramBuilder, x: Value, count: int) -> list[Value]:
        """``x`` [B, count*H] cut into its gates."""
        return [g.slice(x, 1, i * self.hidden, (i + 1) * self.hidden) for i in range(count)]


Step = Callable[[ProgramBuilder, Cell, Value, list[Value]], list[Value]]
"""``step(g, cell, x, states)``: ``x`` is the step's input times the weights, [B, G*H]; gives the new states, H first."""


def rnn_step(g: ProgramBuilder, cell: Cell, x: Value, states: list[Value]) -> list[Value]:
    """Ht = f(Xt*W + Ht-1*R + b)."""
    (gate,) = _recurrent_gates(g, cell, states[0], range(1))
    return [cell.activate(g, 0, g.add(x, gate))]


def gru_step(g: ProgramBuilder, cell: Cell, x: Value, states: list[Value]) -> list[Value]:
    """Gates z, r, h; ``cell.flag`` is linear_before_reset."""
    (hidden,) = states
    xz, xr, xh = cell.gates(g, x, 3)
    rz, rr, *rest = _recurrent_gates(g, cell, hidden, range(3 if cell.flag else 2))
    update = cell.activate(g, 0, g.add(xz, rz))
    reset = cell.activate(g, 0, g.add(xr, rr))
    if cell.flag:
        gated = g.mul(reset, rest[0])
    else:
        (gated,) = _recurrent_gates(g, cell, g.mul(reset, hidden), range(2, 3))
    candidate = cell.activate(g, 1, g.add(xh, gated))
    return [g.add(g.mul(g.sub(1.0, update), candidate), g.mul(update, hidden))]


def lstm_step(g: ProgramBuilder, cell: Cell, x: Value, states: list[Value]) -> list[Value]:
    """Gates i, o, f, c; ``cell.flag`` is input_forget."""
    hidden, memory = states
    by_hidden = _recurrent_gates(g, cell, hidden, range(4))
    i, o, f, c = (g.add(one, other) for one, other in zip(cell.gates(g, x, 4), by_hidden, strict=True))
    if cell.peepholes:
        i = g.add(i, g.mul(cell.peepholes[0], memory))
        f = g.add(f, g.mul(cell.peepholes[2], memory))
    i = cell.activate(g, 0, i)
    f = g.sub(1.0, i) if cell.flag else cell.activate(g, 0, f)
    memory = g.add(g.mul(f, memory), g.mul(i, cell.activate(g, 1, c)))
    if cell.peepholes:
        o = g.add(o, g.mul(cell.peepholes[1], memory))
    o = cell.activate(g, 0, o)
    # The clip is for the gates: onnxruntime does not clip the memory before its activation.
    return [g.mul(o, cell.functions[2](g, memory)), memory]


def _recurrent_gates(g: ProgramBuilder, cell: Cell, state: Value, gates: range) -> list[Value]:
    """The ``gates`` of a state's product with their recurrent weights, [B, H] each.

    They are cut before anything is added: nests of one gate's width then read the product, and may follow it part by part
    (`onnx2torch_mlir.engine.compiler.column_parts`).
    """
    size, weights, bias = cell.hidden, cell.recurrent, cell.recurrent_bias
    low, high = gates.start * size, gates.stop * size
    if high - low != weights.shape[1]:
        weights = g.slice(weights, 1, low, high)
    found = cell.gates(g, cell.product(g, state, weights), len(gates))
    if bias is None:
        return found
    return [g.add(gate, g.slice(bias, 0, i * size, (i + 1) * size)) for i, gate in zip(gates, found, strict=True)]


@dataclass(frozen=True)
class Layer:
    """One recurrent operator: its step, number of gates and states, and default activations."""

    step: Step
    gates: int
    states: int
    defaults: tuple[str, ...]
    joins_biases: bool
    """Whether both biases are only ever added to the gates, so that all steps' inputs may have them before the loop."""


RNN = Layer(rnn_step, 1, 1, ("Tanh",), joins_biases=True)
GRU = Layer(gru_step, 3, 1, ("Sigmoid", "Tanh"), joins_biases=False)
LSTM = Layer(lstm_step, 4, 2, ("Sigmoid", "Tanh", "Tanh"), joins_biases=True)


class RecurrentAttributes(TypedDict, total=False):
    """The attributes that RNN, GRU and LSTM share, but for ``layout``."""

    activations: Sequence[str] | None
    activation_alpha: Sequence[float] | None
    activation_beta: Sequence[float] | None
    clip: float | None
    direction: str
    hidden_size: int | None


@dataclass(frozen=True)
class Wrapper:
    """What a layer sees beside its input: ``look`` gives [B, N] of the newest hidden state [B, H], and its product with
    ``weights`` [N, G*H] is added to the next step's input. There is nothing to see before the first step.
    """

    weights: Value
    look: Callable[[ProgramBuilder, Value], Value]

    def around(self, layer: Layer) -> Layer:
        """``layer`` with what was seen as its last state."""

        def step(g: ProgramBuilder, cell: Cell, x: Value, states: list[Value]) -> list[Value]:
            *own, seen = states
            new = layer.step(g, cell, g.add(x, g.matmul(seen, self.weights)), own)
            return [*new, self.look(g, new[0])]

        return replace(layer, step=step, states=layer.states + 1)


def recurrent(
    g: ProgramBuilder,
    layer: Layer,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    sequence_lens: Value | None,
    initial: Sequence[Value | None],
    peepholes: Value | None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    flag: bool = False,
    layout: int = 0,
    products: Sequence[tuple[Product, Product]] | None = None,
    wrappers: Sequence[Wrapper] | None = None,
) -> tuple[Value, ...]:
    """Y [S, D, B, H] and the last states [D, B, H]; batch-first where ``layout`` is 1.

    ``products`` are those of the input and of the hidden state with their weights, for each direction, where they are not
    plain products of matrices (LSTM only); ``wrappers`` are those of each direction.

    Raises:
        Refusal: O2M-C003 for a direction or activation that ONNX does not have, O2M-C006 for weights that do not fit.
    """
    if direction not in DIRECTIONS:
        raise refuse("O2M-C005", f"there is no direction {direction!r}", case="direction")
    if layout:
        x = g.permute(x, [1, 0, 2])
        initial = [None if item is None else g.permute(item, [1, 0, 2]) for item in initial]
    flips = DIRECTIONS[direction]
    hidden = r.shape[2]
    if not isinstance(hidden, int):
        if hidden_size is None:
            hint = "give the attribute hidden_size, or the weights a declared shape"
            raise refuse("O2M-C004", "the hidden size is only known at run time", case="R", hint=hint)
        g.require_equal(hidden, hidden_size, "the hidden size of the weights is hidden_size")
        hidden = hidden_size
    # Sizes that a model leaves open follow from the hidden size.
    w = _shaped(g, w, [len(flips), layer.gates * hidden, w.shape[2]])
    r = _shaped(g, r, [len(flips), layer.gates * hidden, hidden])
    b = None if b is None else _shaped(g, b, [len(flips), 2 * layer.gates * hidden])
    initial = [None if item is None else _shaped(g, item, [len(flips), x.shape[1], hidden]) for item in initial]
    if hidden_size is not None and hidden_size != hidden:
        raise refuse("O2M-C006", f"hidden_size is {hidden_size}, the weights have {hidden}", case="hidden_size")
    functions = activations_of(layer.defaults, len(flips), activations, activation_alpha, activation_beta)
    length, batch = x.shape[0], x.shape[1]
    outputs, finals = [], []
    for index, reverse in enumerate(flips):
        states = [g.full([batch, hidden], 0, x.dtype) if item is None else g.select(item, 0, index) for item in initial]
        around = layer
        if wrappers:
            around = wrappers[index].around(layer)
            states.append(g.full([batch, wrappers[index].weights.shape[0]], 0, x.dtype))
        by_input, by_hidden = products[index] if products else (ProgramBuilder.matmul, ProgramBuilder.matmul)
        width = layer.gates * hidden
        bias, recurrent_bias = (None, None) if b is None else _biases(g, layer, g.select(b, 0, index), width)
        inner = Cell(
            hidden,
            g.permute(g.select(r, 0, index), [1, 0]),
            recurrent_bias,
            ()
            if peepholes is None
            else tuple(g.slice(g.select(peepholes, 0, index), 0, k * hidden, (k + 1) * hidden) for k in range(3)),
            functions[index],
            clip,
            flag,
            by_hidden,
        )
        steps = g.call("aten.flip.default", x, [0]) if reverse else x
        steps = by_input(g, steps, g.permute(g.select(w, 0, index), [1, 0]))
        if bias is not None:
            steps = g.add(steps, bias)
        sequences = [steps]
        if sequence_lens is not None:
            sequences.append(_inside(g, sequence_lens, length, reverse))
        carried, stacked = scan(g, partial(_step, around, inner), states, sequences, length)
        result = stacked[0]
        outputs.append(g.call("aten.flip.default", result, [0]) if reverse else result)
        finals.append(carried)
    y = g.cat([g.unsqueeze(item, 1) for item in outputs], 1)
    last = [g.cat([g.unsqueeze(item[k], 0) for item in finals], 0) for k in range(layer.states)]
    if layout:
        y = g.permute(y, [2, 0, 1, 3])
        last = [g.permute(item, [1, 0, 2]) for item in last]
    return (y, *last)


def _biases(g: ProgramBuilder, layer: Layer, both: Value, width: int) -> tuple[Value, Value | None]:
    """What is added to the products of the input and of the hidden state with their weights, each [G*H]."""
    by_input, by_hidden = g.slice(both, 0, 0, width), g.slice(both, 0, width, 2 * width)
    return (g.add(by_input, by_hidden), None) if layer.joins_biases else (by_input, by_hidden)


def _shaped(g: ProgramBuilder, value: Value, shape: Sequence[Dim]) -> Value:
    """``value`` with the sizes that the others imply, which are checked now or when the program runs."""
    if value.rank == len(shape):
        for have, want in zip(value.shape, shape, strict=True):
            g.require_equal(have, want, "sizes of a recurrent layer's inputs have to fit each other")
    return value if tuple(value.shape) == tuple(shape) else g.reshape(value, shape)


def _inside(g: ProgramBuilder, sequence_lens: Value, length: object, reverse: bool) -> Value:
    """[S, B, 1]: whether a step lies inside its sequence."""
    steps = g.arange(0, length)
    if reverse:
        steps = g.call("aten.flip.default", steps, [0])
    lens = g.cast(sequence_lens, steps.dtype)
    return g.unsqueeze(g.binary("lt", g.unsqueeze(steps, 1), g.unsqueeze(lens, 0)), 2)


def _step(layer: Layer, cell: Cell, g: ProgramBuilder, values: list[Value]) -> list[Value]:
    states, (x, *masks) = values[: layer.states], values[layer.states :]
    new = layer.step(g, cell, x, states)
    output = new[0]
    if masks:
        new = [g.where(masks[0], after, before) for after, before in zip(new, states, strict=True)]
        output = g.where(masks[0], output, 0.0)
    return [*new, output]
