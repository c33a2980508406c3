"""Decoders of text with a cache of keys and values: one program for the prompt, with an empty past, and for what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.corpus.architectures.network import EXPORTERS, Exporter, Network, hf, subjects
from tools.corpus.feeds import Tensor, counting, mask, normal, tokens

WORDS = 97
STEPS = {"batch": (3, 2, 1), "past": (4, 0, 11), "sequence": (6, 7, 1)}
"""Exported in the middle of a text; run on a prompt, and on one token behind a long past."""

LLAMA = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WITHOUT_GROUPS = {key: value for key, value in LLAMA.items() if key not in ("num_key_value_heads", "head_dim")}
SLIDING = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
GPT = {"vocab_size": WORDS, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
ROUTED = {"num_experts_per_tok": 2, "experts_implementation": "batched_mm"}
EXPERTS = {**ROUTED, "num_experts": 4, "moe_intermediate_size": 16}


def _decoder(
    name: str,
    model: str,
    config: Mapping[str, Any],
    *,
    cache: tuple[int, int] = (2, 8),
    positions: bool = True,
    values: int | None = None,
    layers: int = 2,
    exporters: tuple[Exporter, ...] = EXPORTERS,
) -> Network:
    """A language model with a cache of ``cache`` heads and their width (``values`` for values, if they differ)."""
    heads, width = cache
    inputs: dict[str, Tensor] = {
        "input_ids": tokens("batch", "sequence", above=3, below=WORDS),
        "attention_mask": mask("batch", "past + sequence"),
    }
    if positions:
        inputs["position_ids"] = counting("batch", "sequence", start="past")
    outputs = {"logits": "batch sequence"}
    for layer in range(layers):
        for kind, size in (("key", width), ("value", values or width)):
            inputs[f"past_key_values.{layer}.{kind}"] = normal("batch", heads, "past", size)
            outputs[f"present.{layer}.{kind}"] = f"batch {heads} total"
    return Network(name, hf(model, config), inputs, outputs, STEPS, exporters)


NETWORKS = (
    _decoder("gpt2", "GPT2LMHeadModel", GPT, cache=(4, 8)),
    _decoder(
        "gpt-neo",
        "GPTNeoForCausalLM",
        {
            "vocab_size": WORDS,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "intermediate_size": 64,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 5,
            "max_position_embeddings": 64,
            "bos_token_id": 0,
            "eos_token_id": 0,
        },
        cache=(4, 8),
    ),
    _decoder("gpt-neox", "GPTNeoXForCausalLM", {**WITHOUT_GROUPS, "rotary_pct": 0.5}, cache=(4, 8)),
    _decoder("gptj", "GPTJForCausalLM", {**GPT, "rotary_dim": 4}, cache=(4, 8)),
    _decoder("gpt-bigcode", "GPTBigCodeForCausalLM", {**GPT, "multi_query": True}, cache=(1, 8)),
    _decoder(
        "opt",
        "OPTForCausalLM",
        {
            "vocab_size": WORDS,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "ffn_dim": 64,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 16,
            "pad_token_id": 1,
        },
        cache=(4, 8),
        positions=False,
    ),
    _decoder(
        "bloom",
        "BloomForCausalLM",
        {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 3},
        cache=(4, 8),
        positions=False,
    ),
    _decoder(
        "falcon",
        "FalconForCausalLM",
        {
            "vocab_size": WORDS,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_kv_heads": 2,
            "new_decoder_architecture": True,
            "max_position_embeddings": 64,
            "bos_token_id": 0,
            "eos_token_id": 0,
        },
        cache=(4, 8),
    ),
    _decoder(
        "mpt",
        "MptForCausalLM",
        {"vocab_size": WORDS, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
        cache=(4, 8),
        positions=False,
        exporters=("torchscript",),
    ),
    _decoder(
        "llama",
        "LlamaForCausalLM",
        {
            **LLAMA,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        },
    ),
    _decoder("mistral", "MistralForCausalLM", {**LLAMA, "sliding_window": 5}),
    _decoder("mixtral", "MixtralForCausalLM", {**LLAMA, **ROUTED, "num_local_experts": 4}),
    _decoder("qwen2", "Qwen2ForCausalLM", {**LLAMA, **SLIDING}),
    _decoder("qwen2-moe", "Qwen2MoeForCausalLM", {**LLAMA, **EXPERTS, "shared_expert_intermediate_size": 32}),
    _decoder("qwen3", "Qwen3ForCausalLM", LLAMA),
    _decoder("qwen3-moe", "Qwen3MoeForCausalLM", {**LLAMA, **EXPERTS}),
    _decoder("gemma", "GemmaForCausalLM", {**LLAMA, "num_key_value_heads": 1}, cache=(1, 8)),
    _decoder("gemma2", "Gemma2ForCausalLM", {**LLAMA, "sliding_window": 5, "query_pre_attn_scalar": 8}),
    _decoder(
        "gemma3",
        "Gemma3ForCausalLM",
        {**LLAMA, "sliding_window": 5, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    _decoder("phi", "PhiForCausalLM", {**WITHOUT_GROUPS, "partial_rotary_factor": 0.5}, cache=(4, 8)),
    _decoder("phi3", "Phi3ForCausalLM", {**LLAMA, "sliding_window": 5}),
    _decoder("stablelm", "StableLmForCausalLM", {**LLAMA, "partial_rotary_factor": 0.5, "use_qkv_bias": True}),
    _decoder("starcoder2", "Starcoder2ForCausalLM", {**LLAMA, "sliding_window": 5}),
    _decoder("olmo2", "Olmo2ForCausalLM", LLAMA),
    _decoder("olmoe", "OlmoeForCausalLM", {**LLAMA, **ROUTED, "num_experts": 4}),
    _decoder("granite", "GraniteForCausalLM", LLAMA),
    _decoder("smollm3", "SmolLM3ForCausalLM", LLAMA),
    _decoder("gpt-oss", "GptOssForCausalLM", {**LLAMA, **ROUTED, "num_local_experts": 4, "sliding_window": 5}),
)

SUBJECTS = subjects(NETWORKS)
