"""The model of the import benchmark: a transformer encoder exported by `torch.onnx.export`."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path


def export_encoder(path: Path, *, layers: int, width: int, hidden: int, heads: int, exporter: str, external: bool) -> int:
    """Write an encoder with random weights and dynamic batch and sequence to ``path``; returns the weights' bytes."""
    import torch

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    layer = torch.nn.TransformerEncoderLayer(width, heads, hidden, activation="gelu", batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()
    example = (torch.randn(2, 16, width),)
    names = {0: "batch", 1: "sequence"}
    warnings.filterwarnings("ignore")
    with torch.no_grad():
        if exporter == "dynamo":
            dims = {axis: torch.export.Dim(name, min=1, max=4096) for axis, name in names.items()}
            torch.onnx.export(
                model,
                example,
                str(path),
                dynamo=True,
                external_data=external,
                input_names=["x"],
                output_names=["y"],
                dynamic_shapes=(dims,),
                verbose=False,
            )
        else:
            torch.onnx.export(
                model,
                example,
                str(path),
                dynamo=False,
                input_names=["x"],
                output_names=["y"],
                dynamic_axes={"x": names, "y": names},
            )
            if external:
                import onnx

                onnx.save(onnx.load(path), path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def main() -> None:
    """Export one model and print the bytes of its weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--exporter", choices=("dynamo", "torchscript"), default="dynamo")
    parser.add_argument("--external", action="store_true")
    options = vars(parser.parse_args())
    print(export_encoder(options.pop("path"), **options))


if __name__ == "__main__":
    main()
