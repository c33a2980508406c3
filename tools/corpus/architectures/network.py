"""A network of PyTorch that the corpus exports: what builds it, what it is fed, what it gives, and its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tools.corpus.feeds import Sizes, Tensor
from tools.corpus.subject import Subject

if TYPE_CHECKING:
    from torch import nn

Exporter = Literal["torchscript", "dynamo"]
EXPORTERS: tuple[Exporter, ...] = ("torchscript", "dynamo")
Variant = Callable[[Path, "Network"], Path]
"""What makes another model of an exported one, beside it: ``variant(exported, network)`` gives the new file."""


@dataclass(frozen=True)
class Network:
    """One architecture.

    ``build`` gives the module, which takes the values of ``inputs`` in their order. Sizes that are names or expressions in
    the shapes of ``inputs`` are dynamic dims; ``outputs`` are names with shapes of the same kind, one word for each axis.
    ``sizes`` gives for each name the size in the exported example, and then those to run at.
    """

    name: str
    build: Callable[[Network], nn.Module]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int, int]]
    exporters: tuple[Exporter, ...] = EXPORTERS
    opset: int | None = None
    note: str = ""

    def at(self, run: int) -> Sizes:
        """The sizes of a run; 0 is the exported example."""
        return {name: choice[run] for name, choice in self.sizes.items()}

    def dynamic(self) -> dict[str, dict[int, str]]:
        """The dynamic dims of the inputs and outputs, by axis."""
        shapes: dict[str, tuple[int | str, ...]] = {name: feed.shape for name, feed in self.inputs.items()}
        shapes |= {name: tuple(int(w) if w.isdigit() else w for w in shape.split()) for name, shape in self.outputs.items()}
        return {name: {axis: d for axis, d in enumerate(dims) if isinstance(d, str)} for name, dims in shapes.items()}


def subjects(networks: tuple[Network, ...]) -> tuple[Subject, ...]:
    """Each network by each of its exporters."""
    return tuple(
        _subject(network, exporter, f"torch.onnx {exporter}", partial(_exported, network, exporter))
        for network in networks
        for exporter in network.exporters
    )


def treated(network: Network, variants: Mapping[str, Variant], exporter: Exporter) -> tuple[Subject, ...]:
    """Other forms of what ``exporter`` makes of a network, by name."""
    return tuple(
        _subject(network, f"{exporter}-{name}", f"torch.onnx {exporter}, {name}", partial(_varied, network, exporter, variant))
        for name, variant in variants.items()
    )


def _subject(network: Network, way: str, described: str, make: Callable[[Path], Path]) -> Subject:
    runs = tuple(network.at(run) for run in (1, 2))
    return Subject(f"{network.name}-{way}", described, "exported", make, runs, dict(network.inputs), note=network.note)


def _exported(network: Network, exporter: Exporter, folder: Path) -> Path:
    from tools.corpus.architectures.export import export

    path = folder / "model.onnx"
    export(network, exporter, path)
    return path


def _varied(network: Network, exporter: Exporter, variant: Variant, folder: Path) -> Path:
    return variant(_exported(network, exporter, folder), network)


def hf(model: str, config: Mapping[str, Any], **options: Any) -> Callable[[Network], nn.Module]:
    """A model of `transformers`, by the name of its class, called by keywords, ``options`` among them."""

    def build(network: Network) -> nn.Module:
        from tools.corpus.architectures.called import Called, transformers_model

        return Called(transformers_model(model, config), tuple(network.inputs), tuple(network.outputs), **options)

    return build
