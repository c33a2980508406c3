"""Converters of ai.onnx."""
