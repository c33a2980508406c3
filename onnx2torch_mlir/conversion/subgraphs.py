"""Sub-graphs of control-flow operators, as a converter sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import Anything
from onnx2torch_mlir.core.subprograms import Formal
from onnx2torch_mlir.diagnostics import Refusal, Severity, refuse
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.model import Kind, value_type_of

if TYPE_CHECKING:
    from onnx2torch_mlir.conversion.driver import GraphConverter


@dataclass(frozen=True)
class SubGraph:
    """A graph attribute: call it to convert its nodes in place, with values for its inputs; outer values are seen."""

    converter: GraphConverter
    graph: ir.Graph
    place: str

    @property
    def formals(self) -> tuple[Formal, ...]:
        """The inputs, as they are declared."""
        found = []
        for value in self.graph.inputs:
            described = value_type_of(value)
            known = described.kind is Kind.TENSOR and described.dtype is not None
            dtype = torch_dtype(int(described.dtype)) if known and described.dtype is not None else None
            found.append(Formal(described.name, dtype, described.shape))
        return tuple(found)

    @property
    def arity(self) -> int:
        """Number of inputs."""
        return len(self.graph.inputs)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.graph.outputs)

    def __call__(self, g: ProgramBuilder, inputs: Sequence[Any] = ()) -> list[Any]:
        """The outputs, for ``inputs``, with the nodes converted into ``g`` (the program, or a sub-program of it).

        Raises:
            Refusal: with the findings of the nodes inside.
        """
        converter = self.converter
        outer, converter.builder = converter.builder, g
        try:
            return self._convert(converter, inputs)
        finally:
            converter.builder = outer

    def _convert(self, converter: GraphConverter, inputs: Sequence[Anything]) -> list[Anything]:
        before = len(converter.findings)
        for formal, value in zip(self.graph.inputs, inputs, strict=True):
            converter.values[formal] = value
        converter.add_initializers(self.graph)
        converter.nodes(list(self.graph), self.place)
        found = converter.findings[before:]
        if any(finding.severity is Severity.ERROR for finding in found):
            del converter.findings[before:]
            raise Refusal(found)
        outputs = []
        for output in self.graph.outputs:
            result = converter.value(output)
            if not isinstance(result, Anything):
                raise refuse("O2M-C008", f"output {output.name} of {self.place} has no value", case=output.name or "")
            outputs.append(result)
        return outputs
