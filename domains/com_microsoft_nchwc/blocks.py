"""How many channels a block has: 8 or 16, as the machine that onnxruntime optimized the model on would have it.

The model does not say so, but where some number of channels is no multiple of 16 it follows from what that was padded to.
Else it is that of this machine, which is also what onnxruntime takes.
"""

from __future__ import annotations

import platform
import weakref
from typing import Any, Protocol

import torch

DOMAIN = "com.microsoft.nchwc"
SMALL, LARGE = 8, 16

_KEEP_CHANNELS = frozenset("Add Sum Relu MaxPool AveragePool GlobalMaxPool GlobalAveragePool Upsample".split())
"""Operators that may stand between a convolution and the end of blocks, and give as many channels as they take."""

_FOUND: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


class Surroundings(Protocol):
    """What the converters are told of the graph around a node."""

    @property
    def node(self) -> Any:
        """The node, of which the graph's other nodes can be reached."""


def block_of(enclosing: Surroundings) -> int:
    """The size of the blocks of the graph around a node."""
    graph = enclosing.node.graph
    if graph is None:
        return of_this_machine()
    if graph not in _FOUND:
        _FOUND[graph] = _told_by(graph) or of_this_machine()
    return _FOUND[graph]


def _told_by(graph: Any) -> int | None:
    """The size that the filters and channels of ``graph`` tell, or None."""
    padded = False
    for node in graph:
        if node.domain != DOMAIN:
            continue
        shape = _sizes(node.inputs[1]) if node.op_type == "Conv" else ()
        if shape:
            if shape[0] % LARGE:
                return SMALL
            # Such an image is read plain, or would have been padded to 16 channels.
            if SMALL < shape[1] < LARGE and _integer(node, "group", 1) == 1:
                return LARGE
        elif node.op_type == "ReorderOutput":
            rest = _integer(node, "channels", 0) % LARGE
            padded = padded or (0 < rest <= SMALL and _comes_of_filters(node.inputs[0]))
    return LARGE if padded else None


def _comes_of_filters(value: Any) -> bool:
    """Whether the channels of a blocked value are those of a convolution, all of which have multiples of 16."""
    node = value.producer()
    while node is not None and node.op_type in _KEEP_CHANNELS:
        node = node.inputs[0].producer()
    return node is not None and node.domain == DOMAIN and node.op_type == "Conv" and bool(_sizes(node.inputs[1]))


def _sizes(value: Any) -> tuple[int, ...]:
    shape = None if value is None else value.shape
    return tuple(size for size in shape if isinstance(size, int)) if shape is not None and len(shape) == 4 else ()


def _integer(node: Any, name: str, default: int) -> int:
    found = node.attributes.get(name)
    return default if found is None else int(found.value)


def of_this_machine() -> int:
    """The size that onnxruntime takes on this machine: 8 on x86 without AVX-512, else 16."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return SMALL if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686") and not wide else LARGE
