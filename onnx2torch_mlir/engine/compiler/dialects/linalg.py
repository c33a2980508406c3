"""The classes of linalg's operations, without the language in which the bindings' own module defines named ones anew."""

from torch_mlir.dialects import _linalg_ops_gen

__all__ = ["_linalg_ops_gen"]
