"""``python -m onnx2torch_mlir`` is the ``onnx2mlir`` command."""

import sys

from onnx2torch_mlir.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
