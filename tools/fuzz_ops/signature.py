"""What a signature offers, and what of it a case uses: types, optional inputs and outputs, attributes.

Of what onnxruntime adds to the standard every feature of every CPU kernel has to be drawn: `features_of` says which they
are, `used_by` which of them a case has. A feature is a short text such as ``T2=int8``, ``past given``, ``mode='edge'``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from onnxruntime.capi import onnxruntime_pybind11_state as native

from onnx2torch_mlir.specs import AttributeSpec, OperatorVersion
from tools.fuzz_ops.case import ADDED, Case
from tools.fuzz_ops.widen import drawn_types

Kernel = Mapping[str, tuple[str, ...]]
"""The element types that one kernel takes, by type constraint."""

_WINDOW: dict[str, tuple[object, ...]] = {"auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")}
_OF_CONV = ("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Clip", "HardSigmoid")
_OF_GEMM = (
    *("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "LeakyRelu", "Celu", "Elu", "ThresholdedRelu", "HardSigmoid"),
    *("ParametricSoftplus", "ScaledTanh", "Selu"),
)
_RECURRENT = ("forward", "reverse", "bidirectional")
_OF_EXPERTS: dict[str, tuple[object, ...]] = {
    "activation_type": ("relu", "gelu", "silu", "swiglu", "identity"),
    "swiglu_fusion": (0, 1, 2),
}
_INTERPOLATED = ("half_pixel", "align_corners", "asymmetric")

CLOSED: dict[str, dict[str, tuple[object, ...]]] = {
    "CDist": {"metric": ("euclidean", "sqeuclidean")},
    "CausalConvWithState": {"activation": ("none", "silu", "swish"), "ndim": (1, 2, 3), "channels_last": (0, 1)},
    "ConvTransposeWithDynamicPads": _WINDOW,
    "CropAndResize": {"mode": ("bilinear", "nearest")},
    "DynamicQuantizeLSTM": {"direction": _RECURRENT},
    "EmbedLayerNormalization": {"mask_index_type": (0, 1)},
    "FusedConv": {**_WINDOW, "activation": _OF_CONV},
    "FusedGemm": {"activation": _OF_GEMM},
    "GatedRMSNorm": {"activation": ("silu", "swish", "sigmoid")},
    "GatherBlockQuantized": {"bits": (2, 4, 8), "block_size": (16, 32, 64, 128, 256)},
    "GridSample": {"mode": ("bilinear", "nearest", "bicubic"), "padding_mode": ("zeros", "border", "reflection")},
    "GroupQueryAttention": {
        "k_quant_type": ("NONE", "PER_TENSOR", "PER_CHANNEL"),
        "v_quant_type": ("NONE", "PER_TENSOR", "PER_CHANNEL"),
        "kv_cache_bit_width": (4, 8),
        "qk_output": (0, 1, 2),
        "smooth_softmax": (-1, 0, 1),
    },
    "LinearAttention": {"update_rule": ("linear", "gated", "delta", "gated_delta")},
    "MatMulBnb4": {"quant_type": (0, 1), "block_size": (16, 32, 64, 128, 256)},
    "MatMulNBits": {"bits": (2, 4, 8), "block_size": (16, 32, 64, 128, 256), "accuracy_level": (0, 1, 2, 3, 4)},
    "MaxpoolWithMask": _WINDOW,
    "MoE": _OF_EXPERTS,
    "QMoE": {**_OF_EXPERTS, "expert_weight_bits": (2, 4, 8), "block_size": (16, 32, 64, 128), "accuracy_level": (0, 4)},
    "NhwcMaxPool": _WINDOW,
    "Pad": {"mode": ("constant", "reflect", "edge")},
    "QLinearAveragePool": _WINDOW,
    "QLinearConv": _WINDOW,
    "AveragePool": _WINDOW,
    "Conv": {**_WINDOW, "activation": _OF_CONV},
    "MaxPool": _WINDOW,
    "Upsample": {"mode": ("nearest", "linear"), "coordinate_transformation_mode": _INTERPOLATED},
}
"""By operator: the values of attributes that take these alone."""


@functools.cache
def kernels(domain: str, op: str) -> tuple[Kernel, ...]:
    """onnxruntime's CPU kernels of the operator, one for each set of types; none where it only knows the schema."""
    named = "" if domain == ADDED else domain
    return tuple(
        {name: tuple(kind[7:-1] for kind in kinds) for name, kinds in found.type_constraints.items()}
        for found in native.get_all_opkernel_def()
        if (found.provider, found.domain, found.op_name) == ("CPUExecutionProvider", named, op)
    )


def features_of(version: OperatorVersion) -> frozenset[str]:
    """All that the kernels of ``version`` offer."""
    return frozenset((*_types(version), *_formals(version), *_attributes(version)))


def used_by(case: Case, version: OperatorVersion) -> frozenset[str]:
    """What ``case``, of ``version``, uses."""
    linked = {index for index, _ in case.around.links}
    formals = [formal.name for formal in version.inputs if formal.kind == "optional"]
    places = {formal.name: index for index, formal in enumerate(version.inputs)}
    given = {
        name: places[name] in linked or (places[name] < len(case.inputs) and case.inputs[places[name]] is not None)
        for name in formals
    }
    asked = {
        formal.name: index < len(case.outputs) and case.outputs[index]
        for index, formal in enumerate(version.outputs)
        if formal.kind == "optional"
    }
    found = [f"{name} {'given' if here else 'left out'}" for name, here in given.items()]
    found += [f"{name} {'asked for' if here else 'not asked for'}" for name, here in asked.items()]
    for name, spec in version.attributes.items():
        found += _told(name, spec, case.attributes.get(name), CLOSED.get(version.op, {}).get(name))
    return frozenset((*found, *_typed(case, version)))


def _types(version: OperatorVersion) -> Iterator[str]:
    read = {formal.type for formal in version.inputs}
    allowed = {name: {kind[7:-1] for kind in kinds} for name, kinds in version.type_constraints.items()}
    for kernel in kernels(version.domain, version.op):
        for name, kinds in kernel.items():
            if name in read:
                yield from (_type(kernel, name, kind) for kind in kinds if kind in allowed[name])


def _type(kernel: Kernel, name: str, kind: str) -> str:
    """A type that a kernel takes; with the single types that set it apart from others of the operator."""
    fixed = [f"{other}={kinds[0]}" for other, kinds in kernel.items() if len(kinds) == 1 and other != name]
    return f"{name}={kind}{' with ' * bool(fixed)}{', '.join(fixed)}"


def _typed(case: Case, version: OperatorVersion) -> Iterator[str]:
    drawn = drawn_types(case, version)
    for kernel in kernels(version.domain, version.op):
        if all(kind in kernel.get(name, (kind,)) for name, kind in drawn.items()):
            yield from (_type(kernel, name, kind) for name, kind in drawn.items() if name in kernel)


def _formals(version: OperatorVersion) -> Iterator[str]:
    for formal in version.inputs:
        if formal.kind == "optional":
            yield from (f"{formal.name} given", f"{formal.name} left out")
    for formal in version.outputs:
        if formal.kind == "optional":
            yield from (f"{formal.name} asked for", f"{formal.name} not asked for")


def _attributes(version: OperatorVersion) -> Iterator[str]:
    for name, spec in version.attributes.items():
        if not spec.required:
            yield f"{name} left out"
        closed = CLOSED.get(version.op, {}).get(name)
        if closed:
            yield from (f"{name}={value!r}" for value in closed)
        else:
            yield f"{name} {'given' if spec.default is None else 'not the default'}"


def _told(name: str, spec: AttributeSpec, value: Any, closed: tuple[object, ...] | None) -> list[str]:
    if value is None:
        return [f"{name} left out"]
    if closed:
        return [f"{name}={value!r}"]
    if spec.default is None:
        return [f"{name} given"]
    return [f"{name} not the default"] if value != spec.default else []
