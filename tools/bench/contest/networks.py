"""The workloads: single operators, images, text, recurrent, quantized, trees."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.bench.contest.workload import Workload
from tools.corpus.architectures.network import Network, hf
from tools.corpus.feeds import Sizes, Tensor, mask, normal, tokens

if TYPE_CHECKING:
    import onnx
    from torch import nn

WORDS = 30522
PIXELS = {"batch": 1, "height": 224, "width": 224}


def _torch(
    name: str,
    build: Callable[[Any, Any], nn.Module],
    inputs: Mapping[str, Tensor],
    example: Mapping[str, int] | None = None,
    **sizes: int,
) -> Workload:
    """A workload of modules that ``build(torch.nn, blocks)`` gives."""

    def built(network: Network) -> nn.Module:
        from torch import nn

        from tools.bench.contest import blocks

        return build(nn, blocks)

    ranks = " ".join(["size"] * max(len(feed.shape) for feed in inputs.values()))
    return Workload(name, inputs, sizes, {"y": ranks}, built, example=example)


def matmul(size: int) -> Workload:
    """The product of two square activations."""
    inputs = {"a": normal("rows", "inner"), "b": normal("inner", "columns")}
    example = {"rows": 64, "inner": 96, "columns": 80}
    return _torch(f"matmul-{size}", lambda nn, own: own.MatMul(), inputs, example, rows=size, inner=size, columns=size)


def linear(rows: int, width: int, out: int) -> Workload:
    """Rows by a weight."""
    name = f"linear-{rows}x{width}x{out}"
    return _torch(name, lambda nn, own: nn.Linear(width, out), {"x": normal("rows", width)}, rows=rows)


def convolution(channels: int, out: int, kernel: int, size: int, batch: int = 1) -> Workload:
    """One convolution that keeps the size of images."""
    many = f"{batch}x" if batch != 1 else ""
    return _torch(
        f"conv{kernel}x{kernel}-{many}{channels}-{out}-{size}",
        lambda nn, own: nn.Conv2d(channels, out, kernel, padding=kernel // 2),
        {"x": normal("batch", channels, "height", "width")},
        batch=batch,
        height=size,
        width=size,
    )


def softmax(size: int) -> Workload:
    """Softmax of rows."""
    return _torch(f"softmax-{size}", lambda nn, own: nn.Softmax(-1), {"x": normal("rows", "columns")}, rows=size, columns=size)


def layer_norm(rows: int, width: int) -> Workload:
    """Layer normalization of rows."""
    return _torch(f"layernorm-{rows}x{width}", lambda nn, own: nn.LayerNorm(width), {"x": normal("rows", width)}, rows=rows)


def gelu(size: int) -> Workload:
    """GELU of a vector."""
    return _torch(f"gelu-{size}", lambda nn, own: nn.GELU(), {"x": normal("size")}, size=size)


def _recurrent(cell: str) -> Workload:
    inputs = {"x": normal("batch", "time", 256)}

    def build(network: Network) -> nn.Module:
        from torch import nn

        from tools.bench.contest.blocks import Recurrent

        return Recurrent(getattr(nn, cell)(256, 512, num_layers=2, batch_first=True))

    sizes = {"batch": 1, "time": 64}
    return Workload(cell.lower(), inputs, sizes, {"y": "batch time 512"}, build, exporter="torchscript")


def _images(name: str, build: str, *arguments: Any, tolerance: float = 1e-3, **more: Any) -> Workload:
    def built(network: Network) -> nn.Module:
        from tools.bench.contest import convnets

        module: nn.Module = getattr(convnets, build)(*arguments)
        return module

    inputs = {"x": normal("batch", 3, "height", "width")}
    return Workload(name, inputs, PIXELS, {"scores": "batch 1000"}, built, tolerance=tolerance, **more)


def _unet(network: Network) -> nn.Module:
    from tools.corpus.architectures.plain_convnets import SegmentationUNet

    return SegmentationUNet(width=32, classes=8)


def _vit() -> Workload:
    inputs = {"pixel_values": normal("batch", 3, 224, 224)}
    return Workload("vit-b", inputs, {"batch": 1}, {"last_hidden_state": "batch 197 768"}, hf("ViTModel", {}))


def _whisper() -> Workload:
    config = {
        "d_model": 512,
        "encoder_layers": 6,
        "encoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "num_mel_bins": 80,
        "max_source_positions": 1500,
    }

    def build(network: Network) -> nn.Module:
        import transformers

        from tools.corpus.architectures.called import Called

        encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(transformers.WhisperConfig(**config))
        return Called(encoder, ("input_features",), ("last_hidden_state",))

    inputs = {"input_features": normal("batch", 80, 3000)}
    outputs = {"last_hidden_state": "batch 1500 512"}
    return Workload("whisper-encoder", inputs, {"batch": 1}, outputs, build, definition=repr(config))


def _bert(name: str, layers: int, **more: Any) -> Workload:
    config = {"num_hidden_layers": layers, "vocab_size": WORDS}
    inputs = {"input_ids": tokens("batch", "sequence", below=WORDS), "attention_mask": mask("batch", "sequence")}
    sizes, outputs = {"batch": 1, "sequence": 128}, {"last_hidden_state": "batch sequence 768"}
    return Workload(name, inputs, sizes, outputs, hf("BertModel", config), definition=repr(config), **more)


def _gpt2(name: str, past: int, sequence: int) -> Workload:
    inputs: dict[str, Tensor] = {"input_ids": tokens("batch", "sequence", below=50257)}
    outputs = {"logits": "batch sequence 50257"}
    for layer in range(12):
        for kind in ("key", "value"):
            if past:
                inputs[f"past_key_values.{layer}.{kind}"] = normal("batch", 12, "past", 64)
            outputs[f"present.{layer}.{kind}"] = "batch 12 total 64"
    return Workload(name, inputs, _text(past, sequence), outputs, hf("GPT2LMHeadModel", {}), example={"sequence": 7})


def _llama(name: str, past: int, sequence: int, **more: Any) -> Workload:
    def build(network: Network) -> nn.Module:
        from tools.bench.contest.blocks import LlamaBlock

        return LlamaBlock()

    inputs = {"x": normal("batch", "sequence", 1024)}
    outputs = {"y": "batch sequence 1024"}
    for kind in ("key", "value"):
        if past:
            inputs[f"past_{kind}"] = normal("batch", 4, "past", 64)
        outputs[f"present_{kind}"] = "batch 4 total 64"
    return Workload(name, inputs, _text(past, sequence), outputs, build, example={"sequence": 7}, **more)


def _text(past: int, sequence: int) -> Sizes:
    return {"batch": 1, "sequence": sequence, **({"past": past} if past else {})}


def _int8_of_7_bits(path: Path, network: Network) -> Path:
    from tools.corpus.architectures.variants import static_int8

    return static_int8(path, network, reduce_range=True)


def _blocks(path: Path, network: Network) -> Path:
    from tools.corpus.architectures.variants import blocks

    return blocks(path, network, block=32, symmetric=True)


def _matmul_nbits(rows: int, width: int, out: int) -> Workload:
    def build(network: Network) -> nn.Module:
        from torch import nn

        return nn.Linear(width, out, bias=False)

    # Of rank 3, so that it is exported as MatMul; the quantizer passes over Gemm.
    inputs, outputs = {"x": normal("batch", "rows", width)}, {"y": f"batch rows {out}"}
    return Workload(f"matmulnbits-{rows}x{width}x{out}", inputs, {"batch": 1, "rows": rows}, outputs, build, _blocks)


def _forest(rows: int) -> Workload:
    def model(sizes: Sizes, dynamic: bool) -> onnx.ModelProto:
        from tools.bench import forests

        made = forests.forest(forests.even, 0, argparse.Namespace(trees=200, depth=10, nodes=1000, features=30))
        if not dynamic:
            made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = sizes["rows"]
            made.graph.output[0].type.tensor_type.shape.dim[0].dim_value = sizes["rows"]
        return made

    return Workload(f"forest-{rows}", {"x": normal("rows", 30)}, {"rows": rows}, {"scores": "rows"}, model=model)


NOTHING = _torch("relu-1", lambda nn, own: nn.ReLU(), {"x": normal("size")}, size=1)
"""What the least model takes."""

WORKLOADS: tuple[Workload, ...] = (
    matmul(512),
    linear(1, 4096, 4096),
    linear(128, 768, 3072),
    convolution(64, 64, 3, 56),
    convolution(256, 256, 3, 14),
    convolution(256, 64, 1, 56),
    softmax(512),
    layer_norm(512, 768),
    gelu(1 << 20),
    _images("resnet-18", "resnet", (2, 2, 2, 2), False),
    _images("resnet-50", "resnet", (3, 4, 6, 3), True),
    _images("mobilenet-v3", "mobilenet_v3"),
    _images("efficientnet-b0", "efficientnet_b0"),
    _images("convnext-tiny", "convnext_tiny"),
    _images("densenet-121", "densenet_121"),
    Workload(
        "unet",
        {"image": normal("batch", 1, "height", "width")},
        {"batch": 1, "height": 256, "width": 256},
        {"classes": "batch 8 height width"},
        _unet,
    ),
    _bert("bert-base", 12),
    _bert("bert-4", 4),
    _gpt2("gpt2-prefill", 0, 128),
    _gpt2("gpt2-decode", 128, 1),
    _llama("llama-prefill", 0, 64),
    _llama("llama-decode", 128, 1),
    _vit(),
    _whisper(),
    _recurrent("LSTM"),
    _recurrent("GRU"),
    _images("resnet-18-int8", "resnet", (2, 2, 2, 2), False, variant=_int8_of_7_bits, tolerance=0.1),
    # Of random weights: onnxruntime's own results, optimized or not, of known sizes or open ones, are up to 0.15 apart.
    _bert("bert-base-int8", 12, variant=_int8_of_7_bits, tolerance=0.15),
    _matmul_nbits(1, 4096, 4096),
    _llama("llama-decode-int4", 128, 1, variant=_blocks, tolerance=0.02),
    _forest(1),
    _forest(10000),
)

PRIMES: tuple[tuple[Workload, Workload], ...] = (
    (matmul(509), matmul(512)),
    (linear(1, 4093, 4099), linear(1, 4096, 4096)),
    (linear(127, 769, 3067), linear(128, 768, 3072)),
    (convolution(64, 64, 3, 57), convolution(64, 64, 3, 56)),
    (convolution(61, 67, 3, 53), convolution(64, 64, 3, 56)),
    (convolution(256, 256, 3, 13), convolution(256, 256, 3, 14)),
    (convolution(257, 67, 1, 57), convolution(256, 64, 1, 56)),
    (softmax(509), softmax(512)),
    (layer_norm(509, 769), layer_norm(512, 768)),
    (gelu(1048573), gelu(1 << 20)),
)
"""Sizes without divisors, beside those of about the same size with many."""
