"""Converters of the domain ai.onnx.preview.training."""
