"""Both sides of every version line where a mistake would give wrong numbers without a word.

The lines come from the ledger: an attribute became an input, or a default changed. Each has one case on either side, whose
expected value is written down here, not taken from another implementation: a line without a case fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx2torch_mlir.specs import default_ledger
from onnx2torch_mlir.specs.changes import Change, changes
from tests.one_node import agrees

Array = np.ndarray[Any, Any]

X = np.array([[3.0, -1.0, 2.0, 0.5], [4.0, 1.5, -2.0, 0.25], [1.0, 5.0, 0.75, -3.0]], np.float32)
CUBE = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Side:
    """One side of a line: the node's inputs and attributes, and what it has to give (None: any value of an output)."""

    opset: int
    inputs: Sequence[Array | None]
    expected: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    known: tuple[int, ...] = ()
    dynamic: bool = True


@dataclass(frozen=True)
class Line:
    """The last version before, and the first after."""

    op: str
    before: Side
    after: Side

    @property
    def id(self) -> str:
        return f"{self.op}-{self.before.opset}-{self.after.opset}"


def reduction(name: str, of: Callable[..., Array], first: int = 13, then: int = 18) -> Line:
    x = np.abs(CUBE) + 0.5
    expected = of(x).astype(np.float32)
    return Line(
        name,
        Side(first, [x], [expected], {"axes": [1], "keepdims": 0}),
        Side(then, [x, ints(1)], [expected], {"keepdims": 0}, known=(1,)),
    )


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    e = np.exp(x - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


def hardmax(x: Array) -> Array:
    return (np.arange(x.shape[-1]) == x.argmax(-1)[..., None]).astype(np.float32)


def resized(x: Array) -> Array:
    return x.repeat(2, 2).repeat(2, 3)


IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
GRID = np.array([[[[-1.0, -1.0], [0.0, 0.0], [0.5, 0.25]]]], np.float32)


def bilinear() -> Array:
    result = np.zeros((1, 1, 1, 3), np.float32)
    padded = np.pad(IMAGE[0, 0], 1)
    for index, (gx, gy) in enumerate(GRID[0, 0]):
        x, y = ((gx + 1) * 4 - 1) / 2 + 1, ((gy + 1) * 4 - 1) / 2 + 1
        x0, y0 = int(np.floor(x)), int(np.floor(y))
        fx, fy = x - x0, y - y0
        rows = padded[y0 : y0 + 2, x0 : x0 + 2]
        result[0, 0, 0, index] = np.array([1 - fy, fy]) @ rows @ np.array([1 - fx, fx])
    return result


def lp_pool() -> Array:
    return np.sqrt(sum(IMAGE[:, :, i : i + 3, j : j + 3] ** 2 for i in range(2) for j in range(2)))


def gru() -> tuple[list[Array], Array]:
    """A GRU with all weights 0 but the state's: h = 0.5 * h, from 1, over three steps."""
    x, w, r = np.zeros((3, 1, 2), np.float32), np.zeros((1, 6, 2), np.float32), np.zeros((1, 6, 2), np.float32)
    h = np.ones((1, 1, 2), np.float32)
    return [x, w, r, None, None, h], h * 0.125  # type: ignore[list-item]


def dft(axis: int) -> Array:
    spectrum = np.fft.fft(CUBE[..., None][..., 0], axis=axis)
    return np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)


def selu(alpha: float, gamma: float) -> Array:
    return (gamma * np.where(X > 0, X, alpha * np.exp(X) - alpha)).astype(np.float32)


GRU_INPUTS, GRU_STATE = gru()
TOP = [-np.sort(-X, 1)[:, :2], np.argsort(-X, 1, kind="stable")[:, :2]]
HALVES = [X[:, :1], X[:, 1:]]

LINES = [
    # An attribute became an input.
    Line(
        "Clip",
        Side(6, [X], [X.clip(-1, 2)], {"min": -1.0, "max": 2.0}),
        Side(11, [X, np.float32(-1), np.float32(2)], [X.clip(-1, 2)]),
    ),
    Line(
        "DFT",
        Side(17, [CUBE[..., None]], [dft(2)], {"axis": 2}, dynamic=False),
        Side(20, [CUBE[..., None], None, np.array(2)], [dft(2)], known=(2,), dynamic=False),
    ),
    Line(
        "Dropout",
        Side(10, [X], [X], {"ratio": 0.75}),
        Side(12, [X, np.float32(0.75), np.array(False)], [X], known=(1, 2)),
    ),
    Line(
        "Pad",
        Side(2, [X], [np.pad(X, ((1, 0), (0, 2)), constant_values=7)], {"pads": [1, 0, 0, 2], "value": 7.0}),
        Side(11, [X, ints(1, 0, 0, 2), np.float32(7)], [np.pad(X, ((1, 0), (0, 2)), constant_values=7)], known=(1,)),
    ),
    reduction("ReduceL1", lambda x: np.abs(x).sum(1)),
    reduction("ReduceL2", lambda x: np.sqrt((x * x).sum(1))),
    reduction("ReduceLogSum", lambda x: np.log(x.sum(1))),
    reduction("ReduceLogSumExp", lambda x: np.log(np.exp(x).sum(1))),
    reduction("ReduceMax", lambda x: x.max(1)),
    reduction("ReduceMean", lambda x: x.mean(1)),
    reduction("ReduceMin", lambda x: x.min(1)),
    reduction("ReduceProd", lambda x: x.prod(1)),
    reduction("ReduceSum", lambda x: x.sum(1), 11, 13),
    reduction("ReduceSumSquare", lambda x: (x * x).sum(1)),
    Line(
        "Reshape",
        Side(1, [X], [X.reshape(2, 6)], {"shape": [2, -1]}, dynamic=False),
        Side(5, [X, ints(2, -1)], [X.reshape(2, 6)], known=(1,)),
    ),
    Line(
        "Slice",
        Side(1, [X], [X[1:, :3]], {"axes": [0, 1], "starts": [1, 0], "ends": [9, -1]}),
        Side(10, [X, ints(1, 0), ints(9, -1), ints(0, 1), ints(1, 1)], [X[1:, :3]], known=(1, 2, 3, 4)),
    ),
    Line(
        "Split",
        Side(11, [X], HALVES, {"split": [1, 3], "axis": 1}, dynamic=False),
        Side(13, [X, ints(1, 3)], HALVES, {"axis": 1}, known=(1,), dynamic=False),
    ),
    Line(
        "Squeeze",
        Side(11, [X[None]], [X], {"axes": [0]}, dynamic=False),
        Side(13, [X[None], ints(0)], [X], known=(1,), dynamic=False),
    ),
    Line("TopK", Side(1, [X], TOP, {"k": 2, "axis": 1}), Side(10, [X, ints(2)], TOP, {"axis": 1})),
    Line("Unsqueeze", Side(11, [X], [X[:, None]], {"axes": [1]}), Side(13, [X, ints(1)], [X[:, None]], known=(1,))),
    Line(
        "Upsample",
        Side(7, [IMAGE], [resized(IMAGE)], {"scales": [1.0, 1.0, 2.0, 2.0]}),
        Side(9, [IMAGE, np.array([1, 1, 2, 2], np.float32)], [resized(IMAGE)], known=(1,)),
    ),
    # A default changed.
    Line("Clip", Side(1, [X], [np.minimum(X, 2)], {"max": 2.0}), Side(6, [X], [np.minimum(X, 2)], {"max": 2.0})),
    Line(
        "Concat",
        Side(1, [CUBE, CUBE], [np.concatenate([CUBE, CUBE], 1)], dynamic=False),
        Side(4, [CUBE, CUBE], [np.concatenate([CUBE, CUBE], 2)], {"axis": 2}, dynamic=False),
    ),
    Line(
        "GRU",
        Side(1, GRU_INPUTS, [None, GRU_STATE], {"hidden_size": 2}, dynamic=False),
        Side(3, GRU_INPUTS, [None, GRU_STATE], {"hidden_size": 2}, dynamic=False),
    ),
    Line("GridSample", Side(16, [IMAGE, GRID], [bilinear()]), Side(20, [IMAGE, GRID], [bilinear()])),
    Line(
        "Hardmax",
        Side(11, [CUBE], [hardmax(CUBE.reshape(2, 12)).reshape(2, 3, 4)]),
        Side(13, [CUBE], [hardmax(CUBE)]),
    ),
    Line("LogSoftmax", Side(11, [CUBE], [np.log(softmax(CUBE, (1, 2)))]), Side(13, [CUBE], [np.log(softmax(CUBE, (2,)))])),
    Line("Softmax", Side(11, [CUBE], [softmax(CUBE, (1, 2))]), Side(13, [CUBE], [softmax(CUBE, (2,))])),
    Line(
        "LpPool",
        Side(1, [IMAGE], [lp_pool()], {"kernel_shape": [2, 2]}),
        Side(2, [IMAGE], [lp_pool()], {"kernel_shape": [2, 2]}),
    ),
    Line(
        "Selu", Side(1, [X], [selu(1.6732, 1.0507)]), Side(6, [X], [selu(1.67326319217681884765625, 1.05070102214813232421875)])
    ),
    Line(
        "Split",
        Side(1, [X], [X[:, :2], X[:, 2:]], {"axis": 1}, dynamic=False),
        Side(2, [X[:2]], [X[:1], X[1:2]], dynamic=False),
    ),
    Line(
        "Constant",
        Side(9, [], [X], {"value": helper.make_tensor("v", TensorProto.FLOAT, X.shape, X.ravel())}),
        Side(11, [], [X], {"value": helper.make_tensor("v", TensorProto.FLOAT, X.shape, X.ravel())}),
    ),
]

MORE = [
    # Lines of which the schemas show nothing, or something else.
    Line(
        "Cast",
        Side(1, [X], [X.astype(np.int32)], {"to": "INT32"}),
        Side(6, [X], [X.astype(np.int32)], {"to": TensorProto.INT32}),
    ),
    Line(
        "GlobalLpPool",
        Side(1, [IMAGE], [np.sqrt((IMAGE**2).sum((2, 3), keepdims=True))]),
        Side(2, [IMAGE], [np.sqrt((IMAGE**2).sum((2, 3), keepdims=True))]),
    ),
]


def lines_of_the_ledger() -> set[tuple[str, int, int]]:
    """Where an attribute becomes an input or a default changes, by the ledger."""
    domain = default_ledger().domain("ai.onnx")
    assert domain is not None
    found = set()
    for name in domain.operators():
        operator = domain.operator(name)
        assert operator is not None
        for before, after in zip(operator.versions, operator.versions[1:], strict=False):
            if changes(before, after) & {Change.MOVED_TO_INPUT, Change.DEFAULT_CHANGED}:
                found.add((name, before.since_version, after.since_version))
    return found


def test_every_line_has_a_case() -> None:
    assert {(line.op, line.before.opset, line.after.opset) for line in LINES} == lines_of_the_ledger()


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("line", [*LINES, *MORE], ids=lambda line: line.id)
def test_numbers_on_either_side(line: Line, side: str) -> None:
    case: Side = getattr(line, side)
    arrays = [None if value is None else np.asarray(value) for value in case.inputs]
    agrees(
        line.op,
        arrays,
        opset=case.opset,
        known=case.known,
        outputs=len(case.expected),
        dynamic=case.dynamic,
        expected=case.expected,
        **case.attributes,
    )
