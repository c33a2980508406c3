"""What no tensor compiler can express: it is split off an ONNX model and run on the host."""

from onnx2torch_mlir.hosting.inference import holds_host_type
from onnx2torch_mlir.hosting.plan import Plan, split
from onnx2torch_mlir.hosting.sessions import EvaluatorSession, HostSession, OnnxruntimeSession
from onnx2torch_mlir.hosting.steps import HostStep, settled

__all__ = [
    "EvaluatorSession", "HostSession", "HostStep", "OnnxruntimeSession", "Plan", "holds_host_type", "settled", "split",
]  # fmt: skip
