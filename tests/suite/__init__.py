"""ONNX's own backend suite, run through `onnx2torch_mlir.backend`."""
