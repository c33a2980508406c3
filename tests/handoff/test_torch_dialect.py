from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from onnx2torch_mlir import isolation
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.core.subprograms import scan
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.handoff import to_torch
from onnx2torch_mlir.handoff.context import parse
from tests.handoff.handoff_programs import Attention, built_attention, export

SIZES = [(1, 1), (2, 7), (7, 2), (1, 2), (2, 1)]


def run_upstream(module, cases):
    arrays = [[tensor.numpy() for tensor in inputs] for inputs in cases]
    return isolation.call("tests.handoff.upstream_linalg:run", module.bytecode(), arrays)


def test_dynamic_views_are_right_at_every_size_after_upstreams_own_lowering():
    model = Attention()
    module = to_torch(export(model, torch.randn(3, 5, 64), dynamic=[(0, 1)]))
    cases = [[torch.randn(batch, length, 64)] for batch, length in SIZES]
    for (x,), (result,) in zip(cases, run_upstream(module, cases), strict=True):
        np.testing.assert_allclose(result, model(x).detach().numpy(), atol=1e-5)


def test_programs_with_unbacked_symbols_are_right_at_every_size():
    torch.manual_seed(0)
    exported = built_attention()
    module = to_torch(exported)
    cases = [[torch.randn(batch, length, 64), torch.randn(batch, length, 64)] for batch, length in SIZES]
    for (x, y), (result, sizes) in zip(cases, run_upstream(module, cases), strict=True):
        np.testing.assert_allclose(result, exported.module()(x, y)[0].numpy(), rtol=1e-4, atol=1e-4)
        assert sizes.tolist() == [len(x), 2 * x.shape[1]]


def test_locations_name_onnx_nodes_and_assertions_stay():
    text = str(to_torch(built_attention()))
    assert 'loc("attend"' in text and 'loc("project"' in text
    assert "torch.runtime.assert" in text


def test_the_graph_is_not_changed():
    exported = built_attention()
    before = str(exported.graph)
    first, second = str(to_torch(exported)), str(to_torch(exported))
    assert str(exported.graph) == before
    assert first == second


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8,
                                   torch.int16, torch.int32, torch.uint32, torch.int64, torch.bool,
                                   torch.float8_e4m3fn, torch.complex64])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 5), (40, 50)])
def test_weights_of_every_dtype_and_shape_survive(dtype, shape):
    weight = (torch.arange(max(1, int(np.prod(shape)))) % 2)[: int(np.prod(shape))].reshape(shape).to(dtype)

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", weight)

        def forward(self, x):
            return x + 1, self.weight.clone()

    module = parse(to_torch(export(Holder(), torch.ones(2))).bytecode())
    literals = [op for op in module.body.operations[0].body.blocks[0] if op.operation.name == "torch.vtensor.literal"]
    assert len(literals) == 1
    text = str(literals[0])
    sizes = "".join(f"{size}x" for size in shape)
    assert re.search(rf"> : tensor<{sizes}[a-z]", text)
    raw = weight.contiguous().flatten().view(torch.uint8).numpy().tobytes().hex().upper()
    if "dense_resource" in text or '"0x' in text:
        assert raw in str(module)
    elif weight.numel():
        body = text[text.index("dense<") + 6 : text.index("> :")].replace("true", "1").replace("false", "0")
        numbers = [float(word) for word in re.findall(r"\(?(-?\d[\d.e+]*)(?:,-?[\d.e+]+\))?", body)]
        expected = weight.flatten().to(torch.float32).tolist()
        assert numbers == (expected if len(numbers) > 1 else expected[:1])
        assert len(numbers) == len(expected) or len(set(expected)) == 1


def test_large_weights_point_into_the_programs_memory():
    model = torch.nn.Linear(512, 512)
    exported = export(model, torch.ones(1, 512))
    module = to_torch(exported)
    with torch.no_grad():
        exported.state_dict["weight"].fill_(1.0)
    assert ("0000803F" * 512) in str(module)


def test_shared_weights_are_stored_once():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Parameter(torch.randn(64, 64))
            self.b = torch.nn.Parameter(self.a.data)

        def forward(self, x):
            return x @ self.a @ self.b

    assert len(to_torch(export(Tied(), torch.ones(2, 64))).bytecode()) < 2 * 64 * 64 * 4


def test_weights_as_arguments_follow_the_inputs_under_their_names():
    module = to_torch(export(Attention(), torch.randn(2, 3, 64)), weights="args")
    text = module.text(locations=False)
    assert text.index('onnx2mlir.input = "x"') < text.index('onnx2mlir.weight = "project.weight"')
    assert "vtensor.literal" not in text and not module.weights


def test_data_dependent_sizes_and_scalars():
    def function(x):
        count = x.sum().to(torch.int64).item()
        torch._check(count >= 0)
        torch._check(count < 100)
        return torch.full((count, 2), 3.0)

    ((filled,),) = run_upstream(to_torch(export(function, torch.ones(4))), [[torch.tensor([1.0, 0.0, 2.0, 0.0])]])
    np.testing.assert_array_equal(filled, np.full((3, 2), 3.0))
    found = to_torch(export(torch.nonzero, torch.ones(4))).text(locations=False)
    assert "torch.aten.nonzero" in found and "!torch.vtensor<[?,1],si64>" in found


def test_control_flow():
    text = str(
        to_torch(export(lambda x: torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,)), torch.ones(3)))
    )
    assert "torch.prim.If" in text and "call @true_graph_0" in text
    with torch.no_grad():
        exported = export(
            lambda x: torch._higher_order_ops.while_loop(
                lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x)
            ),
            torch.ones(3),
        )
    assert "torch.prim.Loop" in str(to_torch(exported))


def test_a_scan_is_a_loop_that_upstream_lowers_right_at_every_size():
    builder = ProgramBuilder()
    x = builder.input("x", torch.float32, ["S", "B", 3])
    start = builder.input("start", torch.float32, ["B", 3])
    factor = builder.input("factor", torch.float32, [3])

    def body(inner, values):
        total = inner.call("aten.add.Tensor", values[0], inner.call("aten.mul.Tensor", values[1], factor))
        return [total, inner.call("aten.neg.default", total), inner.call("aten.cat.default", [values[1], total], 0)]

    with builder.converting("running"):
        carried, stacked = scan(builder, body, [start], [x], x.shape[0])
    module = to_torch(finish(builder, [*carried, *stacked]))
    assert "torch.prim.Loop" in str(module)
    cases = [[torch.randn(s, b, 3), torch.randn(b, 3), torch.randn(3)] for s, b in [*SIZES, (0, 2)]]
    for (sequence, state, scale), results in zip(cases, run_upstream(module, cases), strict=True):
        totals = state + torch.cumsum(sequence * scale, 0)
        last = totals[-1] if len(sequence) else state
        wanted = [last, -totals, torch.cat([sequence, totals], 1)]
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, want.numpy(), atol=1e-5)


def test_dtypes_that_upstream_lacks_are_all_reported():
    exported = export(lambda x, y: (x.to(torch.uint16), y.to(torch.uint64)), torch.ones(2), torch.ones(2))
    with pytest.raises(Refusal) as raised:
        to_torch(exported)
    findings = raised.value.findings
    assert {finding.case for finding in findings} == {"torch.uint16", "torch.uint64"}
    assert {finding.code for finding in findings} == {"O2M-H001"} and all(finding.node for finding in findings)


def test_unknown_ways_to_store_weights_are_refused():
    with pytest.raises(Refusal, match="O2M-U001"):
        to_torch(built_attention(), weights="elsewhere")


def test_what_is_named_for_sizes():
    text = to_torch(built_attention(), symbolic_shapes=True).text(locations=False)
    assert text.count("torch.symbolic_int") == 3 and text.count("torch.bind_symbolic_shape") == 2
