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
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx2torch_mlir.conversion import Converted, convert, from_numpy
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.model import read

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
    """A model of one node; inputs whose positions are in ``known`` are initializers; ``dynamic`` names all dims."""
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


def eager(converted: Converted, arrays: Sequence[Array]) -> list[torch.Tensor]:
    """The core program's outputs in eager PyTorch."""
    tensors = [from_numpy(a, torch_dtype(helper.np_dtype_to_tensor_dtype(a.dtype))) for a in arrays]
    return list(converted.exported.module(check_guards=False)(*tensors))


def to_array(tensor: torch.Tensor) -> Array:
    """A tensor as NumPy, small floats widened."""
    tensor = tensor.detach()
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    return tensor.numpy()


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
) -> Converted:
    """Convert one node and assert that its numbers are the reference's; gives the program for further questions.

    ``expected`` replaces the reference (None inside skips an output); ``native=False`` stays in eager PyTorch.
    """
    model = node_model(
        op, inputs, opset=opset, known=known, outputs=outputs, dynamic=dynamic, domain=domain, **attributes
    )
    feeds = {f"in{i}": value for i, value in enumerate(inputs) if value is not None and i not in known}
    wanted = list(expected) if expected is not None else reference(model, feeds)
    converted = convert(read(model))
    runs = [[to_array(item) for item in eager(converted, list(feeds.values()))]]
    if native:
        runs.append(native_run(converted, list(feeds.values())))
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
    return converted


def native_run(converted: Converted, arrays: Sequence[Array]) -> list[Array]:
    """The program's outputs through Linalg and native code."""
    from onnx2torch_mlir.engine import compile as compile_engine
    from onnx2torch_mlir.lowering import lower

    engine = compile_engine(lower(converted.exported))
    return [item if item.dtype.isbuiltin == 1 else item.astype(np.float32) for item in engine.run(list(arrays))]
