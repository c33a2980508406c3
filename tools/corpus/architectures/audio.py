"""Models that hear and speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.corpus.architectures.network import Network, hf, subjects
from tools.corpus.feeds import Tensor, mask, normal, tokens, waves

WORDS = 40
SOUND = {"batch": (2, 1, 3), "samples": (1600, 2000, 1203)}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WAV2VEC = {
    **SMALL,
    "vocab_size": WORDS,
    "conv_dim": [16, 16, 16],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LARGE = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}
WAVE = {"input_values": waves("batch", "samples")}
MASKED = {**WAVE, "attention_mask": mask("batch", "samples")}


def _heard(
    name: str,
    model: str,
    config: Mapping[str, Any],
    inputs: Mapping[str, Tensor] = WAVE,
    outputs: Mapping[str, str] | None = None,
    sizes: Mapping[str, tuple[int, int, int]] = SOUND,
) -> Network:
    return Network(name, hf(model, config), inputs, outputs or {"logits": "batch frames"}, sizes)


NETWORKS = (
    _heard("wav2vec2", "Wav2Vec2ForCTC", WAV2VEC),
    _heard("wav2vec2-large", "Wav2Vec2ForCTC", {**WAV2VEC, **LARGE}, MASKED),
    _heard(
        "wav2vec2-conformer",
        "Wav2Vec2ConformerForCTC",
        {**WAV2VEC, "position_embeddings_type": "rotary", "conv_depthwise_kernel_size": 7},
    ),
    _heard("hubert", "HubertForCTC", WAV2VEC),
    _heard("wavlm", "WavLMForCTC", {**WAV2VEC, "num_buckets": 16, "max_bucket_distance": 32}),
    _heard("sew", "SEWForCTC", {**WAV2VEC, "squeeze_factor": 2}),
    _heard(
        "ast",
        "ASTForAudioClassification",
        {
            **SMALL,
            "num_labels": 5,
            "max_length": 64,
            "num_mel_bins": 16,
            "patch_size": 8,
            "frequency_stride": 4,
            "time_stride": 4,
        },
        {"input_values": normal("batch", 64, 16)},
        {"logits": "batch"},
        {"batch": (2, 1, 3)},
    ),
    _heard(
        "speech-t5",
        "SpeechT5HifiGan",
        {
            "model_in_dim": 16,
            "upsample_initial_channel": 16,
            "upsample_rates": [4, 2],
            "upsample_kernel_sizes": [8, 4],
            "resblock_kernel_sizes": [3, 7],
            "resblock_dilation_sizes": [[1, 3], [1, 3]],
        },
        {"spectrogram": normal("batch", "frames", 16)},
        {"waveform": "batch samples"},
        {"batch": (2, 1, 3), "frames": (20, 31, 9)},
    ),
    _heard(
        "vits",
        "VitsModel",
        {
            **SMALL,
            "vocab_size": WORDS,
            "window_size": 4,
            "ffn_dim": 64,
            "ffn_kernel_size": 3,
            "flow_size": 16,
            "spectrogram_bins": 17,
            "hidden_size": 16,
            "num_attention_heads": 2,
            "use_stochastic_duration_prediction": False,
            "duration_predictor_filter_channels": 16,
            "upsample_initial_channel": 16,
            "upsample_rates": [4, 2],
            "upsample_kernel_sizes": [8, 4],
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 3]],
            "prior_encoder_num_flows": 2,
            "prior_encoder_num_wavenet_layers": 2,
            "posterior_encoder_num_wavenet_layers": 2,
            "wavenet_dilation_rate": 2,
            "noise_scale": 0.0,
            "noise_scale_duration": 0.0,
        },
        {"input_ids": tokens("batch", "sequence", above=1, below=WORDS), "attention_mask": mask("batch", "sequence")},
        {"waveform": "batch samples"},
        {"batch": (2, 1, 3), "sequence": (9, 13, 6)},
    ),
)

SUBJECTS = subjects(NETWORKS)
