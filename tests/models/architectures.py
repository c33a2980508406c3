"""The models of these tests, how they are exported, and at which sizes they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.models import networks, transformer_models
from tools.corpus.architectures.export import lively

EXPORTERS = ("dynamo", "torchscript")


@dataclass(frozen=True)
class Architecture:
    """A network and how it is exported and run.

    ``inputs`` gives example inputs by name, with the names of their dynamic dims by axis; ``sizes`` are those to run
    at; ``requirements`` are the dims that a program of the network cannot but check when it runs.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, tuple[Callable[[], Tensor], dict[int, str]]]
    outputs: dict[str, dict[int, str]]
    sizes: dict[str, tuple[int, ...]]
    requirements: tuple[str, ...] = ()

    @property
    def runs(self) -> list[dict[str, int]]:
        """Every combination of the sizes."""
        return [dict(zip(self.sizes, chosen, strict=True)) for chosen in product(*self.sizes.values())]


BATCH = (1, 2, 7)
TEXT = {0: "batch", 1: "sequence"}
TEXT_SIZES = {"batch": BATCH, "sequence": (1, 5, 16)}
IMAGE = {0: "batch", 2: "height", 3: "width"}


def _ids(limit: int) -> tuple[Callable[[], Tensor], dict[int, str]]:
    return (lambda: torch.randint(0, limit, (3, 9))), TEXT


def _mask() -> Tensor:
    return (torch.arange(9) < torch.tensor([[9], [6], [4]])).long()


ARCHITECTURES = (
    Architecture(
        "bert",
        transformer_models.Bert,
        {"input_ids": _ids(99), "attention_mask": (_mask, TEXT), "token_type_ids": _ids(2)},
        {"last_hidden_state": TEXT, "pooler_output": {0: "batch"}},
        TEXT_SIZES,
        requirements=("sequence",),
    ),
    Architecture(
        "gpt2",
        transformer_models.Gpt2,
        {"input_ids": _ids(97), "attention_mask": (_mask, TEXT)},
        {"logits": TEXT},
        TEXT_SIZES,
    ),
    Architecture(
        "vit",
        transformer_models.Vit,
        {"pixel_values": (lambda: torch.randn(3, 3, 32, 32), {0: "batch"})},
        {"logits": {0: "batch"}},
        {"batch": BATCH},
    ),
    Architecture("lstm_tagger", networks.Tagger, {"tokens": _ids(50)}, {"scores": TEXT}, TEXT_SIZES),
    Architecture(
        "gru_forecast",
        networks.GruForecast,
        {
            "series": (lambda: torch.randn(3, 9, 7), TEXT),
            "state": (lambda: torch.randn(1, 3, 11), {1: "batch"}),
        },
        {"forecast": {0: "batch"}, "last": {1: "batch"}},
        TEXT_SIZES,
    ),
    Architecture(
        "resnet",
        networks.ResNet,
        {"image": (lambda: torch.randn(3, 3, 40, 48), IMAGE)},
        {"scores": {0: "batch"}},
        {"batch": BATCH, "height": (33, 64), "width": (40,)},
    ),
    Architecture(
        "segmentation",
        networks.SegmentationNet,
        {"image": (lambda: torch.randn(3, 3, 16, 24), {0: "batch"})},
        {"classes": {0: "batch"}},
        {"batch": BATCH},
    ),
)


def export(architecture: Architecture, exporter: str, path: Path) -> None:
    """Write ``architecture`` with weights of a fixed seed as an ONNX file by one of `EXPORTERS`."""
    torch.manual_seed(sum(architecture.name.encode()))
    module = lively(architecture.make()).eval()
    names = list(architecture.inputs)
    tensors = tuple(make() for make, _ in architecture.inputs.values())
    axes = {name: dims for name, (_, dims) in architecture.inputs.items()}
    with torch.no_grad():
        if exporter == "torchscript":
            torch.onnx.export(
                module,
                tensors,
                path,
                dynamo=False,
                input_names=names,
                output_names=list(architecture.outputs),
                dynamic_axes={**axes, **architecture.outputs},
            )
            return
        dims = {name: torch.export.Dim(name) for name in architecture.sizes}
        shapes = tuple({axis: dims[dim] for axis, dim in axes[name].items()} for name in names)
        torch.onnx.export(
            module,
            tensors,
            path,
            dynamo=True,
            input_names=names,
            output_names=list(architecture.outputs),
            dynamic_shapes=shapes,
            external_data=False,
            verbose=False,
        )
