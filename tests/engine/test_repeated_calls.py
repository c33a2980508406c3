"""Calls like the one before: native code tells which are, and does not take others for them."""

import collections
import contextlib
import sys
import threading

import numpy as np
import onnx.parser
import pytest
import torch

from onnx2torch_mlir import convert, engine
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.engine import layout, python_objects, result_memory
from tests.engine import programs
from tests.engine.programs import N
from tests.engine.test_engine import DOUBLE, SUM, f32
from tests.engine.test_open_arena import free_blocks
from tests.engine.test_result_memory import FIRST_IS_NOT_NEGATIVE

X, Y = np.arange(6, dtype="f"), np.ones(6, "f")


def compiled(text):
    """The engine of a model whose result takes few operators."""
    return convert(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')).compile(threads=1)


def failing():
    """A program that refuses what begins with a negative number."""
    return engine.compile(programs.lowered(FIRST_IS_NOT_NEGATIVE + DOUBLE, [(f32, (N,))], [(f32, (N,))]))


def places():
    """A program whose result has a size that follows from values."""
    return compiled("(float[n] x) => (int64[1, k] y) { y = NonZero(x) }")


def observed(program):
    """What `layout.REPEAT` gave in the calls of a program that has run once."""
    (context,) = program._contexts
    outcomes, repetition, call = [], context.repetition, context.repetition.call

    def observer(inputs):
        found = call(inputs)
        numbers = [number for number, given in enumerate(repetition.given) if given.arrays is found]
        outcomes.append(layout.REPEATED + numbers[0] if numbers else found)
        return found

    repetition.call = observer
    return outcomes


@pytest.fixture
def added():
    """A program that adds two inputs, after its first call."""
    program = engine.compile(programs.lowered(SUM, [(f32, (N,)), (f32, (N,))], [(f32, (N,))]))
    assert np.array_equal(program.run([X, Y])[0], X + Y)
    return program


def test_this_process_has_objects_as_they_are_expected():
    assert python_objects.are_readable()


FIELDS = ("REFERENCES", "TYPE", "DATA", "RANK", "SIZES", "BASE", "DTYPE", "FLAGS", "WEAK_REFERENCES", "FIRST_BYTE")


@pytest.mark.parametrize("place", FIELDS)
def test_objects_that_lie_otherwise_are_noticed(monkeypatch, place):
    monkeypatch.setattr(python_objects, place, 16 if place in ("TYPE", "FIRST_BYTE") else 8)
    assert not python_objects.are_readable.__wrapped__()


@pytest.mark.parametrize(
    "given",
    [
        {"a0": X, "a1": Y},
        {"a1": Y, "a0": X},
        [X, Y],
        (X, Y),
        [X, np.frombuffer(Y.tobytes(), "f")],  # which cannot be written
        [X[:], np.full((3, 2), 1, "f").reshape(6)],
    ],
)
def test_arrays_that_are_alike(added, given):
    outcomes = observed(added)
    for factor in range(1, 4):
        assert np.array_equal(added.run(given)[0], X + Y)
        assert np.array_equal(added.run([factor * X, factor * Y])[0], factor * (X + Y))
    assert outcomes == [layout.REPEATED] * 6


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.UserDict, type("Mine", (dict,), {})])
def test_inputs_of_other_kinds_are_for_python(added, kind):
    outcomes = observed(added)
    for _ in range(2):
        assert np.array_equal(added.run(kind(a0=X, a1=Y))[0], X + Y)
    assert outcomes == [layout.UNLIKE] * 2


def test_names_are_compared_and_not_the_objects(added):
    outcomes = observed(added)
    assert np.array_equal(added.run({"".join("a0"): X, "".join("a1"): Y})[0], X + Y) and outcomes == [layout.REPEATED]


@pytest.mark.parametrize("given", [{}, [], ()])
def test_a_program_without_inputs(given):
    program = compiled("() => (float[3] y) { y = Constant<value_floats = [1.0, 2.0, 3.0]>() }")
    for _ in range(3):
        assert program.run(given)[0].tolist() == [1, 2, 3]


def test_objects_are_held_only_while_the_program_runs(added):
    x, y, wrong = X.copy(), Y.copy(), Y.astype("d")
    outcomes, arrays = observed(added), added._contexts[0].repetition.given[0].arrays
    watched = (x, y, wrong, arrays)

    def references():
        return [sys.getrefcount(one) for one in (*watched, arrays[0])]

    before = references()
    for given in ([x, y], {"a0": x, "a1": y}, (x, y), {"a0": x, "b": y}, {"a1": y}, [x, wrong], [x], None):
        for _ in range(100):
            found = added._contexts[0].repetition.call(given)
            del found
    assert references() == before
    assert collections.Counter(outcomes) == {layout.REPEATED: 300, layout.UNLIKE: 500}


def test_who_takes_an_input_away_meanwhile_does_not_end_it():
    """Another thread empties the dict that the call was given, which had the only reference to its arrays."""
    program = compiled("(float[n, n] x) => (float[n, n] y) { a = MatMul(x, x) b = MatMul(a, x) y = MatMul(b, x) }")
    size, turns = 300, 50
    given = {"x": np.eye(size, dtype="f")}
    program.run(given)
    outcomes, wrong, begins = observed(program), [], threading.Barrier(2, timeout=60)

    def empty():
        for _ in range(turns):
            begins.wait()
            given.clear()
            np.full((size, size), np.nan, "f")  # finds the same memory, were it free

    other = threading.Thread(target=empty)
    other.start()
    for turn in range(turns):
        given["x"] = np.eye(size, dtype="f")
        begins.wait()
        with contextlib.suppress(Refusal):  # It was empty already.
            wrong += [turn] * (not np.array_equal(program.run(given)[0], np.eye(size)))
    other.join()
    assert not wrong and set(outcomes) <= {layout.REPEATED, layout.UNLIKE, layout.IN_USE}


def test_other_threads_go_on_while_a_program_runs():
    program = compiled("(float[n, n] x) => (float[n, n] y) { y = MatMul(x, x) }")
    x = np.ones((500, 500), "f")
    program.run([x])
    outcomes, seen, interval = observed(program), [], sys.getswitchinterval()

    def work():
        for _ in range(1000):
            program.run([x])
            if seen:
                return

    other = threading.Thread(target=work)
    try:
        sys.setswitchinterval(1000)  # Nobody is made to release the lock.
        other.start()
        seen.append(other.is_alive())
    finally:
        sys.setswitchinterval(interval)
    other.join()
    assert seen == [True] and len(outcomes) < 1000


@pytest.mark.parametrize(
    "other",
    [
        np.arange(12, dtype="f")[::2],
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("f"),
        X.view(type("Other", (np.ndarray,), {})),
        X.astype(np.dtype("f", metadata={"of": "a user"})),
        torch.arange(6.0),
    ],
)
def test_arrays_that_have_to_be_looked_at(added, other):
    outcomes, expected = observed(added), np.asarray(other, "f") + Y
    for _ in range(3):
        assert np.array_equal(added.run([other, Y])[0], expected)
    assert outcomes == [layout.UNLIKE] * 3
    assert np.array_equal(added.run([X, Y])[0], X + Y)


@pytest.mark.parametrize(
    "given",
    [
        [X],
        {"a0": X},
        {"a0": X, "b": Y},
        {"a0": X, "a1": Y, "b": Y},
        [X, Y.astype("d")],
        [X, Y.astype(">f4")],
        [X, Y.view(np.int32)],
        [X, Y.reshape(2, 3)],
        [X, Y[:5]],
        [X, None],
        [X, "text"],
        X.reshape(2, 3),
    ],
)
def test_what_does_not_fit_is_refused_as_in_the_first_call(added, given):
    for _ in range(2):
        with pytest.raises(Refusal) as caught:
            added.run(given)
        assert caught.value.findings[0].code == "O2M-U003"
        assert np.array_equal(added.run([X, Y])[0], X + Y)


def test_other_sizes_are_checked_and_then_are_those_of_before(added):
    outcomes = observed(added)
    for size in (6, 3, 3, 6, 0, 0, 6, 6):
        assert np.array_equal(added.run({"a0": X[:size], "a1": Y[:size]})[0], X[:size] + Y[:size])
    again, other = layout.REPEATED, layout.UNLIKE
    # Without elements there is nothing to give again.
    assert outcomes == [again, other, again, other, other, layout.IN_USE, other, again]


def test_who_holds_what_the_last_call_gave_gets_two_arrays_by_turns(added):
    outcomes, places, result = observed(added), set(), None
    for factor in range(8):
        result = added.run([X, factor * Y])[0]
        places.add(id(result))
        assert np.array_equal(result, X + factor * Y)
    first, second = layout.REPEATED, layout.REPEATED + 1
    assert len(places) == 2 and outcomes == [first, layout.IN_USE, second, first, second, first, second, first]
    held = [added.run([X, factor * Y])[0] for factor in range(5)]
    assert all(np.array_equal(one, X + factor * Y) for factor, one in enumerate(held))
    del held, result
    added.run([X, Y])
    del outcomes[:]
    assert np.array_equal(added.run([X, Y])[0], X + Y) and outcomes == [layout.REPEATED]


def test_results_whose_sizes_follow_from_values():
    """They may lie where the last ones did, or be of other sizes."""
    program = places()
    random, held = np.random.default_rng(1), []
    for count in (3, 3, 3, 9, 2, 0, 0, 7, 7, 500, 7, 9000, 9000, 1):
        x = np.zeros(10_000, "f")
        x[random.choice(10_000, count, replace=False)] = 1
        (found,) = program.run({"x": x})
        assert np.array_equal(found[0], np.flatnonzero(x))
        held = [*held[-1:], (found, np.flatnonzero(x))] if count % 2 else []
        assert all(np.array_equal(one[0], expected) for one, expected in held)


def test_results_that_are_inputs_or_each_other():
    program = compiled("(float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Identity(x) b = Neg(x) c = Identity(b) }")
    for factor in range(4):
        x = factor * X
        a, b, c = program.run({"x": x})
        assert np.array_equal(a, x) and np.array_equal(b, -x) and np.array_equal(c, -x)
        b += 1
        assert np.array_equal(a, x) and np.array_equal(c, -x) and np.array_equal(x, factor * X)


@pytest.mark.parametrize("count", [2, 5, layout.MOST_LENT, layout.MOST_LENT + 1])
def test_many_results(count):
    """Some are kept by who called, and some are not."""
    names = [f"y{i}" for i in range(count)]
    results = ", ".join(f"float[n] {name}" for name in names)
    nodes = "".join(f"c{i} = Constant<value = float {{{i}.0}}>() {name} = Mul(x, c{i})\n" for i, name in enumerate(names))
    program, held = compiled(f"(float[n] x) => ({results}) {{ {nodes} }}"), {}
    for turn in range(9):
        found = program.run({"x": X + turn})
        for number, (array, expected) in held.items():
            assert np.array_equal(array, expected), number
        for i, array in enumerate(found):
            assert np.array_equal(array, i * (X + turn))
        held = {i: (found[i], i * (X + turn)) for i in range(count) if turn % 3 == 2 or (turn % 3 == 1 and i % 2)}


def test_results_of_one_size_find_their_own_memory():
    """They are computed in another order than they are given in, and each takes the first that is lent."""
    program = compiled("""(float[8, 8] x) => (float[8, 8] d, float[8, 8] a, float[8, 8] c, float[8, 8] b) {
      a = MatMul(x, x) b = MatMul(a, x) c = MatMul(b, x) d = MatMul(c, x)
    }""")
    x = np.random.default_rng(3).standard_normal((8, 8)).astype("f")
    program.run([x])
    outcomes, power = observed(program), np.linalg.matrix_power
    for factor in (1, 2, 1, 3, 1):
        for found, degree in zip(program.run([factor * x]), (5, 2, 4, 3), strict=True):
            np.testing.assert_allclose(found, power(factor * x, degree), rtol=1e-4, atol=1e-2)
        del found
    assert outcomes[2:] == [layout.REPEATED] * 3


def test_bools_are_looked_at_in_each_call():
    program = compiled("(bool[n] x) => (bool[n] y) { y = Not(x) }")
    for values in ([1, 0, 1], [0, 0, 1], [0, 7, 255]):
        given = np.array(values, np.uint8).view(np.bool_)
        assert np.array_equal(program.run({"x": given})[0].view(np.uint8), np.array(values) == 0)


def test_a_call_that_fails(monkeypatch):
    freed, free = [], result_memory._free
    monkeypatch.setattr(result_memory, "_free", lambda block: (freed.append(block), free(block)))
    program = failing()
    program.run([X])
    outcomes = observed(program)
    for _ in range(3):
        with pytest.raises(Refusal, match="O2M-X001"):
            program.run([X - 1])
        for _ in range(3):
            assert np.array_equal(program.run([X])[0], 2 * X)
    assert outcomes == [layout.FAILED, layout.IN_USE, layout.REPEATED, layout.REPEATED] * 3 and not freed


@pytest.mark.parametrize("program, other", [(failing, X - 1), (places, X + 1)])
def test_who_interrupts_a_call_leaves_no_memory_to_two(monkeypatch, program, other):
    """Of a call that fails, and of one whose result is of another size, Python has not seen what became of the last result."""
    used = program()
    expected = used.run([X])[0].copy()
    used.run([X])

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(used), "_another_call", interrupted)
        used.run([other])
    (context,) = used._contexts
    assert context.repetition.given == []
    free = free_blocks(context)
    assert len(set(free)) == len(free)
    for _ in range(3):
        assert np.array_equal(used.run([X])[0], expected)


def test_without_what_native_code_has_to_know(monkeypatch):
    monkeypatch.setattr(python_objects, "are_readable", lambda: False)
    program = engine.compile(programs.lowered(SUM, [(f32, (N,)), (f32, (N,))], [(f32, (N,))]))
    large = np.arange(100_000, dtype="f")
    addresses = {program.run([large, large])[0].ctypes.data for _ in range(4)}
    assert len(addresses) == 1 and program._contexts[0].repetition is None
    for size in (5, 5, 0, 6):
        assert np.array_equal(program.run([X[:size], Y[:size]])[0], X[:size] + Y[:size])


def test_inputs_that_other_threads_give(added):
    wrong, last = [], []

    def work(factor):
        for _ in range(500):
            given = {"a0": factor * X, "a1": Y}
            found = added.run(given)[0]
            if not np.array_equal(found, factor * X + Y):
                wrong.append(factor)
            last[:] = [found]

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
