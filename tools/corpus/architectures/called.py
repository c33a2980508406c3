"""Modules with flat inputs and outputs around the models of `transformers`, whose inputs and results are structures."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import transformers
from torch import Tensor, nn

PAST = re.compile(r"past_key_values\.(\d+)\.(key|value)")
PRESENT = re.compile(r"present\.(\d+)\.(key|value)")


def transformers_model(name: str, config: Mapping[str, Any]) -> nn.Module:
    """The model ``name`` of `transformers` with random weights; a configuration's field "x_config" is given as a mapping.

    Fields "attn_implementation" and "experts_implementation" are the way in which these are written: "eager", "sdpa",
    "batched_mm".
    """
    model = getattr(transformers, name)
    settings = copy.deepcopy(dict(config))
    ways = {key: settings.pop(key) for key in ("attn_implementation", "experts_implementation") if key in settings}
    made = model.config_class(**settings)
    for key, way in ways.items():
        setattr(made, f"_{key}", way)
    module: nn.Module = model(made)
    return module


class Called(nn.Module):
    """``module`` called by keywords; of its result the named fields ("logits", "hidden_states.1") are given in order.

    Inputs "past_key_values.0.key" … become the cache that the module takes; outputs "present.0.key" … are what it then holds.
    """

    def __init__(self, module: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...], **options: Any) -> None:
        super().__init__()
        self.module, self.inputs, self.outputs, self.options = module, inputs, outputs, options

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(self.inputs, tensors, strict=True))
        past = {name: given.pop(name) for name in self.inputs if PAST.fullmatch(name)}
        if past or any(PRESENT.fullmatch(name) for name in self.outputs):
            result = self.module(**given, past_key_values=_cache(past), use_cache=True, **self.options)
        else:
            result = self.module(**given, **self.options)
        return tuple(_field(result, name) for name in self.outputs)


def _cache(past: Mapping[str, Tensor]) -> transformers.DynamicCache:
    layers = sorted({int(match[1]) for name in past if (match := PAST.fullmatch(name))})
    pairs = [(past[f"past_key_values.{n}.key"], past[f"past_key_values.{n}.value"]) for n in layers]
    return transformers.DynamicCache(pairs)


def _field(result: Any, name: str) -> Any:
    if match := PRESENT.fullmatch(name):
        layer = result["past_key_values"].layers[int(match[1])]
        return layer.keys if match[2] == "key" else layer.values
    if isinstance(result, Tensor):
        return result
    for part in name.split("."):
        result = result[int(part)] if part.isdigit() else result[part]
    return result
