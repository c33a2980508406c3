"""One-node models, converted and compared with a reference: the tool of the operator tests.

`agrees` builds a model of one node, converts it, runs the core program in eager PyTorch and compares with onnxruntime, or
with ONNX's reference evaluator where onnxruntime has no kernel; the same model also runs natively through Linalg.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert

Array = np.ndarray[Any, Any]


def node_model(
    op: str,
    inputs: Sequence[Array | None],
    *,
    opset: int,
    known: Sequence[int] = (),
    outputs: int = 1,
    dynamic: bool = False,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; inputs whose positions are in ``known`` are initializers; ``dynamic`` names all dims.

    An attribute that has the name of a parameter of this function is written with an underscore behind it.
    """
    attributes = {attribute.removesuffix("_"): value for attribute, value in attributes.items()}
    names = [f"in{index}" if value is not None else "" for index, value in enumerate(inputs)]
    results = [f"out{index}" for index in range(outputs)]
    node = helper.make_node(op, names, results, name=f"{op}_node", domain=domain, **attributes)
    formals, initializers = [], []
    for index, value in enumerate(inputs):
        if value is None:
            continue
        if index in known:
            initializers.append(numpy_helper.from_array(value, names[index]))
            continue
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        shape = [f"d{index}_{axis}" if dynamic else size for axis, size in enumerate(value.shape)]
        formals.append(helper.make_tensor_value_info(names[index], element, shape))
    declared = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "one_node", formals, declared, initializers)
    imports = [helper.make_opsetid(domain, opset)]
    if domain:
        imports.append(helper.make_opsetid("", 21))
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = min(helper.find_min_ir_version_for(imports, ignore_unknown=True), 13)
    return model


def reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """onnxruntime's outputs, or those of ONNX's reference evaluator where onnxruntime refuses the model."""
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception:
        return list(ReferenceEvaluator(model).run(None, feeds))


def eager(program: CoreProgram, arrays: Sequence[Any]) -> list[Array]:
    """The core program's outputs in eager PyTorch, small floats widened."""
    return [widened(item) for item in program.eager().run(list(arrays))]


def native_run(program: CoreProgram, arrays: Sequence[Any]) -> list[Array]:
    """The program's outputs through Linalg and native code, small floats widened."""
    return [widened(item) for item in program.compile().run(list(arrays))]


def widened(array: Any) -> Any:
    """An array of a type that NumPy does not know (bfloat16, float8) in float32; another as it is."""
    return array.astype(np.float32) if isinstance(array, np.ndarray) and array.dtype.isbuiltin == 2 else array


def agrees(
    op: str,
    inputs: Sequence[Array | None],
    *,
    opset: int,
    known: Sequence[int] = (),
    outputs: int = 1,
    dynamic: bool = False,
    domain: str = "",
    rtol: float = 1e-5,
    atol: float = 1e-6,
    expected: Sequence[Array | None] | None = None,
    native: bool = True,
    **attributes: Any,
) -> CoreProgram:
    """Convert one node and assert that its numbers are the reference's; gives the program for further questions.

    ``expected`` replaces the reference (None inside skips an output); ``native=False`` stays in eager PyTorch.
    """
    model = node_model(
        op, inputs, opset=opset, known=known, outputs=outputs, dynamic=dynamic, domain=domain, **attributes
    )
    feeds = {f"in{i}": value for i, value in enumerate(inputs) if value is not None and i not in known}
    wanted = list(expected) if expected is not None else reference(model, feeds)
    program = convert(read(model))
    runs = [eager(program, list(feeds.values()))]
    if native:
        runs.append(native_run(program, list(feeds.values())))
    for results in runs:
        assert len(results) == len(wanted)
        for index, (result, want) in enumerate(zip(results, wanted, strict=True)):
            if want is None:
                continue
            want = np.asarray(want)
            assert result.shape == want.shape, f"output {index}: shape {result.shape}, reference {want.shape}"
            if want.dtype.kind in "biufc":
                assert result.dtype == want.dtype, f"output {index}: {result.dtype}, reference {want.dtype}"
            np.testing.assert_allclose(
                result.astype(np.float64) if result.dtype.kind in "biuf" else result,
                want.astype(np.float64) if want.dtype.kind != "c" else want,
                rtol=rtol,
                atol=atol,
            )
    return program
