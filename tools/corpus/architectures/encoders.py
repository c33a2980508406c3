"""Encoders of text: BERT and what came after it."""

from __future__ import annotations

from typing import Any

from tools.corpus.architectures.network import EXPORTERS, Exporter, Network, hf, subjects
from tools.corpus.feeds import mask, tokens

WORDS = 99
TEXT = {"batch": (3, 1, 4), "sequence": (9, 6, 17)}
SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
ROBERTA = {**SMALL, "pad_token_id": 1}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
GROUPED = {f"{part}_groups": 2 for part in ("q", "k", "v", "intermediate", "output")}


def _encoder(
    name: str,
    model: str,
    config: dict[str, Any],
    *,
    types: bool = False,
    head: str = "last_hidden_state",
    exporters: tuple[Exporter, ...] = EXPORTERS,
) -> Network:
    """A model of token ids and mask, with token types where ``types``."""
    inputs = {"input_ids": tokens("batch", "sequence", above=2, below=WORDS), "attention_mask": mask("batch", "sequence")}
    if types:
        inputs["token_type_ids"] = tokens("batch", "sequence", below=2)
    return Network(name, hf(model, config), inputs, {head: "batch sequence"}, TEXT, exporters)


NETWORKS = (
    _encoder("bert", "BertModel", SMALL, types=True),
    _encoder("roberta", "RobertaModel", ROBERTA),
    _encoder("xlm-roberta", "XLMRobertaForTokenClassification", ROBERTA, head="logits"),
    _encoder("camembert", "CamembertForMaskedLM", ROBERTA, head="logits"),
    _encoder("electra", "ElectraForMaskedLM", {"embedding_size": 16, **SMALL}, types=True, head="logits"),
    _encoder("albert", "AlbertModel", {"embedding_size": 16, **SMALL}, types=True),
    _encoder(
        "distilbert",
        "DistilBertForMaskedLM",
        {"vocab_size": WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 40},
        head="logits",
    ),
    _encoder("mpnet", "MPNetModel", ROBERTA),
    _encoder(
        "deberta-v2",
        "DebertaV2Model",
        {
            **DISENTANGLED,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
            "conv_kernel_size": 3,
            **SMALL,
        },
        types=True,
    ),
    _encoder("modernbert", "ModernBertModel", {"local_attention": 8, "global_attn_every_n_layers": 2, **SMALL}),
    _encoder("mobilebert", "MobileBertModel", {"embedding_size": 16, "intra_bottleneck_size": 16, **SMALL}, types=True),
    _encoder(
        "squeezebert",
        "SqueezeBertModel",
        {"embedding_size": 32, "post_attention_groups": 1, **GROUPED, **SMALL},
        types=True,
    ),
    _encoder("layoutlm", "LayoutLMModel", SMALL, types=True),
    _encoder(
        "xlnet",
        "XLNetModel",
        {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
        types=True,
        exporters=("torchscript",),
    ),
    _encoder("roformer", "RoFormerModel", SMALL, types=True),
    _encoder("nystromformer", "NystromformerModel", {"num_landmarks": 8, "segment_means_seq_len": 8, **SMALL}, types=True),
    _encoder(
        "funnel",
        "FunnelModel",
        {
            "vocab_size": WORDS,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
        },
        types=True,
        exporters=("torchscript",),
    ),
)

SUBJECTS = subjects(NETWORKS)
