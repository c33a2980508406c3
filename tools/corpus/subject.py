"""One real model, where it comes from, and what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tools.corpus.feeds import Feed, Sizes

Kind = Literal["shipped", "exported"]


@dataclass(frozen=True)
class Subject:
    """A model of the corpus.

    ``make(folder)`` puts the model's file into ``folder``, an empty one in the user's cache, and gives its path; it runs in a
    process of its own, once: what it made is kept until the file that defines it changes. ``exporter`` is what wrote the
    model: "torch.onnx dynamo", "paddle2onnx", "onnxruntime quantizer".

    ``sizes`` are two or more sets of sizes by name, at each of which the model is run. ``feeds`` give the inputs' values by
    name; a name may be a pattern (``"past_key_values.*"``), the first that fits counts. Inputs without one get values made up
    from what the model does with them (`verification.generate_inputs`): there ``sizes`` are looked up by the names of the
    model's own dims.

    ``limit`` is the time in seconds after which the run is ended; ``note`` is shown beside the verdict.
    """

    name: str
    exporter: str
    kind: Kind
    make: Callable[[Path], Path]
    sizes: tuple[Sizes, ...]
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    limit: float = 600.0
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.sizes) < 2:
            raise ValueError(f"{self.name}: a subject is run at two sets of sizes at least")
