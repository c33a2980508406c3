"""Operators of the domain com.example, and another Mish, for onnx2torch_mlir."""
