"""Exported models as users treat them before they run them: optimized, fused, quantized, halved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType

from tools.corpus.architectures import audio, convnets, decoders, detection, encoders, seq2seq, states, variants, vision
from tools.corpus.architectures.network import Exporter, Network, Variant, treated
from tools.corpus.subject import Subject

OPTIMIZED: Mapping[str, Variant] = {
    "extended": partial(variants.optimized, level="extended"),
    "layout": partial(variants.optimized, level="layout"),
}
"""As onnxruntime runs it: with fused operators, and with convolutions on blocks of channels."""

STATIC: Mapping[str, Variant] = {
    "qdq": variants.static_int8,
    "qoperator": partial(variants.static_int8, form="QOperator", per_channel=False, activations="QUInt8", weights="QUInt8"),
}
DYNAMIC: Mapping[str, Variant] = {"dynamic-int8": variants.dynamic_int8}
HALF: Mapping[str, Variant] = {"half": variants.half}
BLOCKS: Mapping[str, Variant] = {
    "blocks4": variants.blocks,
    "blocks8": partial(variants.blocks, bits=8, symmetric=True, block=32),
}


def fusing(model_type: str) -> Mapping[str, Variant]:
    """For models of a type that onnxruntime's optimizer for transformers knows."""
    return {"fused": partial(variants.fused, model_type=model_type, heads=4, width=32)}


TABLE: tuple[tuple[ModuleType, str, Exporter, Mapping[str, Variant]], ...] = (
    (encoders, "bert", "torchscript", {**OPTIMIZED, **DYNAMIC, **STATIC, **HALF, **fusing("bert")}),
    (encoders, "bert", "dynamo", {**OPTIMIZED, **DYNAMIC, **fusing("bert")}),
    (encoders, "roberta", "torchscript", {**OPTIMIZED, **DYNAMIC, **fusing("bert")}),
    (encoders, "deberta-v2", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (encoders, "distilbert", "torchscript", {**OPTIMIZED, **DYNAMIC, **fusing("bert")}),
    (decoders, "gpt2", "torchscript", {**OPTIMIZED, **DYNAMIC, **HALF, **fusing("gpt2")}),
    (decoders, "llama", "torchscript", {**OPTIMIZED, **DYNAMIC, **BLOCKS, **HALF}),
    (decoders, "llama", "dynamo", {**OPTIMIZED, **BLOCKS}),
    (decoders, "qwen2", "torchscript", {**OPTIMIZED, **BLOCKS}),
    (decoders, "gemma2", "torchscript", {**OPTIMIZED, **BLOCKS}),
    (decoders, "mixtral", "torchscript", {**OPTIMIZED, **BLOCKS}),
    (seq2seq, "t5", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (seq2seq, "bart", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (seq2seq, "whisper", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (vision, "vit", "torchscript", {**OPTIMIZED, **DYNAMIC, **STATIC, **fusing("vit")}),
    (vision, "vit", "dynamo", {**OPTIMIZED, **fusing("vit")}),
    (vision, "swin", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (vision, "clip", "torchscript", {**OPTIMIZED, **DYNAMIC, **fusing("clip")}),
    (vision, "segformer", "torchscript", {**OPTIMIZED, **STATIC}),
    (vision, "mobilevit", "torchscript", OPTIMIZED),
    (audio, "wav2vec2", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (audio, "vits", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (detection, "detr", "torchscript", {**OPTIMIZED, **DYNAMIC}),
    (detection, "yolos", "torchscript", OPTIMIZED),
    (detection, "retina-nms", "torchscript", {**OPTIMIZED, **STATIC}),
    (states, "mamba", "torchscript", OPTIMIZED),
    (convnets, "resnet", "torchscript", {**OPTIMIZED, **STATIC, **HALF}),
    (convnets, "resnet", "dynamo", {**OPTIMIZED, **STATIC}),
    (convnets, "mobilenet-v2", "torchscript", {**OPTIMIZED, **STATIC}),
    # onnxruntime's quantizer writes no valid QOperator form of a network with pads of its own.
    (convnets, "efficientnet", "torchscript", {**OPTIMIZED, "qdq": STATIC["qdq"]}),
    (convnets, "convnext", "torchscript", {**OPTIMIZED, **STATIC}),
    (convnets, "unet-diffusion", "torchscript", {**OPTIMIZED, **HALF}),
    (convnets, "unet-segmentation", "torchscript", {**OPTIMIZED, **STATIC}),
    (convnets, "dense-inception", "torchscript", {**OPTIMIZED, **STATIC}),
)


def _subjects() -> Iterator[Subject]:
    for module, name, exporter, forms in TABLE:
        networks: tuple[Network, ...] = module.NETWORKS
        yield from treated(next(item for item in networks if item.name == name), forms, exporter)


SUBJECTS = tuple(_subjects())
