"""All that the signatures of onnxruntime's CPU kernels offer is drawn, but for what is listed here, with a reason."""

from __future__ import annotations

import random

import pytest

from tools.fuzz_ops.draw import Sampled
from tools.fuzz_ops.hunt import Target, targets
from tools.fuzz_ops.signature import features_of, kernels, used_by

DRAWS = 3000
"""The most for one operator; most need a hundred. They are drawn only, not run."""

REFUSED = "onnxruntime's CPU kernel refuses it"
FIXED = "onnxruntime's schema refuses the node without it"
OTHER = "other execution providers alone have it; on a CPU it counts for nothing, or is refused"
THIRD = "onnxruntime's CPU kernel has no third product: it refuses one"

UNDRAWN: dict[str, dict[str, str]] = {
    "Attention": {
        "bias left out": "onnxruntime's CPU kernel ends the process without it",
        "do_rotary given": REFUSED,
    },
    "AttnLSTM": {
        "hidden_size left out": REFUSED,
        **{f"{name} left out": "onnxruntime's CPU kernel ends the process without it" for name in ("QW", "MW", "V", "M")},
        "Y not asked for": "onnxruntime's CPU kernel ends the process without it",
    },
    "CausalConvWithState": {"ndim=2": REFUSED, "ndim=3": REFUSED, "state_window not the default": REFUSED},
    "ConvTransposeWithDynamicPads": {"Pads left out": REFUSED},
    "DecoderMaskedMultiHeadAttention": {
        "key left out": "onnxruntime's CPU kernel ends the process",
        "value left out": "onnxruntime's CPU kernel ends the process",
    },
    "DynamicQuantizeLSTM": {"hidden_size left out": REFUSED},
    "GroupQueryAttention": {"k_norm_weight given": REFUSED, "q_norm_weight given": REFUSED},
    "LinearAttention": {"state_window not the default": REFUSED},
    "MatMulBnb4": {"transB not the default": "onnxruntime's CPU kernel leaves columns of the result unwritten"},
    "MaxpoolWithMask": {"kernel_shape left out": FIXED},
    "MoE": {"fc3_experts_weights given": THIRD, "fc3_experts_bias given": THIRD, "swiglu_fusion=2": REFUSED},
    "MultiHeadAttention": {"key left out": REFUSED, "value left out": REFUSED},
    "QLinearAdd": {"A_zero_point left out": FIXED, "B_zero_point left out": FIXED},
    "QLinearAveragePool": {"x_zero_point left out": FIXED},
    **{
        op: {f"{name}_zero_point left out": "onnxruntime's type inference does not bear it" for name in "XY"}
        for op in ("QLinearLeakyRelu", "QLinearSigmoid")
    },
    "QLinearMul": {"A_zero_point left out": FIXED, "B_zero_point left out": FIXED},
    "QMoE": {
        **{f"fc3_{name} given": THIRD for name in ("experts_weights", "scales", "experts_bias", "zero_points")},
        **{f"fc{place}_scales left out": "onnxruntime's CPU kernel ends the process without them" for place in (1, 2)},
        **{f"fc{place}_{name} given": OTHER for place in (1, 2) for name in ("global_scale", "act_scale", "act_block_scale")},
        "swiglu_fusion=2": REFUSED,
        "quant_type not the default": "onnxruntime's CPU kernel takes codes of other types for integers",
    },
    "Upsample": {"scales left out": REFUSED},
    "UnfoldTensor": {"T=string": REFUSED},
    "ReorderOutput": {"channels left out": FIXED},
}
"""By operator: what is not drawn, and why."""


def of_onnxruntime() -> list[Target]:
    found = [target for target in targets() if target.domain in ("com.microsoft", "com.microsoft.nchwc")]
    return [target for target in found if target.strategy is not None and kernels(target.domain, target.op)]


@pytest.mark.parametrize("target", of_onnxruntime(), ids=str)
def test_every_feature_is_drawn(target: Target) -> None:
    assert target.strategy is not None
    (version,) = target.versions
    listed = UNDRAWN.get(target.op, {})
    offered = features_of(version)
    assert listed.keys() <= offered
    source, left = random.Random(0), set(offered - listed.keys())
    for _ in range(DRAWS):
        if not left:
            break
        drawn = Sampled(source, version)
        target.strategy(drawn)
        used = used_by(drawn.case(), version)
        assert not used & listed.keys(), "this is drawn now: take it out of the list"
        left -= used
    assert not left


def test_the_list_has_a_reason_for_everything() -> None:
    assert UNDRAWN.keys() <= {target.op for target in of_onnxruntime()}
    assert all(reason for listed in UNDRAWN.values() for reason in listed.values())


def test_a_feature_that_no_case_has_is_missed() -> None:
    target = next(target for target in of_onnxruntime() if target.op == "CDist")
    (version,) = target.versions
    drawn = Sampled(random.Random(0), version)
    assert target.strategy is not None
    target.strategy(drawn)
    used = used_by(drawn.case(), version)
    assert used < features_of(version)
    assert {feature for feature in features_of(version) if feature.startswith("metric=")} - used
