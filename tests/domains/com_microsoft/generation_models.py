"""Small models around the operators that generate whole texts: decoders of one layer with an attention of onnxruntime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
VOCABULARY, HEADS, SIZE, LAYERS = 11, 2, 3, 2
HIDDEN = HEADS * SIZE


def value(name: str, kind: int, *shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> onnx.NodeProto:
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=f"{op}_{outputs.split()[0]}", domain=domain, **attributes)


def weights(seed: int) -> list[onnx.TensorProto]:
    """The weights of a decoder; large ones, so that the next words differ."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"words": (VOCABULARY, HIDDEN), "places": (40, HIDDEN), "head": (HIDDEN, VOCABULARY)}
    for layer in range(LAYERS):
        shapes |= {f"w{layer}": (HIDDEN, 3 * HIDDEN), f"b{layer}": (3 * HIDDEN,)}
    return [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in shapes.items()]


def gpt(name: str = "decoder", held: bool = True, seed: int = 0) -> onnx.GraphProto:
    """A decoder in the form of GPT-2: past and present keys and values in one tensor; weights of its own where ``held``."""
    nodes = [
        node("Gather", "words input_ids", "word"),
        node("Gather", "places position_ids", "place"),
        node("Add", "word place", "x0"),
    ]
    for layer in range(LAYERS):
        inputs = f"x{layer} w{layer} b{layer} attention_mask past_{layer}"
        outputs = f"a{layer} present_{layer}"
        nodes.append(node("Attention", inputs, outputs, MICROSOFT, num_heads=HEADS, unidirectional=1))
        nodes.append(node("Add", f"x{layer} a{layer}", f"x{layer + 1}"))
    nodes.append(node("MatMul", f"x{LAYERS} head", "logits"))
    pasts = [value(f"past_{k}", T.FLOAT, 2, "batch", HEADS, "past", SIZE) for k in range(LAYERS)]
    inputs = [value("input_ids", T.INT32, "batch", "steps"), value("position_ids", T.INT32, "batch", "steps")]
    inputs += [value("attention_mask", T.INT32, "batch", "total"), *pasts]
    outputs = [value("logits", T.FLOAT, "batch", "steps", VOCABULARY)]
    outputs += [value(f"present_{k}", T.FLOAT, 2, "batch", HEADS, "total", SIZE) for k in range(LAYERS)]
    return helper.make_graph(nodes, name, inputs, outputs, weights(seed) if held else [])


def generation(
    op: str,
    names: str,
    outputs: list[onnx.ValueInfoProto],
    known: dict[str, Any],
    shared: list[onnx.TensorProto] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one such operator: inputs in ``known`` are initializers, others have run-time sizes.

    Ids go through an Identity, so that there is more than one part where the operator is not native.
    """
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    shapes: dict[str, tuple[int, tuple[Any, ...]]] = {
        "input_ids": (T.INT32, ("batch", "sequence")),
        "attention_mask": (T.INT32, ("batch", "sequence")),
        "vocab_mask": (T.INT32, (VOCABULARY,)),
        "prefix_vocab_mask": (T.INT32, ("batch", VOCABULARY)),
        "presence_mask": (T.INT32, ("batch", VOCABULARY)),
        "seed": (T.INT32, (1,)),
        "repetition_penalty": (T.FLOAT, ()),
        "length_penalty": (T.FLOAT, ()),
        "temperature": (T.FLOAT, (1,)),
        "extra_decoding_ids": (T.INT32, ("batch", "more")),
        "decoder_input_ids": (T.INT32, ("batch", "given")),
        "features": (T.FLOAT, ("batch", 4, "frames")),
    }
    given = [name for name in names.split() if name != "_" and name not in known]
    formals = [value(name, *(lambda kind, shape: (kind, *shape))(*shapes.get(name, (T.INT32, ())))) for name in given]
    first = given[0]
    nodes = [
        node("Identity", first, "first"),
        node(op, names.replace(first, "first", 1), " ".join(item.name for item in outputs), MICROSOFT, **attributes),
    ]
    graph = helper.make_graph(nodes, "generation", formals, outputs, [*held, *(shared or [])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _word(ids: str, seen: str, layer: str = "") -> list[onnx.NodeProto]:
    """One layer of T5's form after its self-attention has been given: the cross attention, and the logits."""
    cross = {"num_heads": HEADS}
    return [
        node("Add", "x own", f"y{layer}"),
        node("MatMul", f"y{layer} wq_cross", "query_cross"),
        node("MultiHeadAttention", f"query_cross {seen}", "other", MICROSOFT, **cross),
        node("Add", f"y{layer} other", "z"),
        node("MatMul", "z head", "logits"),
    ]


def _projections(source: str) -> list[onnx.NodeProto]:
    return [node("MatMul", f"{source} w{part}", f"{part}_own") for part in "qkv"]


def _cache(name: str, batch: str, steps: str) -> list[onnx.ValueInfoProto]:
    return [value(name.replace("*", part), T.FLOAT, batch, HEADS, steps, SIZE) for part in ("key", "value")]


def encoder_weights(seed: int, features: int = 0) -> list[onnx.TensorProto]:
    """Weights of both graphs of T5's form."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"words": (VOCABULARY, HIDDEN), "head": (HIDDEN, VOCABULARY)}
    shapes |= {f"w{part}": (HIDDEN, HIDDEN) for part in ("q", "k", "v", "q_cross", "k_cross", "v_cross")}
    if features:
        shapes["frames"] = (features, HIDDEN)
    held = [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in shapes.items()]
    return [*held, numpy_helper.from_array(np.array([0, 0, HEADS, SIZE]), "by_head")]


def encoder(features: int = 0) -> onnx.GraphProto:
    """The encoder of T5's form with the decoder's first word; of Whisper's form where there are ``features``."""
    if features:
        nodes = [node("Transpose", "encoder_input_ids", "rows", perm=[0, 2, 1]), node("MatMul", "rows frames", "hidden")]
    else:
        nodes = [node("Gather", "words encoder_input_ids", "hidden")]
    nodes.append(node("Tanh", "hidden", "encoder_hidden_states"))
    for part, name in (("k", "key"), ("v", "value")):
        nodes += [
            node("MatMul", f"encoder_hidden_states w{part}_cross", f"{name}_flat"),
            node("Reshape", f"{name}_flat by_head", f"{name}_heads"),
            node("Transpose", f"{name}_heads", f"present_{name}_cross_0", perm=[0, 2, 1, 3]),
        ]
    nodes.append(node("Gather", "words decoder_input_ids", "x"))
    nodes += _projections("x")
    outputs = "own present_key_self_0 present_value_self_0"
    nodes.append(node("MultiHeadAttention", "q_own k_own v_own", outputs, MICROSOFT, num_heads=HEADS, unidirectional=1))
    mask = "_ _" if features else "_ encoder_attention_mask"
    nodes += _word("decoder_input_ids", f"present_key_cross_0 present_value_cross_0 {mask}")
    first = value("encoder_input_ids", T.INT32, "batch", "sequence")
    inputs = [first, value("encoder_attention_mask", T.INT32, "batch", "sequence")]
    if features:
        inputs = [value("encoder_input_ids", T.FLOAT, "batch", features, "sequence")]
    inputs.append(value("decoder_input_ids", T.INT32, "batch", "steps"))
    outputs_ = [value("logits", T.FLOAT, "batch", "steps", VOCABULARY)]
    outputs_.append(value("encoder_hidden_states", T.FLOAT, "batch", "sequence", HIDDEN))
    outputs_ += [*_cache("present_*_self_0", "batch", "steps"), *_cache("present_*_cross_0", "batch", "sequence")]
    return helper.make_graph(nodes, "encoder", inputs, outputs_)


def encoder_alone() -> onnx.GraphProto:
    """The encoder of T5's newer form, which gives nothing but keys and values."""
    whole = encoder()
    kept = {"encoder_input_ids", "encoder_attention_mask"}
    wanted = [item for item in whole.output if "cross" in item.name]
    nodes = list(whole.node)[:8]
    return helper.make_graph(nodes, "encoder", [item for item in whole.input if item.name in kept], wanted)


def further_words(masked: bool = True) -> onnx.GraphProto:
    """The decoder of T5's form after the first word; without a mask, of Whisper's form."""
    nodes = [node("Gather", "words input_ids", "x"), *_projections("x")]
    inputs = "q_own k_own v_own _ _ _ past_key_self_0 past_value_self_0"
    outputs = "own present_key_self_0 present_value_self_0"
    nodes.append(node("MultiHeadAttention", inputs, outputs, MICROSOFT, num_heads=HEADS, unidirectional=1))
    mask = "_ encoder_attention_mask" if masked else "_ _"
    nodes += _word("input_ids", f"past_key_cross_0 past_value_cross_0 {mask}")
    formals = [value("input_ids", T.INT32, "beams", 1)]
    if masked:
        formals.append(value("encoder_attention_mask", T.INT32, "beams", "sequence"))
    formals += [*_cache("past_*_self_0", "beams", "past"), *_cache("past_*_cross_0", "beams", "sequence")]
    results = [value("logits", T.FLOAT, "beams", 1, VOCABULARY), *_cache("present_*_self_0", "beams", "total")]
    return helper.make_graph(nodes, "decoder", formals, results)
