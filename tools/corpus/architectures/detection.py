"""Detectors: transformers with queries, and one with anchors and NonMaxSuppression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tools.corpus.architectures.network import Exporter, Network, hf, subjects
from tools.corpus.feeds import Tensor, full, normal

if TYPE_CHECKING:
    from torch import nn

BATCH = {"batch": (2, 1, 3)}
FREE = {"batch": (2, 1, 3), "height": (64, 64, 96), "width": (96, 64, 64)}
SAME_AREA = {"batch": (2, 1, 3), "height": (64, 64, 96), "width": (96, 96, 64)}
LABELS = {"num_labels": 5}
RESNET = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}
DETR = {
    **LABELS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 7,
}
OWN_BACKBONE = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
FOUND = {"logits": "batch", "pred_boxes": "batch"}


def images(size: int | None = None) -> dict[str, Tensor]:
    """The input of a detector."""
    height, width = ("height", "width") if size is None else (size, size)
    return {"pixel_values": normal("batch", 3, height, width)}


def masked_images() -> dict[str, Tensor]:
    """Images, and which of their pixels are no padding."""
    return {**images(), "pixel_mask": full(1, "batch", "height", "width", dtype="int64")}


def deformable(
    name: str, exporters: tuple[Exporter, ...], sizes: Mapping[str, tuple[int, int, int]], note: str = ""
) -> Network:
    """Deformable DETR, by exporters that let it have these ``sizes``."""
    options = {
        **DETR,
        **OWN_BACKBONE,
        "backbone_config": RESNET,
        "num_feature_levels": 3,
        "encoder_n_points": 2,
        "decoder_n_points": 2,
    }
    made = hf("DeformableDetrForObjectDetection", options)
    return Network(name, made, masked_images(), FOUND, sizes, exporters=exporters, note=note)


def retina(network: Network) -> nn.Module:
    """The detector with NonMaxSuppression."""
    from tools.corpus.architectures.plain_detector import Detector

    return Detector()


NETWORKS = (
    Network(
        "detr",
        hf(
            "DetrForObjectDetection",
            {
                **DETR,
                **OWN_BACKBONE,
                "backbone_config": {**RESNET, "out_features": ["stage4"]},
            },
        ),
        masked_images(),
        FOUND,
        FREE,
    ),
    Network(
        "conditional-detr",
        hf(
            "ConditionalDetrForObjectDetection",
            {
                **DETR,
                **OWN_BACKBONE,
                "backbone_config": {**RESNET, "out_features": ["stage4"]},
            },
        ),
        masked_images(),
        FOUND,
        FREE,
    ),
    deformable("deformable-detr", ("torchscript",), FREE),
    deformable(
        "deformable-detr-of-an-area", ("dynamo",), SAME_AREA, "the exporter keeps the number of places"
    ),
    Network(
        "rt-detr",
        hf(
            "RTDetrForObjectDetection",
            {
                **LABELS,
                "d_model": 32,
                "encoder_hidden_dim": 32,
                "encoder_layers": 1,
                "decoder_layers": 2,
                "decoder_n_points": 2,
                "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64,
                "num_queries": 7,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_in_channels": [16, 24, 32],
                "feat_strides": [8, 16, 32],
                "num_denoising": 0,
                "decoder_in_channels": [32, 32, 32],
                "anchor_image_size": None,
                "disable_custom_kernels": True,
                "backbone_config": {**RESNET, "model_type": "rt_detr_resnet"},
            },
        ),
        images(),
        FOUND,
        FREE,
    ),
    Network(
        "yolos",
        hf(
            "YolosForObjectDetection",
            {
                **LABELS,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 64,
                "image_size": [32, 48],
                "patch_size": 8,
                "num_detection_tokens": 7,
            },
        ),
        images(),
        FOUND,
        FREE,
    ),
    Network(
        "maskformer",
        hf(
            "Mask2FormerForUniversalSegmentation",
            {
                **LABELS,
                "feature_size": 32,
                "mask_feature_size": 32,
                "hidden_dim": 32,
                "encoder_feedforward_dim": 32,
                "encoder_layers": 2,
                "decoder_layers": 3,
                "num_attention_heads": 4,
                "dim_feedforward": 32,
                "num_queries": 7,
                "backbone_config": {
                    "model_type": "swin",
                    "embed_dim": 16,
                    "depths": [1, 1, 1, 1],
                    "num_heads": [2, 2, 2, 2],
                    "window_size": 4,
                    "patch_size": 4,
                    "image_size": 64,
                    "out_features": ["stage1", "stage2", "stage3", "stage4"],
                },
            },
        ),
        images(64),
        {"class_queries_logits": "batch", "masks_queries_logits": "batch"},
        BATCH,
    ),
    Network(
        "retina-nms",
        retina,
        {"image": normal("batch", 3, "height", "width")},
        {"boxes": "found", "scores": "found", "labels": "found", "images": "found"},
        FREE,
    ),
)

SUBJECTS = subjects(NETWORKS)
