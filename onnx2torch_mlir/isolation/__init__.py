"""Work that may end its process (native asserts, segfaults, hangs) runs in a process of its own."""

from onnx2torch_mlir.isolation.errors import TaskFailed, WorkerCrashed, WorkerTimeout
from onnx2torch_mlir.isolation.worker import Worker, call, dismiss, retire, shutdown, start

__all__ = ["TaskFailed", "Worker", "WorkerCrashed", "WorkerTimeout", "call", "dismiss", "retire", "shutdown", "start"]
