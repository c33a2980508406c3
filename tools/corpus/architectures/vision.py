"""Transformers on images, and on images with text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.corpus.architectures.network import EXPORTERS, Exporter, Network, hf, subjects
from tools.corpus.feeds import Tensor, mask, normal, tokens

WORDS = 99
BATCH = {"batch": (3, 1, 4)}
FREE = {"batch": (3, 1, 2), "height": (64, 32, 96), "width": (96, 64, 32)}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
PATCHES = {**SMALL, "image_size": 32, "patch_size": 8}
LABELS = {"num_labels": 5}


def images(size: int | None = 32, channels: int = 3) -> Tensor:
    """Images of a fixed size, or of any."""
    height, width = ("height", "width") if size is None else (size, size)
    return normal("batch", channels, height, width)


def _vision(
    name: str,
    model: str,
    config: Mapping[str, Any],
    *,
    size: int | None = 32,
    outputs: Mapping[str, str] | None = None,
    exporters: tuple[Exporter, ...] = EXPORTERS,
    **options: Any,
) -> Network:
    sizes = FREE if size is None else BATCH
    return Network(
        name, hf(model, config, **options), {"pixel_values": images(size)}, outputs or {"logits": "batch"}, sizes, exporters
    )


PYRAMID = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2, "image_size": 32}
CLIP = {
    "text_config": {**SMALL, "vocab_size": WORDS, "max_position_embeddings": 40, "eos_token_id": 2, "bos_token_id": 1},
    "vision_config": PATCHES,
    "projection_dim": 24,
}
PAIR = {
    "input_ids": tokens("text", "sequence", above=3, below=WORDS),
    "pixel_values": images(),
    "attention_mask": mask("text", "sequence"),
}
PAIR_SIZES = {"text": (3, 1, 4), "sequence": (9, 6, 17), "batch": (2, 1, 3)}

NETWORKS = (
    _vision("vit", "ViTForImageClassification", {**PATCHES, **LABELS}),
    _vision(
        "vit-resized",
        "ViTModel",
        PATCHES,
        size=None,
        outputs={"last_hidden_state": "batch patches"},
        interpolate_pos_encoding=True,
    ),
    _vision("deit", "DeiTForImageClassificationWithTeacher", {**PATCHES, **LABELS}),
    _vision(
        "beit", "BeitForImageClassification", {**PATCHES, **LABELS, "use_relative_position_bias": True, "use_mask_token": False}
    ),
    _vision("dinov2", "Dinov2Model", {**PATCHES, "patch_size": 8}, outputs={"last_hidden_state": "batch"}),
    _vision("swin", "SwinForImageClassification", {**PYRAMID, **LABELS}),
    _vision("swin-resized", "SwinModel", PYRAMID, size=None, outputs={"last_hidden_state": "batch patches"}),
    _vision("swinv2", "Swinv2ForImageClassification", {**PYRAMID, **LABELS}),
    _vision(
        "segformer",
        "SegformerForSemanticSegmentation",
        {
            **LABELS,
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [4, 2],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 24,
        },
        size=None,
        outputs={"logits": "batch 5 rows columns"},
    ),
    _vision(
        "mobilevit",
        "MobileViTForImageClassification",
        {
            **LABELS,
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 12, 16, 16, 24, 32],
            "num_attention_heads": 4,
            "expand_ratio": 2.0,
        },
        size=64,
    ),
    _vision(
        "poolformer",
        "PoolFormerForImageClassification",
        {
            **LABELS,
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 32],
        },
        size=None,
    ),
    _vision(
        "dpt",
        "DPTForSemanticSegmentation",
        {
            **PATCHES,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
            "is_hybrid": False,
            "reassemble_factors": [4, 2, 1, 0.5],
        },
        outputs={"logits": "batch 150"},
    ),
    Network(
        "clip",
        hf("CLIPModel", CLIP),
        PAIR,
        {"logits_per_image": "batch text", "text_embeds": "text", "image_embeds": "batch"},
        PAIR_SIZES,
    ),
    Network(
        "siglip",
        hf(
            "SiglipModel",
            {"text_config": {**SMALL, "vocab_size": WORDS, "max_position_embeddings": 40}, "vision_config": PATCHES},
        ),
        PAIR,
        {"logits_per_image": "batch text", "text_embeds": "text", "image_embeds": "batch"},
        PAIR_SIZES,
    ),
    Network(
        "clipseg",
        hf(
            "CLIPSegForImageSegmentation",
            {
                **CLIP,
                "extract_layers": [0, 1],
                "reduce_dim": 16,
                "decoder_num_attention_heads": 4,
                "decoder_intermediate_size": 32,
            },
        ),
        {
            "input_ids": tokens("batch", "sequence", above=3, below=WORDS),
            "pixel_values": images(),
            "attention_mask": mask("batch", "sequence"),
        },
        {"logits": "batch"},
        {"batch": (3, 2, 4), "sequence": (9, 6, 17)},
    ),
)

SUBJECTS = subjects(NETWORKS)
