"""Other forms of an exported model: quantized, optimized, fused, of half precision; by onnxruntime's own tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tools.corpus.architectures.network import Network
from tools.corpus.architectures.quietly import quiet

CALIBRATIONS = 3
LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "layout": "ORT_ENABLE_ALL"}


def optimized(path: Path, network: Network, *, level: str) -> Path:
    """What onnxruntime makes of the model before it runs it, up to ``level``: one of `LEVELS`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.optimized_model_filepath = str(made := path.with_name(f"{level}.onnx"))
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return made


def fused(path: Path, network: Network, *, model_type: str, heads: int, width: int) -> Path:
    """Attention and normalizations fused by onnxruntime's optimizer for transformers."""
    from onnxruntime.transformers import optimizer

    with quiet():
        model = optimizer.optimize_model(str(path), model_type, num_heads=heads, hidden_size=width, opt_level=0, use_gpu=False)
        model.save_model_to_file(str(made := path.with_name("fused.onnx")))
    return made


def half(path: Path, network: Network) -> Path:
    """In float16, inputs and outputs too."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with quiet():
        model = convert_float_to_float16(onnx.load(path))
    onnx.save(model, made := path.with_name("half.onnx"))
    return made


def dynamic_int8(path: Path, network: Network, *, per_channel: bool = False, signed: bool = True) -> Path:
    """Weights of 8 bits; activations are quantized when the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    kind = QuantType.QInt8 if signed else QuantType.QUInt8
    with quiet():
        quant_pre_process(path, prepared := path.with_name("prepared.onnx"), skip_symbolic_shape=True)
        quantize_dynamic(prepared, made := path.with_name("dynamic.onnx"), per_channel=per_channel, weight_type=kind)
    return made


def static_int8(
    path: Path,
    network: Network,
    *,
    form: str = "QDQ",
    per_channel: bool = True,
    activations: str = "QUInt8",
    weights: str = "QInt8",
    reduce_range: bool = False,
) -> Path:
    """Weights and activations of 8 or 16 bits, calibrated on random inputs; as "QDQ" pairs or as "QOperator"s.

    With ``reduce_range`` weights use 7 of their 8 bits: without, onnxruntime's sums of u8 x s8 saturate on processors with AVX2
    but no VNNI.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with quiet():
        quant_pre_process(path, prepared := path.with_name("prepared.onnx"), skip_symbolic_shape=True)
        quantize_static(
            prepared,
            made := path.with_name(f"{form}.onnx"),
            _reader(prepared, network),
            quant_format=QuantFormat[form],
            per_channel=per_channel,
            activation_type=QuantType[activations],
            weight_type=QuantType[weights],
            reduce_range=reduce_range,
        )
    return made


def _reader(path: Path, network: Network) -> Any:
    from onnxruntime import InferenceSession
    from onnxruntime.quantization import CalibrationDataReader

    names = {value.name for value in InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()}

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = self.all()

        def all(self) -> Iterator[dict[str, Any]]:
            for seed in range(CALIBRATIONS):
                rng = np.random.default_rng(seed)
                yield {name: feed(network.at(0), rng) for name, feed in network.inputs.items() if name in names}

        def get_next(self) -> dict[str, Any] | None:
            return next(self.left, None)

    return Reader()


def blocks(path: Path, network: Network, *, block: int = 16, symmetric: bool = False, bits: int = 4) -> Path:
    """Weights of matrix products in blocks of ``block`` numbers of ``bits`` bits: MatMulNBits."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    with quiet():
        quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=block, is_symmetric=symmetric, bits=bits)
        quantizer.process()
        quantizer.model.save_model_to_file(str(made := path.with_name("blocks.onnx")))
    return made
