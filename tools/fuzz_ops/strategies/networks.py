"""Recurrent layers, attention, losses, and what else networks are built of."""

from __future__ import annotations

import math

import numpy as np

from tools.fuzz_ops.draw import Draw

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ACTIVATIONS = {"RNN": ("Relu", "Sigmoid", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


def recurrent(d: Draw) -> None:
    """RNN, GRU, LSTM: all directions, layouts, optional inputs and outputs."""
    op = d.version.op
    gates = _GATES[op]
    length, batch, size, hidden = d.size(1, 5), d.size(1, 3), d.size(1, 5), d.size(1, 5)
    direction = d.attribute("direction", "reverse", "bidirectional", "forward")
    count = 2 if direction == "bidirectional" else 1
    layout = d.attribute("layout", 1, 0) or 0
    d.attributes["hidden_size"] = hidden
    d.attribute("clip", 0.5)
    d.attribute("linear_before_reset", 1, 0)
    d.attribute("input_forget", 1, 0)
    if op == "RNN" and d.flag():
        d.attributes["activations"] = [d.choose(_ACTIVATIONS["RNN"]) for _ in range(count)]
    d.tensor("X", (batch, length, size) if layout else (length, batch, size))
    d.tensor("W", (count, gates * hidden, size), low=-1, high=1, known=d.flag())
    d.tensor("R", (count, gates * hidden, hidden), low=-1, high=1, known=d.flag())
    state = (batch, count, hidden) if layout else (count, batch, hidden)
    shapes = {"B": (count, 2 * gates * hidden), "initial_h": state, "initial_c": state, "P": (count, 3 * hidden)}
    for formal in d.version.inputs[3:]:
        if d.flag():
            d.give(formal.name, None)
        elif formal.name == "sequence_lens":
            lengths = d.indices("int32", (batch,), length, negative=False) + 1
            d.give("sequence_lens", lengths)
        else:
            d.tensor(formal.name, shapes[formal.name], low=-1, high=1)
    if d.has_attribute("output_sequence"):
        d.attributes["output_sequence"] = 1
    d.outputs = d.choose(((True, True), (True,), (False, True)) + (((True, True, True),) if op == "LSTM" else ()))


def attention(d: Draw) -> None:
    """Attention: grouped heads, masks, caches, causal; 3-D and 4-D."""
    batch, length, total, size, value_size = d.size(1, 2), d.size(1, 5), d.size(1, 5), d.size(2, 4), d.size(2, 4)
    groups, heads = d.integer(1, 2), d.integer(1, 2)
    packed = d.flag()

    def shape(count: int, steps: int, width: int) -> tuple[int, ...]:
        return (batch, steps, count * width) if packed else (batch, count, steps, width)

    if packed:
        d.attributes["q_num_heads"], d.attributes["kv_num_heads"] = groups * heads, heads
    d.attribute("scale", 0.5)
    d.attribute("is_causal", 1, 0)
    d.attribute("softcap", 2.0)
    d.attribute("qk_matmul_output_mode", 1, 2, 3)
    d.tensor("Q", shape(groups * heads, length, size), low=-2, high=2)
    d.tensor("K", shape(heads, total, size), low=-2, high=2)
    d.tensor("V", shape(heads, total, value_size), low=-2, high=2)
    past = d.size(1, 3) if d.one_in(3) else 0
    if d.flag():
        keys = total + past
        masks = ((length, keys), (1, 1, length, keys), (batch, 1, length, keys), (batch, groups * heads, length, keys))
        d.broadcasts = True
        d.tensor("attn_mask", d.choose(masks), low=-3, high=3)
    else:
        d.give("attn_mask", None)
    if past:
        d.tensor("past_key", (batch, heads, past, size), low=-2, high=2)
        d.tensor("past_value", (batch, heads, past, value_size), low=-2, high=2)
    mode = "qk_matmul_output_mode" in d.attributes
    d.outputs = (True, True, True, mode) if past else (True, False, False, True) if mode else (True,)


def rotary(d: Draw) -> None:
    """RotaryEmbedding: whole and partial, interleaved, with and without positions."""
    batch, heads, length, half = d.size(1, 2), d.size(1, 3), d.size(1, 5), d.integer(1, 4)
    partial = d.integer(1, half) if d.flag() else half
    packed = d.flag()
    if packed or partial != half:
        d.attributes["num_heads"] = heads
    if partial != half:
        d.attributes["rotary_embedding_dim"] = 2 * partial
    d.attribute("interleaved", 1, 0)
    d.tensor("X", (batch, length, heads * 2 * half) if packed else (batch, heads, length, 2 * half))
    if d.flag():
        count = length + d.integer(0, 3)
        for name in ("cos_cache", "sin_cache"):
            d.tensor(name, (count, partial), low=-1, high=1)
        d.give("position_ids", d.indices("int64", (batch, length), count, negative=False))
    else:
        for name in ("cos_cache", "sin_cache"):
            d.tensor(name, (batch, length, partial), low=-1, high=1)


def loss(d: Draw) -> None:
    """NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: weights, an ignored class, all reductions."""
    batch, classes = d.size(1, 4), d.size(1, 5)
    rest = d.shape(0, 2, smallest=1)
    first, labels = (formal.name for formal in d.version.inputs[:2])
    d.attribute("reduction", "none", "sum", "mean")
    ignored = d.attribute("ignore_index", 0, -1, classes - 1)
    d.tensor(first, (batch, classes, *rest), low=-4, high=4)
    target = d.indices(d.dtype("Tind"), (batch, *rest), classes, negative=False)
    if ignored == -1:
        target = np.where(d.indices("int64", target.shape, 3, negative=False) == 0, -1, target).astype(target.dtype)
    d.give(labels, target)
    if d.flag():
        d.tensor(d.version.inputs[2].name, (classes,), low=0.5, high=2)
    if len(d.version.outputs) > 1 and d.flag():
        d.outputs = (True, True)


def signal_window(d: Draw) -> None:
    """BlackmanWindow, HammingWindow, HannWindow."""
    import onnx

    d.attribute("periodic", 0, 1)
    if d.flag():
        d.attributes["output_datatype"] = onnx.TensorProto.DataType.Value(d.choose(("DOUBLE", "FLOAT", "FLOAT16")))
    d.parameter("size", d.integer(2, 17))


def causal_conv(d: Draw) -> None:
    """CausalConvWithState: with and without bias and state."""
    batch, channels, length, kernel = d.size(1, 3), d.size(1, 5), d.size(1, 7), d.size(1, 4)
    d.attribute("activation", "silu", "swish", "none")
    d.tensor("input", (batch, channels, length))
    d.tensor("weight", (channels, 1, kernel), known=d.flag())
    for name, shape in (("bias", (channels,)), ("past_state", (batch, channels, kernel - 1))):
        if d.flag():
            d.tensor(name, shape)
        else:
            d.give(name, None)
    d.outputs = (True, True)


def linear_attention(d: Draw) -> None:
    """LinearAttention: all update rules, with and without state."""
    batch, length, heads, groups = d.size(1, 2), d.size(1, 4), d.integer(1, 2), d.integer(1, 2)
    size, value_size = d.size(1, 4), d.size(1, 4)
    rule = d.attribute("update_rule", "linear", "gated", "delta", "gated_delta") or "gated_delta"
    d.attributes["q_num_heads"], d.attributes["kv_num_heads"] = heads * groups, heads
    d.attribute("scale", 0.5)
    d.tensor("query", (batch, length, heads * groups * size), low=-1, high=1)
    d.tensor("key", (batch, length, heads * size), low=-0.5, high=0.5)
    d.tensor("value", (batch, length, heads * value_size), low=-1, high=1)
    if d.flag():
        d.tensor("past_state", (batch, heads, size, value_size), low=-1, high=1)
    else:
        d.give("past_state", None)
    if rule in ("gated", "gated_delta"):
        d.tensor("decay", (batch, length, heads * (size if d.flag() else 1)), low=-1, high=0)
    else:
        d.give("decay", None)
    if "delta" in rule:
        d.tensor("beta", (batch, length, d.choose((heads, 1))), low=0, high=1)
    d.outputs = (True, True)


def constant(d: Draw) -> None:
    """Constant: a tensor, or since 12 numbers."""
    import onnx

    ways = ["value"] + (["value_int", "value_ints", "value_float", "value_floats"] if d.version.since_version >= 12 else [])
    way = d.choose(ways)
    if way == "value":
        output = d.version.outputs[0].type
        d.attributes["value"] = onnx.numpy_helper.from_array(d.array(d.dtype(output), d.shape()), "value")
    else:
        number = 3 if "int" in way else 0.5
        d.attributes[way] = [number] * d.integer(1, 3) if way.endswith("s") else number


def resize(d: Draw) -> None:
    """Resize and Upsample: scales or sizes, over all axes or some, in every mode."""
    since, op = d.version.since_version, d.version.op
    shape = list(d.shape(1, 4, smallest=1)) if op == "Resize" else list(d.shape(4, 4, smallest=1))
    mode = d.attribute("mode", "linear", "nearest", *(["cubic"] if since >= 11 else []))
    if mode == "cubic" or (mode == "linear" and since < 13):
        shape = [d.size(1, 2), d.size(1, 2), d.size(2, 6), d.size(2, 6)]
    axes = list(range(len(shape)))
    resized = axes[-2:] if mode in ("linear", "cubic") or d.flag() else axes
    scales = [d.choose((2.0, 1.0, 0.5, 1.5, 3.0, 0.7)) if axis in resized else 1.0 for axis in axes]
    if op == "Upsample" or since < 11:
        scales = [max(1.0, math.ceil(scale)) for scale in scales] if mode != "linear" else [max(1.0, scale) for scale in scales]
    transformations = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    transformation = d.attribute("coordinate_transformation_mode", *transformations)
    if transformation is not None and mode == "nearest":
        d.attribute("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        d.attribute("cubic_coeff_a", -0.5)
        d.attribute("exclude_outside", 1, 0)
    if mode in ("linear", "cubic"):
        d.attribute("antialias", 1, 0)
    if since >= 18 and resized != axes and d.flag():
        d.attributes["axes"] = resized
        scales, axes = scales[-2:], resized
    d.tensor(d.version.inputs[0].name, shape, low=-4, high=4)
    if op == "Upsample" and since < 9:
        if since == 7:
            d.attributes["scales"] = scales
        else:
            d.attributes["height_scale"], d.attributes["width_scale"] = scales[-2:]
        return
    if d.has_input("roi"):
        d.give("roi", None if since >= 13 else np.zeros(0, np.float32), known=True, static=True)
    if d.has_input("sizes") and d.flag():
        d.give("scales", None if since >= 13 else np.zeros(0, np.float32), known=True, static=True)
        d.parameter("sizes", [max(1, int(shape[axis] * scale)) for axis, scale in zip(axes, scales, strict=True)])
        if len(scales) == 2 and "axes" in d.attributes:
            d.attribute("keep_aspect_ratio_policy", "not_larger", "not_smaller", "stretch")
    else:
        d.parameter("scales", scales)


STRATEGIES = {
    "RNN": recurrent,
    "GRU": recurrent,
    "LSTM": recurrent,
    "Attention": attention,
    "RotaryEmbedding": rotary,
    "NegativeLogLikelihoodLoss": loss,
    "SoftmaxCrossEntropyLoss": loss,
    "BlackmanWindow": signal_window,
    "HammingWindow": signal_window,
    "HannWindow": signal_window,
    "CausalConvWithState": causal_conv,
    "LinearAttention": linear_attention,
    "Constant": constant,
    "Resize": resize,
    "Upsample": resize,
}
