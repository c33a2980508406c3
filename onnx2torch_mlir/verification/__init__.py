"""Holding a model's numbers against onnxruntime's: inputs, runs, comparison, the first node that differs."""
