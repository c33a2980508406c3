"""What onnxruntime adds to the operators of ONNX's own domain."""
