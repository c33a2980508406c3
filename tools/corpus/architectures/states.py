"""Models with a recurrent state, on texts of a fixed length."""

from __future__ import annotations

from tools.corpus.architectures.network import Network, hf, subjects
from tools.corpus.feeds import tokens

WORDS = 99
LOGITS = {"logits": "batch sequence"}
SERIES = {"batch": (3, 1, 4)}
FIXED = {"input_ids": tokens("batch", 9, above=3, below=WORDS)}
"""Where `transformers` goes through the sequence in a Python loop, which exporters unroll."""

MAMBA = {"vocab_size": WORDS, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "time_step_rank": 4}

NETWORKS = (
    Network(
        "mamba",
        hf(
            "MambaForCausalLM",
            MAMBA,
            use_cache=False,
        ),
        FIXED,
        LOGITS,
        SERIES,
    ),
    Network(
        "falcon-mamba",
        hf(
            "FalconMambaForCausalLM",
            MAMBA,
            use_cache=False,
        ),
        FIXED,
        LOGITS,
        SERIES,
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
        FIXED,
        LOGITS,
        SERIES,
    ),
)

SUBJECTS = subjects(NETWORKS)
