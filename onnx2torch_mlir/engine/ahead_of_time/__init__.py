"""Native code as files that a C program uses without Python: an object, a header, a weights file and a manifest.

`onnx2torch_mlir.engine.ahead_of_time.writing.write` makes them; `interface` says what the C program sees, and
`onnx2torch_mlir.engine.compiler.c_functions` makes the functions that it calls.
"""
