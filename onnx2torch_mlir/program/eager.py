"""The core program in eager PyTorch: a second way to run it, without any MLIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from onnx2torch_mlir.conversion import from_numpy
from onnx2torch_mlir.core.narrow import NARROW, repacked
from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine.arrays import Array, array_dtype, from_anything
from onnx2torch_mlir.engine.binding import check_sizes
from onnx2torch_mlir.engine.engine import described

if TYPE_CHECKING:
    from onnx2torch_mlir.program.core_program import CoreProgram


class EagerProgram:
    """Runs a program in eager PyTorch; the interface is the native engine's."""

    def __init__(self, program: CoreProgram) -> None:
        self._inputs = program.flat_inputs
        self._outputs = program.flat_outputs
        self.inputs = tuple(described(spec, program.dim_names) for spec in self._inputs)
        self.outputs = tuple(described(spec, program.dim_names) for spec in self._outputs)
        self._exported = program.exported
        self._dim_names = program.dim_names
        self._defaults = program.defaults
        held = program.exported.state_dict
        self._weights = [held[name] for name in program.exported.graph_signature.buffers]

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The outputs in order for ``inputs``, by name or in order.

        Raises:
            Refusal: O2M-U003 for an input of another dtype, rank or size, O2M-X002 where PyTorch cannot run the program:
                there are, for instance, no kernels for the arithmetic of uint16, uint32 and float8.
        """
        if isinstance(inputs, Mapping):
            given = {**self._defaults, **inputs}
            missing = [spec.name for spec in self._inputs if spec.name not in given]
            if missing:
                raise refuse("O2M-U003", f"the arrays do not fit the inputs (missing: {', '.join(missing)})", case=missing[0])
            values = [given[spec.name] for spec in self._inputs]
        else:
            values = list(inputs)
        if len(values) != len(self._inputs):
            raise refuse("O2M-U003", f"{len(values)} arrays are given for {len(self._inputs)} inputs")
        tensors = []
        for value, spec in zip(values, self._inputs, strict=True):
            array = np.asarray(value)
            if array.dtype != array_dtype(spec) or array.ndim != len(spec.shape):
                shown = f"{array.dtype}{list(array.shape)}"
                raise refuse("O2M-U003", f"an array {shown} is given for {spec}", case=spec.name)
            tensors.append(from_numpy(array, spec.dtype))
        check_sizes(self._inputs, [tuple(tensor.shape) for tensor in tensors], self._dim_names)
        try:
            with torch.no_grad():
                results = _Evaluator(self._exported.graph_module).run(*self._weights, *tensors)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            first_line = next(iter(str(error).strip().splitlines()), "")
            raise refuse("O2M-X002", f"eager PyTorch: {type(error).__name__}: {first_line}") from error
        return [_array(result, spec) for result, spec in zip(results, self._outputs, strict=True)]


class _Evaluator(torch.fx.Interpreter):
    """Runs a graph node by node, and the graphs of its control flow in the same way: nothing is generated or copied."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = super().get_attr(target, args, kwargs)
        return _Evaluator(found).run if isinstance(found, torch.fx.GraphModule) else found

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        target = _scan if target is torch.ops.higher_order.scan else target
        return super().call_function(target, args, kwargs)


def _scan(combine: Any, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any]) -> Any:
    """torch's scan, for a length of 0 too: what is stacked then has the sizes that a step on zeros gives."""
    if xs[0].shape[0]:
        return torch.ops.higher_order.scan(combine, init, xs, additional)
    results = combine(*init, *(x.new_zeros(x.shape[1:]) for x in xs), *additional)
    stacked = [item.new_empty((0, *item.shape)) for item in results[len(init) :]]
    return (*(item.clone() for item in init), *stacked)


def _array(result: torch.Tensor, spec: TensorSpec) -> Array:
    array = from_anything(result, spec.dtype).copy()
    return repacked(array, NARROW[spec.element]) if spec.element else array
