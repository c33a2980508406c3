"""The domain com.microsoft: what onnxruntime adds to ONNX, as its CPU kernels compute it."""
