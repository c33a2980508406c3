"""The project as an `onnx.backend.base.Backend`, so that ONNX's own `BackendTest` runner drives it unchanged.

    import onnx.backend.test, onnx2torch_mlir.backend
    tests = onnx.backend.test.BackendTest(onnx2torch_mlir.backend, __name__)

Models run natively: core program, linalg, object code for this CPU. See
https://onnx.ai/onnx/api/backend.html for what the functions promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.backend.base
from onnx import helper

from onnx2torch_mlir.diagnostics import Refusal, Severity, refuse
from onnx2torch_mlir.model import read
from onnx2torch_mlir.model.sources import Source
from onnx2torch_mlir.program import Runnable, check, convert

Array = np.ndarray[Any, Any]


class BackendRep(onnx.backend.base.BackendRep):
    """A prepared model."""

    def __init__(self, program: Runnable, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._program = program
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the order of the graph, as numpy arrays; they can be asked for by name too.

        ``inputs`` is a sequence in the order of the model's run-time inputs, a mapping by name, or a single array.

        Raises:
            Refusal: O2M-U003 where an input does not fit, O2M-X001 or O2M-X002 where the run fails.
        """
        if kwargs:
            raise refuse("O2M-U001", f"run() has no option {sorted(kwargs)[0]}", case=sorted(kwargs)[0])
        if isinstance(inputs, Mapping):
            missing = [name for name in self.inputs if name not in inputs]
            if missing or len(inputs) != len(self.inputs):
                unknown = sorted(set(inputs) - set(self.inputs))
                raise refuse("O2M-U003", f"inputs missing: {missing}; inputs the model does not have: {unknown}")
            inputs = [inputs[name] for name in self.inputs]
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if len(inputs) != len(self.inputs):
            raise refuse("O2M-U003", f"the model has {len(self.inputs)} inputs, {len(inputs)} are given")
        results = self._program.run(list(inputs))
        named: Any = onnx.backend.base.namedtupledict("Outputs", list(self.outputs))
        return named(*results)


class Backend(onnx.backend.base.Backend):
    """Conversion, compilation and execution on the CPU behind ONNX's interface."""

    @classmethod
    def is_compatible(cls, model: Source, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether ``model`` converts; `onnx2torch_mlir.check` says why not."""
        try:
            findings = check(read(model), **kwargs)
        except Refusal:
            return False
        return cls.supports_device(device) and not any(finding.severity is Severity.ERROR for finding in findings)

    @classmethod
    def prepare(
        cls,
        model: Source,
        device: str = "CPU",
        *,
        eager: bool = False,
        threads: int | None = None,
        dims: Mapping[str, int] | None = None,
        **kwargs: Any,
    ) -> BackendRep:
        """Convert and compile ``model`` (a ModelProto; a path or bytes do as well).

        ``eager`` runs the core program in eager PyTorch instead, without MLIR; ``dims`` pins named dims. What the
        runner passes beside these (``rtol``, ``atol``) is for itself.

        Raises:
            Refusal: with every finding of the model.
        """
        if not cls.supports_device(device):
            raise refuse("O2M-U001", f"there is no device {device}; the only one is CPU", case=device)
        program = convert(read(model), dims=dims)
        runnable = program.eager() if eager else program.compile(threads=threads)
        return BackendRep(runnable, [spec.name for spec in program.inputs], [spec.name for spec in program.outputs])

    @classmethod
    def run_model(cls, model: Source, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """`prepare`, then one run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on ``inputs`` (arrays in the node's order; left-out inputs are left out here too).

        ``opset_version`` (default: the newest) is the opset of the node's domain; ``outputs_info`` gives dtype and
        shape of the outputs, which are inferred otherwise.
        """
        opset = int(kwargs.pop("opset_version", 0)) or _newest_opset(node.domain)
        values = [inputs[name] for name in node.input if name] if isinstance(inputs, Mapping) else list(inputs)
        names = list(dict.fromkeys(name for name in node.input if name))
        formals = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), np.shape(value)
            )
            for name, value in zip(names, values, strict=True)
        ]
        outputs = [name for name in node.output if name]
        declared = (
            [helper.make_empty_tensor_value_info(name) for name in outputs]
            if outputs_info is None
            else [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for name, (dtype, shape) in zip(outputs, outputs_info, strict=True)
            ]
        )
        graph = helper.make_graph([node], node.name or node.op_type, formals, declared)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, [np.asarray(value) for value in values], device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.split(":")[0].upper() == "CPU"


def _newest_opset(domain: str) -> int:
    versions = onnx.defs.onnx_opset_version() if domain in ("", "ai.onnx") else 1
    schemas = [schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain]
    return max([versions, *schemas])


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
