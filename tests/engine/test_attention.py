"""Scores, what is done with their rows, and products as one loop: the same numbers with and without, in every form."""

import numpy as np
import pytest
from onnx import numpy_helper, parser

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import attention_code, contractions, vector_unit
from tests.engine.made_here import assume_vectors, engine_of, entry_of

SCORES = "t = Transpose<perm = [0, 1, 3, 2]>(k)\n s = MatMul(q, t)"
END = "p = Softmax<axis = -1>(r)\n y = MatMul(p, v)"
SCALE = "c = Constant<value_float = 0.3>()\n a = Mul(s, c)"
FORMS = {
    "plain": f"{SCORES}\n r = Identity(s)\n {END}",
    "scaled and masked": f"{SCORES}\n {SCALE}\n r = Add(a, m)\n {END}",
    "selected": f"{SCORES}\n {SCALE}\n e = Constant<value_float = -10000.0>()\n r = Where(w, a, e)\n {END}",
    "causal": (
        f"{SCORES}\n {SCALE}\n h = Shape<start = 2>(s)\n o = Constant<value_float = -9999.0>()\n f = Expand(o, h)\n"
        f" one = Constant<value_int = 1>()\n u = Trilu<upper = 1>(f, one)\n r = Add(a, u)\n {END}"
    ),
    "keys as columns": f"s = MatMul(q, z)\n r = Identity(s)\n {END}",
    "turned": f"{SCORES}\n p = Softmax<axis = -1>(s)\n o = MatMul(p, v)\n y = Transpose<perm = [0, 2, 1, 3]>(o)",
    "batches and heads as one": (
        "b = Shape<start = 0, end = 2>(q)\n n = Constant<value_ints = [-1]>()\n"
        " i = Shape<start = 2>(q)\n j = Shape<start = 2>(k)\n l = Shape<start = 2>(v)\n"
        " iq = Concat<axis = 0>(n, i)\n ik = Concat<axis = 0>(n, j)\n iv = Concat<axis = 0>(n, l)\n"
        " q1 = Reshape(q, iq)\n k1 = Reshape(k, ik)\n v1 = Reshape(v, iv)\n"
        " t = Transpose<perm = [0, 2, 1]>(k1)\n s = MatMul(q1, t)\n p = Softmax<axis = -1>(s)\n o = MatMul(p, v1)\n"
        " zs = Shape<start = 1>(o)\n oy = Concat<axis = 0>(b, zs)\n y = Reshape(o, oy)"
    ),
    "scores of batches and heads as one": (
        "b = Shape<start = 0, end = 2>(q)\n n = Constant<value_ints = [-1]>()\n"
        " i = Shape<start = 2>(q)\n j = Shape<start = 2>(k)\n iq = Concat<axis = 0>(n, i)\n ik = Concat<axis = 0>(n, j)\n"
        " q1 = Reshape(q, iq)\n k1 = Reshape(k, ik)\n t = Transpose<perm = [0, 2, 1]>(k1)\n s = MatMul(q1, t)\n"
        " zs = Shape<start = 1>(s)\n os = Concat<axis = 0>(b, zs)\n r = Reshape(s, os)\n" + END
    ),
    "sum without softmax": f"{SCORES}\n r = Relu(s)\n y = MatMul(r, v)",
}
SHAPES = [(1, 12, 40, 40, 24, 24), (2, 3, 50, 77, 24, 40), (1, 1, 100, 9, 8, 2), (2, 1, 7, 513, 33, 65), (3, 2, 97, 8, 5, 3)]
"""Batches, heads, rows, keys, and the depths of keys and values."""
FEW = [(2, 3, 1, 64, 16, 16), (1, 2, 5, 30, 8, 8), (1, 1, 6, 1025, 16, 16), (1, 1, 100, 9, 8, 1)]
NONE = [(2, 2, 0, 9, 4, 4), (0, 2, 8, 9, 4, 4), (2, 2, 8, 0, 4, 4), (2, 2, 8, 5, 0, 4), (2, 2, 8, 5, 4, 0)]


def model_of(text, shape=None):
    """A model of a form; without ``shape`` its dims are open."""
    b, h, s, k, d, e = "bhskde" if shape is None else shape
    inputs = {
        "q": f"float[{b}, {h}, {s}, {d}]",
        "k": f"float[{b}, {h}, {k}, {d}]",
        "z": f"float[{b}, {h}, {d}, {k}]",
        "v": f"float[{b}, {h}, {k}, {e}]",
        "m": f"float[{b}, 1, {s}, {k}]",
        "w": f"bool[{s}, {k}]",
    }
    names = set(text.replace("(", " ").replace(")", " ").replace(",", " ").split())
    given = ", ".join(f"{type_} {name}" for name, type_ in inputs.items() if name in names)
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({given}) => (float y) {{ {text} }}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def feeds_of(model, shape):
    random = np.random.default_rng(0)
    b, h, s, k, d, e = shape
    shapes = {"q": (b, h, s, d), "k": (b, h, k, d), "z": (b, h, d, k), "v": (b, h, k, e), "m": (b, 1, s, k)}
    every = {name: random.standard_normal(size).astype("f") for name, size in shapes.items()}
    every["w"] = random.random((s, k)) < 0.8
    return {value.name: every[value.name] for value in model.graph.input}


def loops_of(model, monkeypatch, unit=None):
    """How many loops stand for attentions, the text of @main after them, and what the compiler made."""
    program, found, texts = convert(read(model)).lowered, [], []
    write, rest = attention_code.write, contractions.replace

    def counted(*arguments):
        found.append(arguments[0])
        written = write(*arguments)
        if arguments[0].scores.known_rows is None:
            # What stays for few rows is as it was: a maximum of NaN is NaN there.
            assert not any("nnan" in nest.operation.get_asm() for nest in arguments[0].nests)
        return written

    def replaced(module, *arguments, **more):
        loops = rest(module, *arguments, **more)
        texts.append(module.operation.get_asm(use_local_scope=True, large_elements_limit=8))
        return loops

    with monkeypatch.context() as patched:
        patched.setattr(attention_code, "write", counted)
        patched.setattr(contractions, "replace", replaced)
        if unit is not None:
            assume_vectors(patched, unit)
        entry = entry_of(program)
    return len(found), texts[0], program, entry


def close(ours, wanted):
    np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=5e-6 * max(1, np.abs(wanted).max(initial=0)))


@pytest.mark.parametrize("name", FORMS)
def test_same_numbers_with_and_without(name, monkeypatch):
    """One object for all sizes, few rows and none among them."""
    model = model_of(FORMS[name])
    assert loops_of(model, monkeypatch)[0] == 1
    fused = [convert(read(model)).compile(threads=threads) for threads in (1, 2)]
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "attention")
    plain = convert(read(model)).compile()
    for shape in SHAPES + FEW + NONE:
        feeds = feeds_of(model, shape)
        wanted = plain.run(feeds)[0]
        if 0 not in shape:
            close(wanted, reference(model, feeds)[0])
        for code in fused:
            close(code.run(feeds)[0], wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["scaled and masked", "selected", "batches and heads as one", "turned"])
def test_known_sizes(name, shape, monkeypatch):
    """The matrix of scores is not made."""
    model = model_of(FORMS[name], shape)
    count, text, _, _ = loops_of(model, monkeypatch)
    assert count == 1
    assert not [line for line in text.splitlines() if "memref.alloc(" in line and f"x{shape[2]}x{shape[3]}xf32>" in line]
    feeds = feeds_of(model, shape)
    close(convert(read(model)).compile(threads=2).run(feeds)[0], reference(model, feeds)[0])


@pytest.mark.parametrize("unit", [vector_unit.VectorUnit(4, 16), vector_unit.VectorUnit(16, 32)], ids=str)
def test_other_vector_units(unit, monkeypatch):
    model = model_of(FORMS["scaled and masked"])
    count, _, program, entry = loops_of(model, monkeypatch, unit)
    assert count == 1
    code = engine_of(program, entry)
    for shape in SHAPES:
        feeds = feeds_of(model, shape)
        close(code.run(feeds)[0], reference(model, feeds)[0])


def test_rows_that_are_masked_altogether_are_not_numbers():
    model = model_of(FORMS["scaled and masked"], (1, 2, 30, 20, 8, 8))
    feeds = feeds_of(model, (1, 2, 30, 20, 8, 8))
    feeds["m"][0, 0, 7] = -np.inf
    (result,) = convert(read(model)).compile().run(feeds)
    assert np.isnan(result[0, :, 7]).all() and not np.isnan(np.delete(result, 7, axis=2)).any()


TWICE = f"""{SCORES}
  s2 = MatMul(q2, t)
  p = Softmax<axis = -1>(s)
  p2 = Softmax<axis = -1>(s2)
  o = MatMul(p, v)
  o2 = MatMul(p2, v)
  y = Add(o, o2)"""


CHAIN = f"""{SCORES}
  p = Softmax<axis = -1>(s)
  o = MatMul(p, v)
  r = Relu(o)
  s2 = MatMul(r, t)
  p2 = Softmax<axis = -1>(s2)
  y = MatMul(p2, v)"""


def test_one_after_the_other(monkeypatch):
    """The products of the first would also be scores of another one."""
    shape = (2, 2, 20, 30, 8, 8)
    model = model_of(CHAIN, shape)
    assert loops_of(model, monkeypatch)[0] == 2
    feeds = feeds_of(model, shape)
    close(convert(read(model)).compile(threads=2).run(feeds)[0], reference(model, feeds)[0])


def test_two_that_go_side_by_side(monkeypatch):
    shape = (2, 2, 20, 30, 8, 8)
    model = model_of(TWICE, shape)
    second = model.graph.input.add()
    second.CopyFrom(model.graph.input[0])
    second.name = "q2"
    assert loops_of(model, monkeypatch)[0] == 2
    feeds = feeds_of(model_of(TWICE, shape), shape)
    feeds["q2"] = feeds["q"][:, :, ::-1].copy()
    close(convert(read(model)).compile(threads=2).run(feeds)[0], reference(model, feeds)[0])


SHARED = """k1 = Unsqueeze(k, two)
  g = Constant<value_ints = [1, 1, 3, 1, 1]>()
  k2 = Expand(k1, g)
  sk = Constant<value_ints = [2, 6, 30, 8]>()
  k3 = Reshape(k2, sk)
  t = Transpose<perm = [0, 1, 3, 2]>(k3)
  s = MatMul(q, t)
  p = Softmax<axis = -1>(s)
  v1 = Unsqueeze(v, two)
  v2 = Expand(v1, g)
  v3 = Reshape(v2, sk)
  y = MatMul(p, v3)"""


def test_keys_that_several_heads_share(monkeypatch):
    text = "two = Constant<value_ints = [2]>()\n" + SHARED
    model = model_of(text, (2, 2, 20, 30, 8, 8))
    query = next(value for value in model.graph.input if value.name == "q")
    query.type.tensor_type.shape.dim[1].dim_value = 6
    assert loops_of(model, monkeypatch)[0] == 1
    feeds = feeds_of(model, (2, 2, 20, 30, 8, 8))
    feeds["q"] = np.random.default_rng(1).standard_normal((2, 6, 20, 8)).astype("f")
    close(convert(read(model)).compile(threads=2).run(feeds)[0], reference(model, feeds)[0])


GROUPS = """gs = Constant<value_ints = [2, 2, 3, 20, 8]>()
  g = Reshape(q, gs)
  qs = Constant<value_ints = [2, 2, 60, 8]>()
  q1 = Reshape(g, qs)
  t = Transpose<perm = [0, 1, 3, 2]>(k)
  s1 = MatMul(q1, t)
  ss = Constant<value_ints = [2, 2, 3, 20, 30]>()
  s = Reshape(s1, ss)
  p = Softmax<axis = -1>(s)
  ps = Constant<value_ints = [2, 2, 60, 30]>()
  p1 = Reshape(p, ps)
  y1 = MatMul(p1, v)
  y2 = Reshape(y1, gs)
  ys = Constant<value_ints = [2, 6, 20, 8]>()
  y = Reshape(y2, ys)"""


def test_steps_of_several_heads_are_rows_of_their_keys(monkeypatch):
    model = model_of(GROUPS, (2, 2, 20, 30, 8, 8))
    query = next(value for value in model.graph.input if value.name == "q")
    query.type.tensor_type.shape.dim[1].dim_value = 6
    assert loops_of(model, monkeypatch)[0] == 1
    feeds = feeds_of(model, (2, 2, 20, 30, 8, 8))
    feeds["q"] = np.random.default_rng(1).standard_normal((2, 6, 20, 8)).astype("f")
    close(convert(read(model)).compile(threads=2).run(feeds)[0], reference(model, feeds)[0])


@pytest.mark.parametrize("kept", ["p", "s"])
def test_what_is_a_result_too_is_made(kept, monkeypatch):
    """Scores or probabilities that somebody else reads: the sums stay apart."""
    shape = (1, 2, 20, 30, 8, 8)
    model = model_of(FORMS["plain"], shape)
    model.graph.output.add().CopyFrom(model.graph.output[0])
    model.graph.output[1].name = kept
    assert loops_of(model, monkeypatch)[0] == 0
    feeds = feeds_of(model, shape)
    for ours, wanted in zip(convert(read(model)).compile().run(feeds), reference(model, feeds), strict=True):
        close(ours, wanted)


def test_a_mask_that_is_made_between(monkeypatch):
    """What does not depend on the scores stays where it is."""
    text = f"{SCORES}\n e = Exp(m)\n f = Neg(e)\n r = Add(s, f)\n {END}"
    model = model_of(text)
    assert loops_of(model, monkeypatch)[0] == 1
    code = convert(read(model)).compile(threads=2)
    for shape in SHAPES[:2]:
        feeds = feeds_of(model, shape)
        close(code.run(feeds)[0], reference(model, feeds)[0])


@pytest.mark.parametrize("weight", ["z", "v"])
def test_weights_are_packed_once_instead(weight, monkeypatch):
    shape = (1, 2, 20, 30, 8, 8)
    model = model_of(FORMS["keys as columns"], shape)
    feeds = feeds_of(model, shape)
    wanted = reference(model, feeds)[0]
    position = [value.name for value in model.graph.input].index(weight)
    del model.graph.input[position]
    model.graph.initializer.append(numpy_helper.from_array(feeds.pop(weight), weight))
    count, _, _, entry = loops_of(model, monkeypatch)
    assert count == 0 and len(entry["packings"]) == 1
    close(convert(read(model)).compile().run(feeds)[0], wanted)
