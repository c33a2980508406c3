"""A network written as an ONNX file, by either exporter of PyTorch."""

from __future__ import annotations

import inspect
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tools.corpus.architectures.network import Exporter, Network
from tools.corpus.architectures.quietly import quiet


def export(network: Network, exporter: Exporter, path: Path) -> None:
    """Write ``network`` with random weights, the same ones every time, to ``path``."""
    rng = np.random.default_rng(_seed(network))
    sizes = network.at(0)
    example = tuple(torch.from_numpy(feed(sizes, rng)) for feed in network.inputs.values())
    names, outputs, dynamic = list(network.inputs), list(network.outputs), network.dynamic()
    common: dict[str, Any] = {"input_names": names, "output_names": outputs, "opset_version": network.opset}
    with torch.no_grad(), quiet():
        module = materialized(network)
        if exporter == "torchscript":
            torch.onnx.export(module, example, str(path), dynamo=False, dynamic_axes=dynamic, **common)
            return
        shapes: tuple[Any, ...] = tuple(dynamic[name] for name in names)
        kinds = [parameter.kind for parameter in inspect.signature(module.forward).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            shapes = (shapes,)
        # What PyTorch cannot write by itself, the module says.
        common["custom_translation_table"] = getattr(module, "translations", None)
        torch.onnx.export(
            module, example, str(path), dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False, **common
        )


def materialized(network: Network) -> nn.Module:
    """The module of ``network`` with random weights, the same ones every time."""
    torch.manual_seed(_seed(network))
    return lively(network.build(network)).eval()


def _seed(network: Network) -> int:
    return zlib.crc32(network.name.encode())


@torch.no_grad()
def lively(module: nn.Module) -> nn.Module:
    """``module`` with weights under which nothing vanishes: also biases, and the statistics of batch normalizations."""
    for name, parameter in module.named_parameters():
        if not parameter.is_floating_point():
            continue
        if parameter.ndim <= 1:
            parameter.add_(0.1 * torch.randn_like(parameter))
        elif "embed" in name:
            parameter.mul_(5)
    for name, statistic in module.named_buffers():
        if name.endswith("running_mean"):
            statistic.normal_(std=0.2)
        if name.endswith("running_var"):
            statistic.uniform_(0.5, 2)
    return module
