"""Whether the model's own functions are well formed, and the calls to them fit."""

from __future__ import annotations

import graphlib
from collections.abc import Iterator, Sequence

import onnx

from onnx2torch_mlir.diagnostics import Finding
from onnx2torch_mlir.model.attribute_checks import graphs_of, problem_of, tensors_of
from onnx2torch_mlir.model.graph_checks import GraphChecker
from onnx2torch_mlir.model.opsets import add_implied, domain_of, read_imports
from onnx2torch_mlir.model.tensor_checks import Place, TensorChecker
from onnx2torch_mlir.model.types import Report

FunctionId = tuple[str, str, str]
"""Domain, name and overload."""


def function_id(proto: onnx.FunctionProto) -> FunctionId:
    """The identity of a function."""
    return domain_of(proto.domain), proto.name, proto.overload


def called(node: onnx.NodeProto) -> FunctionId:
    """The identity of the function that ``node`` calls, if it calls one."""
    return domain_of(node.domain), node.op_type, node.overload


def shown(identity: FunctionId) -> str:
    """How messages write a function's identity."""
    domain, name, overload = identity
    return f"{domain or 'ai.onnx'}::{name}" + (f":{overload}" if overload else "")


def all_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """``nodes`` and those in their sub-graphs."""
    for node in nodes:
        yield node
        for _, graph in graphs_of(node):
            yield from all_nodes(graph.node)


def check_functions(model: onnx.ModelProto, tensors: TensorChecker, report: Report) -> None:
    """Report what is wrong with the functions of ``model``, with recursion among them, and with calls to them."""
    functions: dict[FunctionId, onnx.FunctionProto] = {}
    for proto in model.functions:
        identity = function_id(proto)
        if not proto.name:
            report(Finding("O2M-R018", "A function has no name."))
        elif identity in functions:
            report(Finding("O2M-R018", f"The function {shown(identity)} is defined twice.", case=shown(identity)))
        else:
            functions[identity] = proto
            _check_function(proto, tensors, report)
    needs = {
        identity: {called(node) for node in all_nodes(proto.node)} & functions.keys()
        for identity, proto in functions.items()
    }
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        way = " -> ".join(shown(identity) for identity in error.args[1])
        report(Finding("O2M-R018", f"The functions call themselves in a circle: {way}.", case=way))
    for nodes in (model.graph.node, *(proto.node for proto in functions.values())):
        for node in all_nodes(nodes):
            callee = functions.get(called(node))
            if callee is not None and not _fits(node, callee):
                reason = (
                    f"The node {node.name or node.op_type!r} calls {shown(called(node))} with {len(node.input)} inputs "
                    f"and {len(node.output)} outputs; it has {len(callee.input)} and {len(callee.output)}."
                )
                report(Finding("O2M-R018", reason, case=shown(called(node))))


def _fits(node: onnx.NodeProto, callee: onnx.FunctionProto) -> bool:
    return len(node.input) <= len(callee.input) and len(node.output) <= len(callee.output)


def _check_function(proto: onnx.FunctionProto, tensors: TensorChecker, report: Report) -> None:
    name = shown(function_id(proto))

    def ill(reason: str) -> None:
        report(Finding("O2M-R018", f"The function {name}: {reason}", case=name))

    opsets = read_imports(proto.opset_import, f"The function {name}", report)
    add_implied(opsets, (node.domain for node in all_nodes(proto.node)), report)
    defaults = [attribute.name for attribute in proto.attribute_proto]
    parameters = [*proto.attribute, *defaults]
    for what, names in (("inputs", list(proto.input)), ("outputs", list(proto.output)), ("attributes", parameters)):
        if len(set(names)) < len(names):
            ill(f"two of its {what} have one name.")
        if "" in names:
            ill(f"one of its {what} has no name.")
    for attribute in proto.attribute_proto:
        if problem := problem_of(attribute, None):
            ill(f"the default of its attribute {attribute.name!r}: {problem}")
        else:
            for tensor in tensors_of(attribute):
                tensors.check(tensor, Place(f"The default of attribute {attribute.name!r} of the function {name}"))
    checker = GraphChecker(opsets, tensors, report, frozenset(parameters))
    checker.check_nodes(proto.node, proto.input, f"function {name}")
    produced = {output for node in proto.node for output in node.output} | set(proto.input)
    for output in proto.output:
        if output and output not in produced:
            ill(f"nothing in it produces its output {output!r}.")
    for value in proto.value_info:
        checker.check_type(value, f"value {value.name!r} of function {name}", False)
