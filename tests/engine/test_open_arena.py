"""Buffers of sizes that the run tells: parts of one block from the second call on, whatever sizes the calls have."""

import ctypes
import threading

import numpy as np
import onnx
import pytest

pytest.importorskip("torch_mlir")
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.engine import layout
from onnx2torch_mlir.hosting.sessions import OnnxruntimeSession
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

NETWORK = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 8, h, w_] x, float[24, 8, 3, 3] v, float[8, 24, 1, 1] u) => (float[n, 8, h, w_] y) {
  a = Conv<pads = [1, 1, 1, 1]>(x, v)  b = Relu(a)  c = Conv(b, u)
  d = Conv<pads = [1, 1, 1, 1]>(c, v)  e = Relu(d)  f = Conv(e, u)  p = Add(f, c)
  q = Conv<pads = [1, 1, 1, 1]>(p, v)  r = Sigmoid(q)  s = Conv(r, u)  y = Add(s, f)
}"""

LOOP = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, m] x, int64 times, float[m, m] w) => (float[p, m] y) {
  t = Constant<value = bool {1}>()
  y = Loop(times, t, x) <body = body (int64 i, bool c, float[k, m] z) => (bool c_, float[l, m] z_) {
    c_ = Identity(c)
    a = MatMul(z, w)  b = Softmax<axis = 0>(a)  d = MatMul(b, w)  e = Concat<axis = 0>(z, d)
    ends = Constant<value = int64[1] {40}>()  starts = Constant<value = int64[1] {0}>()
    z_ = Slice(e, starts, ends)
  }>
}"""


def network():
    """The model, and arrays for it of a batch and an image's size."""
    model = onnx.parser.parse_model(NETWORK)
    random = np.random.default_rng(0)
    weights = {"v": (24, 8, 3, 3), "u": (8, 24, 1, 1)}
    made = [onnx.numpy_helper.from_array((0.2 * random.standard_normal(s)).astype("f"), n) for n, s in weights.items()]
    model.graph.initializer.extend(made)
    del model.graph.input[1:]
    return model, lambda *sizes: {"x": random.standard_normal((sizes[0], 8, *sizes[1:])).astype("f")}


def free_blocks(context):
    """The blocks that a context keeps."""
    word, found = ctypes.c_uint64, []
    block = word.from_address(context.address + 8 * layout.FREE).value
    while block:
        found.append(block)
        block = word.from_address(block + 8 * layout.NEXT).value
    return found


def kept(context):
    """Their sizes."""
    return [ctypes.c_uint64.from_address(block + 8 * layout.CAPACITY).value for block in free_blocks(context)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("disabled", ["", "arena", "all"])
def test_calls_of_all_sizes(threads, disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    model, feeds = network()
    engine, session = convert(read(model)).compile(threads=threads), OnnxruntimeSession(model)
    for sizes in ((1, 9, 9), (2, 40, 33), (2, 40, 33), (1, 3, 50), (1, 1, 1), (0, 5, 5), (3, 41, 40), (3, 41, 40), (1, 9, 9)):
        given = feeds(*sizes)
        (found,), (expected,) = engine.run(given), session.run(given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_one_block_from_the_second_call_on(monkeypatch):
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    model, feeds = network()
    engine = convert(read(model)).compile(threads=1)
    given = feeds(1, 60, 60)
    (first,) = engine.run(given)
    (context,) = engine._contexts
    reach = context.word(layout.WANTED)
    image = 4 * 60 * 60
    # What lives at once is an image of 24 channels and three of 8, one of which is padded.
    assert 48 * image < reach < 56 * image
    # Others of their own are given back: the next call has a block of that size.
    assert kept(context) == []
    (again,) = engine.run(given)
    np.testing.assert_array_equal(again, first)
    blocks = kept(context)
    assert sum(size >= reach for size in blocks) == 1
    assert sum(blocks) < 2 * reach
    for _ in range(3):
        engine.run(given)
        assert sorted(kept(context)) == sorted(blocks)
        assert context.word(layout.WANTED) == reach
        assert [context.word(word) for word in (layout.SLAB, layout.ROOM, layout.LIVE, layout.REACH)] == [0] * 4
    # Sizes may change from call to call.
    for _ in range(3):
        engine.run(feeds(1, 12, 12))
        assert context.word(layout.WANTED) == reach
        engine.run(given)
        assert sum(size >= reach for size in kept(context)) == 1
    # A block of which little is needed for long is given back.
    for _ in range(17):
        engine.run(feeds(1, 12, 12))
    assert 0 < context.word(layout.WANTED) < reach // 4
    assert max(kept(context)) < reach // 2


def test_what_loops_make_and_hand_on():
    """The first buffer may be made in a turn, at whose end what it made is freed."""
    model = onnx.parser.parse_model(LOOP)
    random = np.random.default_rng(1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal((6, 6)).astype("f") / 3, "w"))
    del model.graph.input[2:]
    engine, session = convert(read(model)).compile(threads=1), OnnxruntimeSession(model)
    for count, times in ((1, 3), (2, 6), (2, 6), (5, 2), (3, 0), (5, 2), (7, 9), (7, 9)):
        given = {"x": random.standard_normal((count, 6)).astype("f"), "times": np.array(times)}
        (found,), (expected,) = engine.run(given), session.run(given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_calls_that_fail_leave_nothing():
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      g (float[n, m] x, float[k, m] y) => (float[p, m] z) {
        a = Softmax<axis = 0>(x)  b = Concat<axis = 0>(a, a)  c = Softmax<axis = 1>(b)  d = Add(c, y)  z = Softmax<axis = 0>(d)
      }""")
    engine = convert(read(model)).compile(threads=1)
    x = np.random.default_rng(2).standard_normal((30, 7)).astype("f")
    y = np.ones((60, 7), "f")
    (expected,) = engine.run([x, y])
    for _ in range(3):
        with pytest.raises(Refusal, match="O2M-X001"):
            engine.run([x, y[:59]])
        (found,) = engine.run([x, y])
        np.testing.assert_array_equal(found, expected)
        (context,) = engine._contexts
        assert context.word(layout.LIVE) == 0


def test_calls_of_several_threads_at_once():
    model, feeds = network()
    engine, session = convert(read(model)).compile(threads=1), OnnxruntimeSession(model)
    wrong = []

    def call(number):
        for turn in range(6):
            given = feeds_of[number][turn % 3]
            if not np.allclose(engine.run(given)[0], wanted[number][turn % 3], rtol=1e-4, atol=1e-4):
                wrong.append((number, turn))

    feeds_of = [[feeds(1 + number % 2, 5 + 9 * turn, 7 + number) for turn in range(3)] for number in range(4)]
    wanted = [[session.run(given)[0] for given in several] for several in feeds_of]
    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []
