"""Programs of one call: an FX graph over a primitive, with fake tensors whose dims are unbacked symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def program(
    build: Callable[..., Any],
    tensors: Sequence[torch.Tensor],
    dims: Sequence[Sequence[int | str]] = (),
) -> ExportedProgram:
    """``build(graph, *nodes)`` adds the calls with `call` and returns the result nodes.

    ``dims`` has one entry per tensor: for each of its dims an int, or the name of a symbol.
    """
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    symbols: dict[str, Any] = {}
    graph = torch.fx.Graph()
    nodes = []
    for i, tensor in enumerate(tensors):
        names = dims[i] if dims else tensor.shape
        sizes = []
        for name in names:
            if isinstance(name, str) and name not in symbols:
                symbols[name] = env.create_unbacked_symint()
                torch._check(symbols[name] >= 0)
            sizes.append(symbols[name] if isinstance(name, str) else name)
        node = graph.placeholder(f"x{i}")
        with mode:
            node.meta["val"] = torch.empty(sizes, dtype=tensor.dtype)
        nodes.append(node)
    inputs = list(nodes)
    with mode:
        made = build(graph, *nodes)
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    graph.output(tuple(results))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, TensorArgument(n.name), None) for n in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in results],
    )
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict={},
        range_constraints={},
        module_call_graph=[],
        constants={},
    )


def value_of(argument: Any) -> Any:
    """The fake value of a node, in arguments nested in lists."""
    if isinstance(argument, torch.fx.Node):
        return argument.meta["val"]
    if isinstance(argument, (list, tuple)):
        return [value_of(a) for a in argument]
    return argument


def call(graph: torch.fx.Graph, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """Add one call, with the fake value that the operator computes for it."""
    node = graph.call_function(target, args, kwargs)
    node.meta["val"] = target(*value_of(args), **{k: value_of(v) for k, v in kwargs.items()})
    return node
