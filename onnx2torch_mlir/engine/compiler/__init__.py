"""From linalg on tensors to a native object file. Runs in a worker process: it imports MLIR, and MLIR may abort."""
