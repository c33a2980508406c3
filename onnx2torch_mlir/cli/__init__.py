"""The command ``onnx2mlir``."""
