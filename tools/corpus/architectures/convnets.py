"""Convolutional networks of `transformers`, and a U-Net in plain PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tools.corpus.architectures.network import Network, hf, subjects
from tools.corpus.feeds import normal

if TYPE_CHECKING:
    from torch import nn

FREE = {"batch": (3, 1, 2), "height": (64, 33, 96), "width": (96, 64, 47)}
LABELS = {"num_labels": 5}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}


def _convolutional(name: str, model: str, config: Mapping[str, Any], outputs: Mapping[str, str] | None = None) -> Network:
    inputs = {"pixel_values": normal("batch", 3, "height", "width")}
    return Network(name, hf(model, {**LABELS, **config}), inputs, outputs or {"logits": "batch"}, FREE)


def unet(network: Network) -> nn.Module:
    """The U-Net of a diffusion model."""
    from tools.corpus.architectures.plain_convnets import UNet

    return UNet()


def segmenter(network: Network) -> nn.Module:
    """The U-Net of medical images."""
    from tools.corpus.architectures.plain_convnets import SegmentationUNet

    return SegmentationUNet()


def shuffling(network: Network) -> nn.Module:
    """Channels shuffled between groups, squeeze and excitation, pixel shuffle."""
    from tools.corpus.architectures.plain_convnets import Upscaler

    return Upscaler()


def dense(network: Network) -> nn.Module:
    """Dense blocks and Inception blocks."""
    from tools.corpus.architectures.plain_convnets import DenseInception

    return DenseInception()


NETWORKS = (
    _convolutional("resnet", "ResNetForImageClassification", {**STAGES, "embedding_size": 8, "layer_type": "bottleneck"}),
    _convolutional("regnet", "RegNetForImageClassification", {**STAGES, "embedding_size": 8, "groups_width": 4}),
    _convolutional("convnext", "ConvNextForImageClassification", STAGES),
    _convolutional("convnextv2", "ConvNextV2ForImageClassification", STAGES),
    _convolutional("mobilenet-v1", "MobileNetV1ForImageClassification", {"depth_multiplier": 0.125, "min_depth": 4}),
    _convolutional("mobilenet-v2", "MobileNetV2ForImageClassification", {"depth_multiplier": 0.2, "depth_divisible_by": 4}),
    _convolutional(
        "efficientnet",
        "EfficientNetForImageClassification",
        {
            "width_coefficient": 0.25,
            "depth_coefficient": 0.3,
            "hidden_dim": 320,
            "in_channels": [32, 16, 24, 40],
            "out_channels": [16, 24, 40, 80],
            "kernel_sizes": [3, 3, 5, 3],
            "strides": [1, 2, 2, 2],
            "num_block_repeats": [1, 2, 2, 1],
            "expand_ratios": [1, 6, 6, 6],
            "depthwise_padding": [],
        },
    ),
    _convolutional(
        "focalnet",
        "FocalNetForImageClassification",
        {
            "embed_dim": 16,
            "hidden_sizes": [16, 32],
            "depths": [1, 1],
            "focal_levels": [2, 2],
            "focal_windows": [3, 3],
            "image_size": 32,
        },
    ),
    Network(
        "unet-diffusion",
        unet,
        {
            "sample": normal("batch", 4, "height", "width"),
            "timestep": normal("batch", mean=500, std=99),
            "context": normal("batch", "sequence", 24),
        },
        {"noise": "batch 4 height width"},
        {"batch": (2, 1, 3), "height": (16, 32, 8), "width": (24, 16, 8), "sequence": (7, 5, 1)},
    ),
    Network(
        "unet-segmentation",
        segmenter,
        {"image": normal("batch", 1, "height", "width")},
        {"classes": "batch 3 height width"},
        {"batch": (2, 1, 3), "height": (48, 35, 64), "width": (64, 50, 41)},
    ),
    Network(
        "upscaler",
        shuffling,
        {"image": normal("batch", 3, "height", "width")},
        {"larger": "batch 3 rows columns"},
        {"batch": (2, 1, 3), "height": (12, 9, 16), "width": (10, 16, 7)},
    ),
    Network("dense-inception", dense, {"image": normal("batch", 3, "height", "width")}, {"scores": "batch"}, FREE),
)

SUBJECTS = subjects(NETWORKS)
