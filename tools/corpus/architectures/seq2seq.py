"""Encoders with decoders: translation, summaries, speech to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.corpus.architectures.network import Network, hf, subjects
from tools.corpus.feeds import Tensor, mask, normal, tokens

WORDS = 99
SIZES = {"batch": (3, 1, 4), "sequence": (9, 6, 17), "target": (5, 7, 1)}
BART = {
    "vocab_size": WORDS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
T5 = {
    "vocab_size": WORDS,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}
TEXT = {
    "input_ids": tokens("batch", "sequence", above=3, below=WORDS),
    "attention_mask": mask("batch", "sequence"),
    "decoder_input_ids": tokens("batch", "target", above=3, below=WORDS),
}
DECODED = {
    "decoder_input_ids": tokens("batch", "target", above=3, below=WORDS),
    "decoder_attention_mask": mask("batch", "target"),
}


def _whole(
    name: str,
    model: str,
    config: Mapping[str, Any],
    inputs: Mapping[str, Tensor] = TEXT,
    sizes: Mapping[str, tuple[int, int, int]] = SIZES,
) -> Network:
    """Both halves in one model, without a cache."""
    outputs = {"logits": "batch target", "encoder_last_hidden_state": "batch encoded"}
    return Network(name, hf(model, config, use_cache=False), inputs, outputs, sizes)


WHISPER = {
    **{key: value for key, value in BART.items() if key not in ("max_position_embeddings", "forced_eos_token_id")},
    "num_mel_bins": 16,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
SPEECH = {"input_features": normal("batch", 16, 40), **DECODED}

NETWORKS = (
    _whole("t5", "T5ForConditionalGeneration", T5),
    _whole("flan-t5", "T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    _whole("mt5", "MT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
    _whole("bart", "BartForConditionalGeneration", BART),
    _whole("mbart", "MBartForConditionalGeneration", BART),
    _whole("marian", "MarianMTModel", {**BART, "decoder_vocab_size": WORDS, "pad_token_id": 98, "decoder_start_token_id": 98}),
    _whole("pegasus", "PegasusForConditionalGeneration", BART),
    _whole("m2m-100", "M2M100ForConditionalGeneration", BART),
    _whole("whisper", "WhisperForConditionalGeneration", WHISPER, SPEECH, {"batch": (2, 1, 3), "target": (5, 7, 1)}),
    _whole(
        "speech-to-text",
        "Speech2TextForConditionalGeneration",
        {
            **BART,
            "num_conv_layers": 2,
            "conv_channels": 16,
            "conv_kernel_sizes": [5, 5],
            "input_feat_per_channel": 16,
            "input_channels": 1,
            "max_source_positions": 100,
            "max_target_positions": 40,
        },
        {
            "input_features": normal("batch", "frames", 16),
            "attention_mask": mask("batch", "frames"),
            "decoder_input_ids": tokens("batch", "target", above=3, below=WORDS),
        },
        {"batch": (3, 1, 2), "frames": (30, 41, 17), "target": (5, 7, 1)},
    ),
    _whole(
        "trocr",
        "VisionEncoderDecoderModel",
        {
            "encoder": {
                "model_type": "vit",
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 64,
                "image_size": 32,
                "patch_size": 8,
            },
            "decoder": {
                "model_type": "trocr",
                **{k: v for k, v in BART.items() if not k.startswith("encoder")},
                "cross_attention_hidden_size": 32,
            },
        },
        {"pixel_values": normal("batch", 3, 32, 32), **DECODED},
        {"batch": (2, 1, 3), "target": (5, 7, 1)},
    ),
)

SUBJECTS = subjects(NETWORKS)
