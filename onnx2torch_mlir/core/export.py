"""The finished program: a `torch.export.ExportedProgram` made of what the builder recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
import torch.fx
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from onnx2torch_mlir.core.builder import Constant, ProgramBuilder
from onnx2torch_mlir.core.dims import is_signed
from onnx2torch_mlir.core.nodes import eliminate_dead_code
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.core.weights import merge_and_name


def finish(builder: ProgramBuilder, outputs: Sequence[Value]) -> ExportedProgram:
    """Close the graph with ``outputs`` and wrap it.

    Constants become buffers, their keys made of the names of their ONNX initializers (`weights.weight_name`); the order of
    placeholders is constants, then inputs.
    """
    graph = builder.graph
    graph.output(tuple(value.node for value in outputs))
    weights = merge_and_name(_eliminate(graph, builder))
    order = [node.name for node in graph.nodes if node.op == "placeholder" and node in weights]
    output_nodes = list(graph.output_node().args[0])  # type: ignore[arg-type]
    input_specs = [InputSpec(InputKind.BUFFER, TensorArgument(name), name, persistent=True) for name in order]
    input_specs += [InputSpec(InputKind.USER_INPUT, TensorArgument(value.node.name), None) for value in builder.inputs]
    output_specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in output_nodes]
    arguments = tuple(value.node.name for value in builder.inputs)
    in_spec = pytree.tree_structure((tuple(arguments), {}))
    out_spec = pytree.tree_structure(tuple(node.name for node in output_nodes))
    call_signature = ModuleCallSignature(
        inputs=[TensorArgument(name) for name in arguments],
        outputs=[TensorArgument(node.name) for node in output_nodes],
        in_spec=in_spec,
        out_spec=out_spec,
        forward_arg_names=list(arguments),
    )
    state = {node.name: tensor for node, tensor in weights.items()}
    return ExportedProgram(
        root=builder.modules,
        graph=graph,
        graph_signature=ExportGraphSignature(input_specs, output_specs),
        state_dict=state,
        range_constraints=_ranges(builder),
        module_call_graph=[ModuleCallEntry("", call_signature)],
        constants={},
    )


def _ranges(builder: ProgramBuilder) -> dict[sympy.Symbol, Any]:
    return {
        symbol: ValueRanges(-int_oo if is_signed(symbol) else 0, int_oo)
        for symbol in (sympy.Symbol(name, integer=True) for name in builder.table.names)
    }


def _eliminate(graph: torch.fx.Graph, builder: ProgramBuilder) -> list[Constant]:
    eliminate_dead_code(graph)
    used: list[Constant] = []
    for constant in builder.constants:
        if constant.node.users:
            used.append(constant)
        else:
            graph.erase_node(constant.node)
    return used
