"""Gates, branches and streams, against onnxruntime's kernels; half precisions within their rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import agrees

Shape = tuple[int, ...]
NATIVE = {"native": True, "dynamic": True}

CASES: list[tuple[str, list[Shape | float], dict[str, Any], dict[str, Any]]] = [
    ("ScaledSiLU", [(2, 3, 4)], {"alpha": 1.3}, NATIVE),
    ("ScaledSiLU", [(2, 3, 4), 0.7], {}, {}),
    ("GatedAdd", [(2, 3, 4), (2, 3, 4), (2, 3, 1)], {}, NATIVE),
    ("GatedRMSNorm", [(2, 3, 8), (4,), (2, 3, 8)], {"activation": "sigmoid", "epsilon": 1e-3}, {}),
    ("GatedRMSNorm", [(2, 3, 8), (4,), (2, 3, 8)], {"activation": "swish"}, {}),
    ("GatedRMSNorm", [(2, 3, 8), (8,), (2, 3, 8)], {}, NATIVE),
    ("BranchwiseRMSNorm", [(2, 3, 4), (4,)], {}, NATIVE),
    ("BranchwiseRMSNorm", [(2, 3, 4), (12,)], {"epsilon": 1e-2}, {"dynamic": True}),
    ("BranchwiseRMSNorm", [(2, 3, 12), (12,)], {"num_branches": 3}, {}),
    ("BranchwiseRMSNorm", [(2, 3, 12), (3, 4)], {"num_branches": 3}, {"dynamic": True}),
    ("BranchwiseRMSNorm", [(2, 3, 12)], {"num_branches": 3}, {}),
    ("EngramGate", [(2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 8), (4, 8), (4, 8)], {}, {"dynamic": True}),
    ("EngramGate", [(2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 8), (4, 8), (4, 8), (4, 8)], {}, {"native": True, "outputs": 2}),
    ("HyperConnectionPreMix", [(2, 3, 4), (2, 3)], {"reduction_scale": 0.5}, NATIVE),
    ("HyperConnectionPreMix", [(2, 3, 4), (2, 3, 1)], {}, {}),
    ("HyperConnectionPreMix", [(2, 3, 4), (2, 3, 4)], {}, {}),
    ("HyperConnectionPreMix", [(2, 5, 12), (2, 5, 3)], {"num_branches": 3}, {}),
    ("HyperConnectionPreMix", [(2, 5, 12), (2, 5, 12)], {"num_branches": 3}, {}),
    ("HyperConnectionPreMix", [(2, 5, 12), (2, 5, 3, 4)], {"num_branches": 3}, {}),
    ("HyperConnectionPreMix", [(2, 5, 12), (2, 5, 3, 1)], {"num_branches": 3}, {}),
    ("HyperConnectionPostMix", [(2, 3, 4), (2, 4), (2, 3)], {}, {"dynamic": True}),
    ("HyperConnectionPostMix", [(2, 3, 4), (2, 4), (2, 3, 4), (2, 3, 3)], {}, {"native": True}),
    ("HyperConnectionPostMix", [(2, 5, 12), (2, 5, 4), (2, 5, 3, 1), (2, 5, 3, 3)], {"num_branches": 3}, {}),
]


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("op", "inputs", "attributes", "options"), CASES)
def test_gates(op: str, inputs: Any, attributes: Any, options: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    arrays = [
        rng.standard_normal(item).astype(dtype) if isinstance(item, tuple) else np.array(item, np.float32) for item in inputs
    ]
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == "f4" else {"rtol": 2e-3, "atol": 2e-3}
    options = {"native": False, **options}
    if dtype == "f2":
        options["native"] = False
    agrees(op, arrays, domain="com.microsoft", opset=1, **close, **options, **attributes)
