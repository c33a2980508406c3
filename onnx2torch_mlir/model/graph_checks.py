"""Whether a graph is well formed: names, order, attributes, tensors; also in its sub-graphs and in functions.

Nothing is changed here. Everything that is wrong is reported, not only the first thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from onnx2torch_mlir.diagnostics import Finding, NodeRef, Severity
from onnx2torch_mlir.model.attribute_checks import graphs_of, problem_of, sparse_tensors_of, tensors_of
from onnx2torch_mlir.model.opsets import domain_of
from onnx2torch_mlir.model.ordering import names_used, topological_order
from onnx2torch_mlir.model.tensor_checks import Place, TensorChecker
from onnx2torch_mlir.model.types import Kind, Report, ValueType, value_type

_ELEMENT_TYPES = frozenset(onnx.TensorProto.DataType.values())


def since_version(op_type: str, domain: str, opset: int | None) -> int | None:
    """The operator version that an opset selects, None where onnx knows no such operator."""
    try:
        return int(onnx.defs.get_schema(op_type, opset or 0, domain).since_version)
    except onnx.defs.SchemaError:
        return None


@dataclass
class GraphChecker:
    """Checks the graphs of one scope of opset imports: the model's, or one function's.

    ``parameters`` are the names of the function's attributes, None outside of functions.
    """

    opsets: Mapping[str, int]
    tensors: TensorChecker
    report: Report
    parameters: frozenset[str] | None = None
    _reported: set[str] = field(default_factory=set)

    def check_graph(self, graph: onnx.GraphProto, place: str, outer: frozenset[str] = frozenset()) -> None:
        """Check ``graph``, which sees the names ``outer`` of the scopes around it."""
        self._check_interface(graph, place)
        initializers = [tensor.name for tensor in graph.initializer]
        sparse = [item.values.name for item in graph.sparse_initializer]
        for tensor in graph.initializer:
            self.tensors.check(tensor, Place(f"Initializer {tensor.name!r} of {place}"))
        for item in graph.sparse_initializer:
            self._check_sparse(item, Place(f"Sparse initializer {item.values.name!r} of {place}"))
        self._check_repeated(initializers + sparse, place)
        inputs = [value.name for value in graph.input]
        self.check_nodes(graph.node, {*inputs, *initializers, *sparse}, place, outer)
        known = outer.union(inputs, initializers, sparse, *(node.output for node in graph.node))
        for output in graph.output:
            if output.name and output.name not in known:
                self._finding("O2M-R010", f"Nothing produces the output {output.name!r} of {place}.", output.name)

    def check_nodes(
        self, nodes: Sequence[onnx.NodeProto], given: Iterable[str], place: str, outer: frozenset[str] = frozenset()
    ) -> None:
        """Check ``nodes``, whose scope starts with the values ``given``."""
        refs = [self._ref(node, place, index) for index, node in enumerate(nodes)]
        defined = self._check_definitions(nodes, refs, given, outer)
        visible = outer | defined
        for node, ref in zip(nodes, refs, strict=True):
            self._check_node(node, ref, visible)
        _, circle = topological_order(nodes)
        if circle:
            way = " -> ".join(str(refs[index].name or f"{refs[index].op_type}[{index}]") for index in circle)
            self._finding("O2M-R009", f"Each of these nodes needs the one before it: {way}.", node=refs[circle[0]])

    def _check_definitions(
        self, nodes: Sequence[onnx.NodeProto], refs: list[NodeRef], given: Iterable[str], outer: frozenset[str]
    ) -> frozenset[str]:
        defined = {name for name in given if name}
        read: set[str] = set()
        for node, ref in zip(nodes, refs, strict=True):
            if outer:
                read |= names_used(node) & outer
            for name in node.output:
                if not name:
                    continue
                if name in defined:
                    self._finding("O2M-R011", f"The value {name!r} is produced more than once.", name, ref)
                elif name in read:
                    reason = f"The value {name!r} is read here before this graph redefines the one around it."
                    self._finding("O2M-R011", reason, name, ref)
                defined.add(name)
        return frozenset(defined)

    def _check_node(self, node: onnx.NodeProto, ref: NodeRef, visible: frozenset[str]) -> None:
        if not node.op_type:
            self._finding("O2M-R021", "The node names no operator.", node=ref)
        domain = domain_of(node.domain)
        if domain not in self.opsets and domain not in self._reported:
            self._reported.add(domain)
            reason = f"The node is of domain {domain or 'ai.onnx'!r}, which is not imported."
            self._finding("O2M-R007", reason, domain or "ai.onnx", ref, "Add the domain to opset_import.")
        for name in node.input:
            if name and name not in visible:
                self._finding("O2M-R010", f"Nothing produces the input {name!r}.", name, ref)
        seen: set[str] = set()
        for attribute in node.attribute:
            problem = problem_of(attribute, self.parameters)
            if attribute.name in seen:
                problem = "It occurs more than once."
            seen.add(attribute.name)
            if problem:
                self._finding("O2M-R017", f"Attribute {attribute.name!r}: {problem}", attribute.name, ref)
                continue
            what = f"Attribute {attribute.name!r}"
            for tensor in tensors_of(attribute):
                self.tensors.check(tensor, Place(what, ref))
            for sparse in sparse_tensors_of(attribute):
                if node.op_type != "Constant" or attribute.sparse_tensors:
                    self._finding("O2M-R017", f"{what}: only Constant may hold a sparse tensor.", attribute.name, ref)
                self._check_sparse(sparse, Place(what, ref))
        for name, graph in graphs_of(node):
            self.check_graph(graph, f"{ref.place}/{ref.name or f'{node.op_type}[{ref.index}]'}.{name}", visible)

    def _check_interface(self, graph: onnx.GraphProto, place: str) -> None:
        root = place == "main"
        initializers = {tensor.name: tensor.data_type for tensor in graph.initializer}
        seen: set[str] = set()
        for index, value in enumerate(graph.input):
            if not value.name:
                self._finding("O2M-R019", f"Input {index} of {place} has no name.")
            elif value.name in seen:
                self._finding("O2M-R011", f"{place} has two inputs of the name {value.name!r}.", value.name)
            seen.add(value.name)
            self.check_type(value, f"input {value.name!r} of {place}", root and value.name not in initializers)
            declared = value.type.tensor_type.elem_type
            if declared and root and initializers.get(value.name, declared) != declared:
                reason = f"The input {value.name!r} of {place} and its initializer have different element types."
                self._finding("O2M-R015", reason, value.name)
        for index, value in enumerate(graph.output):
            if not value.name:
                self._finding("O2M-R019", f"Output {index} of {place} has no name.")
            self.check_type(value, f"output {value.name!r} of {place}", False)
        for value in graph.value_info:
            self.check_type(value, f"value {value.name!r} of {place}", False)

    def check_type(self, value: onnx.ValueInfoProto, what: str, required: bool) -> None:
        """Report element types that are not ONNX's, and a missing type where one is ``required``."""
        problem = _unknown_element(value.type)
        if problem:
            self._finding("O2M-R016", f"The {what} has {problem}.", value.name)
        elif required and not _usable(value_type(value.name, value.type)):
            self._finding("O2M-R019", f"The {what} has no usable type.", value.name)

    def _check_repeated(self, names: list[str], place: str) -> None:
        seen: set[str] = set()
        for name in names:
            if not name:
                reason = f"An initializer of {place} has no name, so nothing can use it; it is left out."
                self._finding("O2M-R015", reason, severity=Severity.WARNING)
            elif name in seen:
                reason = f"{place} has two initializers of the name {name!r}; the last one counts."
                self._finding("O2M-R011", reason, name, severity=Severity.WARNING)
            seen.add(name)

    def _check_sparse(self, sparse: onnx.SparseTensorProto, place: Place) -> None:
        rank = len(sparse.dims)
        self.tensors.check(sparse.values, place)
        self.tensors.check(sparse.indices, place)
        count, shape = list(sparse.values.dims), list(sparse.indices.dims)
        fits = len(count) == 1 and shape in (count, [*count, rank]) and all(size >= 0 for size in sparse.dims)
        if not fits or sparse.indices.data_type != onnx.TensorProto.INT64:
            reason = f"{place.what}: values {count}, indices {shape} and dims {list(sparse.dims)} do not fit together."
            self._finding("O2M-R015", reason, sparse.values.name, place.node)

    def _ref(self, node: onnx.NodeProto, place: str, index: int) -> NodeRef:
        return NodeRef(node.name, node.op_type, domain_of(node.domain), place=place, index=index)

    def _finding(
        self,
        code: str,
        reason: str,
        case: str = "",
        node: NodeRef | None = None,
        hint: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        if node is not None:
            version = since_version(node.op_type, node.domain, self.opsets.get(node.domain))
            node = NodeRef(node.name, node.op_type, node.domain, version, node.place, node.index)
        self.report(Finding(code, reason, hint, case, node, severity))


def _usable(type_: ValueType) -> bool:
    if type_.kind in (Kind.SEQUENCE, Kind.OPTIONAL):
        return type_.element is not None and _usable(type_.element)
    return type_.kind in (Kind.MAP, Kind.OPAQUE) or type_.dtype is not None


def _unknown_element(proto: onnx.TypeProto) -> str:
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        number = getattr(proto, kind).elem_type
        return "" if number in _ELEMENT_TYPES else f"the element type {number}, which is not ONNX's"
    if kind in ("sequence_type", "optional_type"):
        return _unknown_element(getattr(proto, kind).elem_type)
    return _unknown_element(proto.map_type.value_type) if kind == "map_type" else ""
