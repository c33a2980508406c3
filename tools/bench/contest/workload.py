"""What is measured: a model with random weights, its sizes, and what it is fed."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tools.bench.contest.liveness import memory_of
from tools.corpus.architectures.network import Exporter, Network, Variant
from tools.corpus.feeds import Array, Sizes, Tensor, size_of

if TYPE_CHECKING:
    import onnx
    from torch import nn

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Workload:
    """One thing to run.

    Names in the shapes of ``inputs`` are dims: the static model has them fixed at ``sizes``, the dynamic one leaves them open
    and is exported with the sizes of ``example``. ``build`` gives the module of PyTorch, and ``variant`` what is made of the
    exported model; or ``model(sizes, dynamic)`` gives the model without PyTorch. ``definition`` is a text that changes where
    one of these gives something else. Results may be off onnxruntime's by ``tolerance`` times their largest magnitude.
    """

    name: str
    inputs: Mapping[str, Tensor]
    sizes: Sizes
    outputs: Mapping[str, str]
    build: Callable[[Network], nn.Module] | None = None
    variant: Variant | None = None
    model: Callable[[Sizes, bool], onnx.ModelProto] | None = None
    exporter: Exporter = "dynamo"
    example: Mapping[str, int] | None = None
    definition: str = ""
    tolerance: float = 1e-3

    def network(self, dynamic: bool) -> Network:
        """The network to export."""
        assert self.build is not None
        # Exporters take a size of 1 for a constant.
        example = {**{name: max(size, 2) for name, size in self.sizes.items()}, **(self.example or {})}
        runs = {name: (example[name] if dynamic else size, size, size) for name, size in self.sizes.items()}
        inputs, outputs = dict(self.inputs), dict(self.outputs)
        if not dynamic:
            inputs = {name: replace(feed, shape=self.shape(feed)) for name, feed in inputs.items()}
            outputs = dict.fromkeys(outputs, "")
        return Network(self.name, self.build, inputs, outputs, runs)

    def shape(self, feed: Tensor) -> tuple[int, ...]:
        """The shape of an input at the sizes that are measured."""
        return tuple(size_of(dim, self.sizes) for dim in feed.shape)

    def feeds(self) -> dict[str, Array]:
        """The inputs by name: the same arrays each time."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return {name: np.ascontiguousarray(feed(self.sizes, rng)) for name, feed in self.inputs.items()}

    def module(self) -> nn.Module | None:
        """The module with the weights of the exported model, or None for a model that is not one of PyTorch."""
        if self.build is None or self.variant is not None:
            return None
        from tools.corpus.architectures.export import materialized

        return materialized(self.network(dynamic=False))

    @property
    def is_dynamic(self) -> bool:
        """Whether there is a dim to leave open."""
        return bool(self.sizes)


@dataclass(frozen=True)
class Made:
    """A model on the disk: bytes of its weights and of values that live at the same time, and its floating-point operations.

    Operations are those of products and convolutions, 0 where they are not known.
    """

    path: Path
    weights: int
    live: int
    flops: float


def folder() -> Path:
    """Where models are kept between runs."""
    from onnx2torch_mlir.engine import cache

    return (cache.folder() or Path.home() / ".cache" / "onnx2torch_mlir") / "bench"


def made(workload: Workload, *, dynamic: bool = False) -> Made:
    """The model of ``workload``, exported unless an earlier run did with the same definitions."""
    name = f"{workload.name}-dynamic" if dynamic else workload.name
    place = folder() / f"{name}-{_definitions(workload)}"
    path, notes = place / "model.onnx", place / "notes.json"
    if not notes.exists():
        _make(workload, dynamic, path)
        found = {**memory_of(path), "flops": _flops(workload)}
        partial = notes.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found))
        partial.replace(notes)
    return Made(path, **json.loads(notes.read_text()))


def _make(workload: Workload, dynamic: bool, path: Path) -> None:
    import onnx

    path.parent.mkdir(parents=True, exist_ok=True)
    if workload.model is not None:
        onnx.save(workload.model(workload.sizes, dynamic), path)
        return
    from tools.corpus.architectures.export import export

    network = workload.network(dynamic)
    export(network, workload.exporter, path)
    if workload.variant is not None:
        workload.variant(path, network).replace(path)
        for left in path.parent.glob("*"):
            if left != path:
                left.unlink()


def _definitions(workload: Workload) -> str:
    """A digest of what says what the model is."""
    from importlib.metadata import version

    told = (version("torch"), workload.name, workload.definition, workload.sizes, workload.example, workload.exporter)
    digest = hashlib.sha256(repr(told).encode())
    digest.update(b"" if workload.variant is None else workload.variant.__name__.encode())
    for source in ("convnets.py", "blocks.py", "liveness.py"):
        digest.update((HERE / source).read_bytes())
    return digest.hexdigest()[:12]


def _flops(workload: Workload) -> float:
    if workload.build is None:
        return 0.0
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from tools.corpus.architectures.export import materialized

    module = materialized(workload.network(dynamic=False))
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        module(*(torch.from_numpy(array) for array in workload.feeds().values()))
    return float(counter.get_total_flops())
