"""Where the bindings look first for what Python knows of a dialect, a module of its name (linalg_ops.py)."""
