"""Converters that need code, one package per ONNX domain."""
