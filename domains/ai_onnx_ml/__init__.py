"""The domain ai.onnx.ml: classical machine learning."""
