"""Transformers of the `transformers` library with random weights: two layers, a few heads."""

from __future__ import annotations

import transformers
from torch import Tensor, nn

POSITIONS = 40
"""The longest sequence."""


class Bert(nn.Module):
    """BERT with its pooler: ids, attention mask and token types, each [batch, sequence], of up to `POSITIONS`."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.BertConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=POSITIONS,
        )
        self.model = transformers.BertModel(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return result.last_hidden_state, result.pooler_output


class Gpt2(nn.Module):
    """GPT-2 with its language-model head: ids and attention mask, each [batch, sequence]."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.GPT2Config(
            vocab_size=97,
            n_positions=POSITIONS,
            n_embd=32,
            n_layer=2,
            n_head=4,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model = transformers.GPT2LMHeadModel(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        logits: Tensor = result.logits
        return logits


class Vit(nn.Module):
    """ViT with its classifier: images [batch, 3, 32, 32] in patches of 8."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
            num_labels=5,
        )
        self.model = transformers.ViTForImageClassification(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=pixel_values).logits
        return logits
