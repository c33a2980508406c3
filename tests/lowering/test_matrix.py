"""Every primitive x dtype x {static, dynamic} against eager PyTorch; the dynamic program at sizes 0, 1 and primes.

All cells of a primitive are outputs of one program, so that there is one compilation per primitive and mode.
"""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from onnx2torch_mlir.core.primitives import PRIMITIVES, QUANTIZATION
from onnx2torch_mlir.lowering import lower
from tests.lowering.execution import run_lowered
from tests.lowering.programs import call, program
from tests.lowering.samples import SAMPLES, Sample, X

ELSEWHERE = {
    "aten.view.default": "test_views.py",
    "aten._local_scalar_dense.default": "test_control.py",
    "aten._assert_scalar.default": "test_control.py",
    "aten.sym_size.int": "test_views.py",
    "aten.view.dtype": "tests/families/test_casting.py",
    **{f"quantized_decomposed.{name}": "test_quantization.py" for name in QUANTIZATION},
}
"""Primitives whose arguments are symbolic sizes or dtypes, and the file that runs them."""

STATIC = {"a": 3, "b": 5}
SIZES = ({"a": 3, "b": 5}, {"a": 1, "b": 1}, {"a": 0, "b": 4}, {"a": 7, "b": 2}, {"a": 2, "b": 0})
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9, torch.float16: 4e-3, torch.bfloat16: 4e-2}
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def overload(name: str) -> Any:
    base, _, variant = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), variant or "default")


def make(x: X, dtype: torch.dtype, sizes: dict[str, int], generator: torch.Generator) -> torch.Tensor:
    """A tensor argument with its values."""
    shape = [sizes[d] if isinstance(d, str) else d for d in x.shape]
    dtype = x.dtype or dtype
    kind, _, limit = x.values.partition(":")
    if kind in ("index", "wrap"):
        low = 0 if kind == "index" else -int(limit)
        return torch.randint(low, int(limit), shape, generator=generator).to(dtype)
    if kind == "distinct":
        rows = [torch.randperm(int(limit), generator=generator) for _ in range(max(1, _numel(shape[1:])))]
        return torch.stack(rows, 1)[: shape[0], : _numel(shape[1:])].reshape(shape).to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        unsigned = dtype in UNSIGNED or dtype is torch.uint8
        low, high = {"positive": (1, 9), "small": (0, 4), "unit": (0, 3)}.get(kind, (0 if unsigned else -100, 100))
        return torch.randint(low, high, shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator) * 2
    if kind == "positive":
        values = values.abs() + 1.25
    elif kind == "unit":
        values = values.tanh() * 0.9
    elif kind == "small":
        values = values.round()
    elif kind == "normal" and values.numel() > 6:
        special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 2.5])
        values.view(-1)[:6] = special
    return values.to(dtype)


def _numel(shape: list[int]) -> int:
    count = 1
    for d in shape:
        count *= d
    return count


def flatten(argument: Any) -> list[X]:
    if isinstance(argument, X):
        return [argument]
    if isinstance(argument, (list, tuple)):
        return [x for a in argument for x in flatten(a)]
    return []


def fill(argument: Any, given: list[Any]) -> Any:
    """The argument with each X replaced by the next of ``given``."""
    if isinstance(argument, X):
        return given.pop(0)
    if isinstance(argument, (list, tuple)):
        return [fill(a, given) for a in argument]
    return argument


def wider(argument: Any) -> Any:
    """Tensors of dtypes that have few eager kernels in a wider dtype."""
    if isinstance(argument, (list, tuple)):
        return [wider(a) for a in argument]
    if isinstance(argument, torch.Tensor) and argument.dtype in UNSIGNED:
        return argument.to(torch.int64)
    if isinstance(argument, torch.Tensor) and argument.dtype in (torch.float16, torch.bfloat16):
        return argument.to(torch.float32)
    return argument


def expected(target: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[torch.Tensor], bool]:
    """Eager results, and whether they are those of a wider dtype because PyTorch has no kernel for this one."""
    widened = False
    try:
        result = target(*args, **kwargs)
    except (NotImplementedError, RuntimeError) as error:
        if "not implemented for" not in str(error):
            raise
        widened = True
        result = target(*[wider(a) for a in args], **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result], widened


def cells(name: str) -> list[tuple[Sample, torch.dtype]]:
    return [(sample, dtype) for sample in SAMPLES[name] for dtype in sample.dtypes]


def keywords(sample: Sample, dtype: torch.dtype) -> dict[str, Any]:
    return {k: dtype if k == "dtype" and v is None else v for k, v in sample.kwargs.items()}


def build(name: str, dynamic: bool, seed: int) -> tuple[Any, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    chosen = cells(name)
    specs = [(x, dtype) for sample, dtype in chosen for x in flatten(sample.args)]
    tensors = [make(x, dtype, STATIC, generator) for x, dtype in specs]
    dims = [x.shape for x, _ in specs] if dynamic else ()

    def body(graph: torch.fx.Graph, *nodes: torch.fx.Node) -> list[torch.fx.Node]:
        left = list(nodes)
        results = []
        for i, (sample, dtype) in enumerate(chosen):
            node = call(graph, overload(name), *fill(list(sample.args), left), **keywords(sample, dtype))
            node.meta["onnx_node"] = f"{name}#{i} {dtype} {sample.args}"
            value = node.meta["val"]
            if not isinstance(value, (tuple, list)):
                results.append(node)
                continue
            for k in sample.outputs if sample.outputs is not None else range(len(value)):
                item = graph.call_function(operator.getitem, (node, k))
                item.meta["val"] = value[k]
                results.append(item)
        return results

    return program(body, tensors, dims), tensors


def is_dynamic(sample: Sample) -> bool:
    return any(isinstance(d, str) for x in flatten(sample.args) for d in x.shape)


def compare(name: str, sizes: dict[str, int], run: Any) -> int:
    """Run all cells at these sizes; returns how many were compared."""
    generator = torch.Generator().manual_seed(1)
    inputs = [[make(x, dtype, sizes, generator) for x in flatten(s.args)] for s, dtype in cells(name)]
    wanted: list[tuple[str, Sample, list[torch.Tensor], bool]] = []
    for (sample, dtype), given in zip(cells(name), inputs, strict=True):
        label = f"{name} {dtype} {sample.args} {sample.kwargs} at {sizes}"
        try:
            results, widened = expected(overload(name), fill(list(sample.args), list(given)), keywords(sample, dtype))
        except (RuntimeError, IndexError):
            return 0
        if sample.outputs is not None:
            results = [results[k] for k in sample.outputs]
        wanted.append((label, sample, results, widened))
    got = run([t for given in inputs for t in given])
    for label, sample, results, widened in wanted:
        for result in results:
            own = got.pop(0)
            if widened:
                result = result.to(own.dtype)
            tolerance = sample.tolerance or TOLERANCE.get(result.dtype, 0)
            comparable = (
                (own, result)
                if result.dtype.itemsize > 1 or not result.dtype.is_floating_point
                else (own.view(torch.uint8), result.view(torch.uint8))
            )
            torch.testing.assert_close(
                *comparable, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m, label=label: f"{label}: {m}"
            )
    assert not got
    return len(wanted)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_static(name: str) -> None:
    exported, _ = build(name, False, 0)
    lowered = lower(exported)
    assert compare(name, STATIC, lambda tensors: run_lowered(lowered, tensors)) > 0


@pytest.mark.parametrize("name", sorted(n for n, s in SAMPLES.items() if any(is_dynamic(x) for x in s)))
def test_dynamic(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLES, name, [s for s in SAMPLES[name] if is_dynamic(s)])
    exported, _ = build(name, True, 0)
    lowered = lower(exported)
    compared = [compare(name, sizes, lambda tensors: run_lowered(lowered, tensors)) for sizes in SIZES]
    assert compared[0] > 0


def test_every_primitive_has_cells() -> None:
    tested = {str(overload(name)) for name in SAMPLES}
    assert PRIMITIVES - tested == set(ELSEWHERE)
