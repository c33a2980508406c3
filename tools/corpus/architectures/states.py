"""Models with a recurrent state: state spaces and what mixes them with attention."""

from __future__ import annotations

from tools.corpus.architectures.network import Network, hf, subjects
from tools.corpus.feeds import mask, normal, tokens

WORDS = 99
TEXT = {"batch": (3, 1, 4), "sequence": (9, 6, 17)}
IDS = {"input_ids": tokens("batch", "sequence", above=3, below=WORDS)}
LOGITS = {"logits": "batch sequence"}
SERIES = {"batch": (3, 1, 4)}

NETWORKS = (
    Network(
        "mamba",
        hf(
            "MambaForCausalLM",
            {"vocab_size": WORDS, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "time_step_rank": 4},
            use_cache=False,
        ),
        IDS,
        LOGITS,
        TEXT,
    ),
    Network(
        "mamba2",
        hf(
            "Mamba2ForCausalLM",
            {
                "vocab_size": WORDS,
                "hidden_size": 32,
                "state_size": 8,
                "num_hidden_layers": 2,
                "num_heads": 8,
                "head_dim": 8,
                "n_groups": 2,
                "chunk_size": 8,
            },
            use_cache=False,
        ),
        IDS,
        LOGITS,
        TEXT,
    ),
    Network(
        "falcon-mamba",
        hf(
            "FalconMambaForCausalLM",
            {"vocab_size": WORDS, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "time_step_rank": 4},
            use_cache=False,
        ),
        IDS,
        LOGITS,
        TEXT,
    ),
    Network(
        "rwkv",
        hf(
            "RwkvForCausalLM",
            {
                "vocab_size": WORDS,
                "hidden_size": 32,
                "attention_hidden_size": 32,
                "num_hidden_layers": 2,
                "intermediate_size": 64,
            },
            use_cache=False,
        ),
        IDS,
        LOGITS,
        TEXT,
    ),
    Network(
        "recurrent-gemma",
        hf(
            "RecurrentGemmaForCausalLM",
            {
                "vocab_size": WORDS,
                "hidden_size": 32,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 1,
                "intermediate_size": 64,
                "lru_width": 32,
                "attention_window_size": 8,
                "block_types": ["recurrent", "recurrent", "attention"],
            },
            use_cache=False,
        ),
        IDS,
        LOGITS,
        TEXT,
    ),
    Network(
        "jamba",
        hf(
            "JambaForCausalLM",
            {
                "vocab_size": WORDS,
                "hidden_size": 32,
                "num_hidden_layers": 4,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "intermediate_size": 64,
                "attn_layer_period": 2,
                "attn_layer_offset": 1,
                "expert_layer_period": 2,
                "expert_layer_offset": 1,
                "num_experts": 4,
                "mamba_d_state": 8,
                "mamba_dt_rank": 4,
                "use_mamba_kernels": False,
            },
            use_cache=False,
        ),
        {**IDS, "attention_mask": mask("batch", "sequence")},
        LOGITS,
        TEXT,
    ),
    Network(
        "patchtst",
        hf(
            "PatchTSTForPrediction",
            {
                "num_input_channels": 3,
                "context_length": 32,
                "patch_length": 8,
                "patch_stride": 4,
                "d_model": 16,
                "num_attention_heads": 4,
                "num_hidden_layers": 2,
                "ffn_dim": 32,
                "prediction_length": 5,
                "scaling": "std",
            },
        ),
        {"past_values": normal("batch", 32, 3)},
        {"prediction_outputs": "batch"},
        SERIES,
    ),
    Network(
        "patchtsmixer",
        hf(
            "PatchTSMixerForPrediction",
            {
                "num_input_channels": 3,
                "context_length": 32,
                "patch_length": 8,
                "patch_stride": 4,
                "d_model": 16,
                "num_layers": 2,
                "prediction_length": 5,
            },
        ),
        {"past_values": normal("batch", 32, 3)},
        {"prediction_outputs": "batch"},
        SERIES,
    ),
)

SUBJECTS = subjects(NETWORKS)
