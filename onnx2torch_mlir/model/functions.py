"""Functions: the model's own expanded where they are called, and the bodies that ONNX gives for its operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.model.function_checks import all_nodes
from onnx2torch_mlir.model.instantiation import Instance, UniqueNames
from onnx2torch_mlir.model.normalization import Normalizer
from onnx2torch_mlir.model.opsets import NEWEST, domain_of
from onnx2torch_mlir.model.places import PLACE, STORED_AS, locate, node_ref, sub_graphs, values_captured, walk
from onnx2torch_mlir.model.sources import first_line
from onnx2torch_mlir.model.types import LoadedModel, ValueType
from onnx2torch_mlir.specs import Action, Ledger, SpecTable, default_ledger, default_table

Functions = Mapping[ir.OperatorIdentifier, ir.Function]
REDUCTIONS = ("none", "sum", "mean")
"""What NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss know."""


def expand_functions(
    loaded: LoadedModel, table: SpecTable | None = None, ledger: Ledger | None = None
) -> LoadedModel:
    """A model without calls of its own functions; ``loaded`` itself where it has none, else a copy that shares tensors.

    A function that has the name of an operator which ``table`` implements for the opset at the call is not taken: ONNX
    leaves that to the runtime, and this is what onnxruntime does. It stands in for an operator that is refused.

    A node that comes from a function is named ``call/inner``, after the calling node and the node in the body, as are
    its values; results keep the names that the caller gave them. Nodes keep the opset version of their function
    (``Node.version``), which may differ from the model's imports.

    Raises:
        Refusal: O2M-R018 where a call asks for a result that is an absent optional input.
    """
    if not loaded.ir.functions:
        return loaded
    model = loaded.ir.clone()
    functions = dict(model.functions)
    nodes = list(walk(model.graph))
    graphs = [model.graph, *(g for node in nodes for a in node.attributes.values() for g in sub_graphs(a))]
    values = [value.name for graph in graphs for value in (*graph.inputs, *graph.initializers.values())]
    values += [value.name for node in nodes for value in node.outputs]
    known = _Implemented(table or default_table(), ledger or default_ledger())
    expander = _Expander(functions, known, UniqueNames(node.name for node in nodes), UniqueNames(values))
    expander.expand(model.graph)
    for identity in functions:
        del model.functions[identity]
    return dataclasses.replace(loaded, ir=model)


@dataclasses.dataclass
class _Implemented:
    """Tells the nodes whose operators are implemented by themselves."""

    table: SpecTable
    ledger: Ledger

    def __call__(self, node: ir.Node) -> bool:
        version = None if node.version is None else self.ledger.version(node.domain, node.op_type, node.version)
        if version is None or version.deprecated:
            return False
        row = self.table.find(version.domain, version.op, version.since_version)
        return bool(version.function) if row is None else row.action is not Action.REFUSE


@dataclasses.dataclass
class _Expander:
    functions: Functions
    is_operator: Callable[[ir.Node], bool]
    node_names: UniqueNames
    value_names: UniqueNames

    def expand(self, graph: ir.Graph) -> None:
        for node in list(graph):
            self._expand_node(graph, node)

    def _expand_node(self, graph: ir.Graph, node: ir.Node) -> None:
        function = self.functions.get(node.op_identifier())
        if function is None or self.is_operator(node):
            for attribute in node.attributes.values():
                for inner in sub_graphs(attribute):
                    self.expand(inner)
            return
        copies, replaced, results = self._call(node, function)
        ir.convenience.replace_nodes_and_values(graph, node, [node], copies, replaced, results)
        for copy in copies:
            self._expand_node(graph, copy)

    def _call(self, node: ir.Node, function: ir.Function) -> tuple[list[ir.Node], list[ir.Value], list[ir.Value]]:
        actual = [*node.inputs, *[None] * (len(function.inputs) - len(node.inputs))]
        instance = Instance(
            dict(zip(function.inputs, actual, strict=True)),
            _bound(function.attributes.values(), node.attributes),
            lambda name: self.node_names(f"{node.name}/{name}"),
            lambda name: self.value_names(f"{node.name}/{name}"),
            dict(node.metadata_props),
            {key: node.meta[key] for key in (PLACE, STORED_AS) if key in node.meta},
        )
        copies = instance.nodes(function)
        replaced: list[ir.Value] = []
        results: list[ir.Value] = []
        for formal, wanted in zip(function.outputs, node.outputs, strict=False):
            if not wanted.name:
                continue
            value = instance.values[formal]
            if value is None:
                reason = f"The result {wanted.name!r} is an optional input of the function, which the call leaves out."
                raise refuse("O2M-R018", reason, node=node_ref(node))
            if value in results or value.producer() not in copies:
                copy = ir.Node("", "Identity", [value], version=self._identity_version(function))
                copy.name = self.node_names(f"{node.name}/{formal.name}")
                copies.append(copy)
                value = copy.outputs[0]
            replaced.append(wanted)
            results.append(value)
        return copies, replaced, results

    @staticmethod
    def _identity_version(function: ir.Function) -> int:
        return function.opset_imports.get("", onnx.defs.onnx_opset_version())


def _bound(parameters: Iterable[ir.Attr], given: Mapping[str, ir.Attr]) -> dict[str, ir.Attr]:
    defaults = {parameter.name: parameter for parameter in parameters if parameter.value is not None}
    return {**defaults, **given}


def function_body(
    domain: str, op_type: str, version: int, node: ir.Node, input_types: Sequence[ValueType | None]
) -> ir.Function | None:
    """The body that ONNX itself gives for an operator, None where it gives none.

    ``version`` is the opset version of ``domain`` at the node. ``input_types`` are the types of the node's inputs, in
    order, None for an absent one; bodies that depend on the context (LayerNormalization, CastLike …) are made for them
    and for the node's attributes. Of several bodies the newest that is not newer than the opset is taken, or else
    the oldest.

    The function's inputs and outputs are the operator's formal ones, as far as the body uses them; inputs beyond
    those of the node are absent, and an output that the node does not ask for may be a value without name and producer.
    Values around the node that its sub-graphs read are further inputs, of the same names.
    Attributes are substituted: those of the node, or the operator's defaults. Names are those of the body, unique
    within it only. Its own opsets are in ``opset_imports``, and every node has its ``version``.

    Raises:
        Refusal: O2M-C003 where ONNX cannot build the body for these input types, or where it uses the name of a value
            around the node, O2M-C005 for a word it does not know.
    """
    domain = domain_of(domain)
    if not onnx.defs.has(op_type, version, domain):
        return None
    schema: Any = onnx.defs.get_schema(op_type, version, domain)
    _check_words(schema, node)
    try:
        proto = _body(schema, version, node, input_types)
    except Exception as error:  # whatever the builder behind the schema raises
        reason = f"ONNX's function body of {op_type} cannot be built for these inputs: {first_line(error)}."
        raise refuse("O2M-C003", reason, node=node_ref(node)) from None
    if proto is None:
        return None
    defaults = [
        ir.serde.deserialize_attribute(attribute.default_value)
        for attribute in schema.attributes.values()
        if attribute.default_value.name
    ]
    Normalizer("").function(proto)
    _complete_imports(proto)
    produced = {name for inner in proto.node for name in inner.output} | set(proto.input)
    for captured in values_captured(node):
        if captured.name in produced:
            reason = f"ONNX's function body of {op_type} has a value {captured.name} of its own, as a sub-graph reads one"
            raise refuse("O2M-C003", reason, node=node_ref(node), case=captured.name or "")
        proto.input.append(captured.name or "")
    wanted = list(proto.output)
    proto.output[:] = [name for name in wanted if name in produced]
    formal = ir.serde.deserialize_function(proto)
    locate(formal.graph, dict(formal.opset_imports), f"function {schema.name}")
    bound = _bound([*defaults, *formal.attributes.values()], node.attributes)
    return _substituted(formal, bound, [name in produced for name in wanted])


def _check_words(schema: Any, node: ir.Node) -> None:
    """Refuse what ONNX's builders take for the last of their cases: a reduction of a name of its own."""
    attribute = node.attributes.get("reduction") if schema.name.endswith("Loss") else None
    if attribute is not None and attribute.value not in REDUCTIONS:
        reason = f"reduction={attribute.value!r} of {schema.name} is none of {', '.join(REDUCTIONS)}"
        raise refuse("O2M-C005", reason, node=node_ref(node), case="reduction")


def _body(
    schema: Any, version: int, node: ir.Node, input_types: Sequence[ValueType | None]
) -> onnx.FunctionProto | None:
    if schema.has_function:
        return _static_body(schema.domain, schema.name, schema.since_version, version)
    if not schema.has_context_dependent_function:
        return None
    chosen = _choose(schema.context_dependent_function_opset_versions, version)
    floating = _floating(schema, input_types)
    types = [b"" if type_ is None else type_.to_proto().SerializeToString() for type_ in floating]
    call = ir.serde.serialize_node(node).SerializeToString()
    encoded = schema.get_context_dependent_function_with_opset_version(chosen, call, types)
    if not encoded:
        return None
    proto = onnx.FunctionProto()
    proto.ParseFromString(encoded)
    for index, (given, taken) in enumerate(zip(input_types, floating, strict=True)):
        if given is not taken and taken is not None:
            _cast_first(proto, proto.input[index], int(taken.dtype or 0))
    return proto


_HOLDS_INFINITY = {("", "Attention"): 3}
"""Inputs into whose type a body casts -infinity, which no integer holds: the mask, to which integers may be added."""


def _floating(schema: Any, input_types: Sequence[ValueType | None]) -> list[ValueType | None]:
    """The types to make a body for: floats for integers that would have to hold -infinity."""
    types = list(input_types)
    index = _HOLDS_INFINITY.get((schema.domain, schema.name), len(types))
    given = types[index] if index < len(types) else None
    if given is not None and given.dtype is not None and given.dtype.is_integer():
        double = types[0] is not None and types[0].dtype is ir.DataType.DOUBLE
        types[index] = dataclasses.replace(given, dtype=ir.DataType.DOUBLE if double else ir.DataType.FLOAT)
    return types


def _cast_first(proto: onnx.FunctionProto, name: str, element: int) -> None:
    """Let the body read its input ``name`` in the type ``element``."""
    for inner in proto.node:
        inner.input[:] = [f"{name}_floating" if read == name else read for read in inner.input]
    proto.node.insert(0, onnx.helper.make_node("Cast", [name], [f"{name}_floating"], to=element))


@lru_cache(maxsize=256)
def _static_bytes(domain: str, op_type: str, since: int, version: int) -> bytes:
    schema: Any = onnx.defs.get_schema(op_type, since, domain)
    return bytes(schema.get_function_with_opset_version(_choose(schema.function_opset_versions, version)))


def _static_body(domain: str, op_type: str, since: int, version: int) -> onnx.FunctionProto:
    proto = onnx.FunctionProto()
    proto.ParseFromString(_static_bytes(domain, op_type, since, version))
    return proto


def _complete_imports(proto: onnx.FunctionProto) -> None:
    """Import what the body uses and does not import, as FlexAttention's does: it is written for the newest opset."""
    used = {inner.domain for inner in all_nodes(proto.node)}
    for domain in sorted(used - {domain_of(entry.domain) for entry in proto.opset_import}):
        proto.opset_import.add(domain=domain, version=NEWEST.get(domain, 1))


def _choose(versions: Sequence[int], version: int) -> int:
    return max((known for known in versions if known <= version), default=min(versions))


def _substituted(formal: ir.Function, attributes: Mapping[str, ir.Attr], produced: Sequence[bool]) -> ir.Function:
    """A copy of ``formal`` with its attribute parameters replaced; outputs not ``produced`` are empty values."""
    inputs = [ir.Value(name=value.name) for value in formal.inputs]
    instance = Instance(dict(zip(formal.inputs, inputs, strict=True)), attributes, str, str)
    nodes = instance.nodes(formal)
    results = iter(formal.outputs)
    outputs = [instance.values[next(results)] if there else None for there in produced]
    graph = ir.Graph(
        inputs,
        [value or ir.Value(name="") for value in outputs],
        nodes=nodes,
        opset_imports=dict(formal.opset_imports),
        name=formal.name,
    )
    return ir.Function(formal.domain, formal.name, formal.overload, graph=graph, attributes=())
