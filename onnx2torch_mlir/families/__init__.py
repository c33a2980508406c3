"""ONNX-side helpers: one module per family of operators, called by rows of op_specs and by the converters of domains."""
