"""Clocks around nodes: what they tell, and that only programs compiled inside of a profile have them."""

import itertools
import json

import numpy as np
import pytest
import torch
from onnx import helper

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.profiling import Profile
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine import programs
from tests.engine.programs import M, N

f32 = torch.float32
BODY = """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %nought = arith.constant 0.0 : f32
  %m = tensor.dim %a0, %zero : tensor<?x?xf32>
  %n = tensor.dim %a1, %one : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%nought : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32> loc("product")
  %p = linalg.matmul ins(%a0, %a1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
      loc("product")
  %r = scf.for %i = %zero to %three step %one iter_args(%x = %p) -> tensor<?x?xf32> {
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%x, %x : tensor<?x?xf32>, tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
    ^bb0(%u: f32, %v: f32, %out: f32):
      %s = arith.addf %u, %v : f32
      linalg.yield %s : f32
    } -> tensor<?x?xf32> loc("repeated")
    scf.yield %y : tensor<?x?xf32>
  }
  return %r : tensor<?x?xf32>"""
LOWERED = programs.lowered(BODY, [(f32, (N, M)), (f32, (M, N))], [(f32, (N, N))])


def feeds(n, m):
    rng = np.random.default_rng(0)
    return [rng.normal(size=size).astype("f") for size in ((n, m), (m, n))]


def expected(a, b):
    x = a @ b
    for _ in range(3):
        x = x + x.T
    return x


@pytest.mark.parametrize("disabled", ["", "all"])
def test_nodes_operations_and_bytes_of_the_sizes_that_ran(disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    with Profile() as profile:
        compiled = engine.compile(LOWERED)
    for n, m in ((5, 7), (8, 0), (33, 21)):
        profile.clear()
        arrays = feeds(n, m)
        for _ in range(2):
            assert np.allclose(compiled.run(arrays)[0], expected(*arrays), rtol=1e-4, atol=1e-4)
        nodes = {node.name: node for node in profile.nodes() if node.name != "memref.copy"}
        assert set(nodes) == {"product", "repeated"}
        assert nodes["product"].flops == 2 * 2 * n * n * m and nodes["repeated"].flops == 0
        assert nodes["product"].calls == 2 and nodes["repeated"].calls == 6
        assert nodes["product"].bytes >= 2 * 4 * (2 * n * m + n * n) and nodes["repeated"].bytes >= 6 * 4 * 2 * n * n
        assert all(node.seconds > 0 for node in nodes.values())


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_attention_is_one_site_of_all_its_nodes(dynamic, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "")
    b, h, s, k, d = "bhskd" if dynamic else (1, 3, 20, 30, 8)
    one, two = (helper.make_tensor_value_info(name, 1, [b, h, size, d]) for name, size in (("q", s), ("v", k)))
    nodes = [
        helper.make_node("Transpose", ["v"], ["t"], "turn", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "chances"),
        helper.make_node("MatMul", ["p", "v"], ["y"], "products"),
        helper.make_node("Relu", ["y"], ["z"], "after"),
    ]
    graph = helper.make_graph(nodes, "attention", [one, two], [helper.make_tensor_value_info("z", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with Profile() as profile:
        compiled = convert(read(model)).compile()
    profile.clear()
    compiled.run([np.ones((1, 3, 20, 8), "f"), np.ones((1, 3, 30, 8), "f")])
    sites = {frozenset(node.name.split(" + ")): node for node in profile.nodes()}
    site = next(node for names, node in sites.items() if "scores" in names)
    assert {"scores", "chances", "products"} <= set(site.name.split(" + "))
    assert site.flops == 2 * 2 * 3 * 20 * 30 * 8
    assert sum(node.flops for node in sites.values()) == site.flops


def test_events_are_the_calls_in_order_and_make_a_trace():
    with Profile() as profile:
        compiled = engine.compile(LOWERED)
    compiled.run(feeds(4, 4))
    events = profile.events()
    names = [event.name for event in events if event.name != "memref.copy"]
    assert names == [*["product"] * (len(names) - 3), *["repeated"] * 3] and len(names) > 3
    assert all(one.begin <= one.end <= other.begin for one, other in itertools.pairwise(events))
    trace = json.loads(json.dumps(profile.trace({"product": "MatMul"})))["traceEvents"]
    assert len(trace) == len(events)
    assert trace[0]["ph"] == "X" and trace[0]["cat"] == "MatMul" and trace[0]["dur"] >= 0
    total = sum(event.end - event.begin for event in events)
    assert sum(node.seconds for node in profile.nodes()) == pytest.approx(total / 1e9)
    profile.clear()
    assert not profile.events() and not profile.nodes()


def test_other_programs_have_no_clocks():
    plain = engine.compile(LOWERED)
    with Profile() as profile:
        clocked = engine.compile(LOWERED)
    again = engine.compile(LOWERED)
    arrays = feeds(6, 6)
    assert np.array_equal(plain.run(arrays)[0], again.run(arrays)[0])
    assert not profile.nodes()
    clocked.run(arrays)
    assert profile.nodes()
