"""``python -m onnx2torch_mlir`` is the ``onnx2mlir`` command."""

from onnx2torch_mlir.cli.main import command

if __name__ == "__main__":
    command()
