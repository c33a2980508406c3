"""Runs in which an output is written into an input: onnxruntime's kernels that keep past and present in one buffer."""

from __future__ import annotations

from typing import Any

from tools.fuzz_ops.case import Case

_SHARED = {
    "DecoderMaskedMultiHeadAttention": {"out1": "in5", "out2": "in6"},
    "MultiHeadAttention": {"out1": "in6", "out2": "in7"},
    "SparseAttention": {"out1": "in3", "out2": "in4"},
}


def shared_by(case: Case) -> dict[str, str]:
    """The inputs that outputs of ``case`` share the memory with, by the outputs' names."""
    pairs = _SHARED.get(case.op, {}) if case.domain == "com.microsoft" else {}
    # MultiHeadAttention does so where it is told how much of the buffer is filled.
    if case.op == "MultiHeadAttention" and "in8" not in case.given:
        return {}
    feeds = case.feeds()
    return {output: given for output, given in pairs.items() if given in feeds}


def run_shared(case: Case) -> tuple[str, list[Any]]:
    """onnxruntime's name and results with `shared_by`; the case's own arrays stay as they are."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in case.feeds().items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    pairs = shared_by(case)
    for output in session.get_outputs():
        if output.name in pairs:
            binding.bind_ortvalue_output(output.name, values[pairs[output.name]])
        else:
            binding.bind_output(output.name, "cpu")
    session.run_with_iobinding(binding)
    return f"onnxruntime {onnxruntime.__version__}", list(binding.copy_outputs_to_cpu())
