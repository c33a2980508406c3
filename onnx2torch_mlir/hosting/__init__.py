"""What no tensor compiler can express: it is split off an ONNX model and run on the host."""

from onnx2torch_mlir.hosting.sessions import EvaluatorSession, HostSession, OnnxruntimeSession

__all__ = ["EvaluatorSession", "HostSession", "OnnxruntimeSession"]
