"""Functions that are machine code before the first program comes: what programs take of them, and what they do without."""

import functools
import itertools
import random
import threading

import pytest
from onnx import helper
from torch_mlir import ir

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import code_parts, contexts, contraction_standard, standard_code, task
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from tests.engine.made_here import engine_of, entry_of
from tests.engine.test_needed_tiles import MODELS, check, compiled, convolution, model, node, product

UNIT = of_host()
FEWER = UNIT.rows - 2
USUAL = {
    **MODELS,
    "many rows": product(4 * UNIT.rows, 40, 96),
    "fewer rows than a tile": product(FEWER, 40, 96, constant=False),
    "many pixels": convolution((1, 20, 2 * UNIT.rows + 1, 2 * UNIT.rows + 1), 96, 3, strides=[2, 2]),
    "fewer pixels than a tile": convolution((1, 20, 5, FEWER + 1), 96, 3, strides=[2, 2]),
    "every other pixel": model(
        [helper.make_node("Conv", ["x0", "w0"], ["c"]), node("Conv", "c", "w1", strides=[2, 2])],
        [(1, 20, 19, 19)],
        [(64, 20, 3, 3), (96, 64, 1, 1)],
    ),
    "a single row beside windows": model(
        [
            helper.make_node("Conv", ["x0", "w0"], ["c"], strides=[2, 2]),
            helper.make_node("GlobalAveragePool", ["c"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            node("MatMul", "f", "w1"),
        ],
        [(1, 20, 19, 19)],
        [(64, 20, 3, 3), (64, 96)],
    ),
}


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch):
    monkeypatch.setattr(standard_code, "_known", {})
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: 2)
    task._standard.cache_clear()
    yield
    standard_code.stop()
    task._standard.cache_clear()


@pytest.fixture
def asked(monkeypatch):
    """The texts of programs, and the functions of groups that they have."""
    texts, grouped = set[str](), set[str]()

    def add(written, module, *added, real=WrittenCode.add):
        texts.update(added)
        real(written, module, *added)
        grouped.update(name for group in written._standard for name in group.names)

    monkeypatch.setattr(WrittenCode, "add", add)
    return texts, grouped


def known(level=3):
    return [group for group, _ in task._standard(level, objects.host())]


def likely(program):
    with contexts.new_context(), ir.Location.unknown():
        return task._likely(ir.Module.parse(program), task._standard(3, objects.host()))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_made_before_the_code_is_the_same(seed, asked):
    """No function is missing, and none is there twice."""
    programs = {name: o2m.convert(usual).lowered for name, usual in USUAL.items()}
    codes = {name: entry_of(program)["object"] for name, program in programs.items()}
    task._standard.cache_clear()
    standard_code._known.clear()
    for group in random.Random(seed).sample(known(), 8):
        group.make()
        assert group.result()
    for name, program in programs.items():
        code = entry_of(program)["object"]
        assert not [symbol for symbol in objects.undefined_symbols(code) if symbol.startswith("o2m_")], name
        assert code == codes[name], name
    assert asked[1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("are_made", [True, False])
def test_programs_of_groups(are_made, threads, asked):
    for group in known():
        if are_made:
            group.make()
    for name in ("few rows", "narrow", "wide and narrow", "pixels", "windows", "fewer products", "attention"):
        asked[1].clear()
        check(MODELS[name], threads)
        assert {"o2m_panel_1", "o2m_rows_1", "o2m_tile_f32_2_1"} & asked[1], name


def test_each_is_what_some_program_asks_for(asked):
    """Else it would be made for nothing."""
    for usual in USUAL.values():
        compiled(usual, 1)
    for text in itertools.chain.from_iterable(group.texts for group in contraction_standard.groups(UNIT)):
        assert text in asked[0], text.partition("(")[0]


def test_declarations_are_those_that_mlir_reads():
    # Rows alone are done by another function where tiles have another number of segments.
    texts = {text.partition("(")[0]: text for group in contraction_standard.groups(UNIT) for text in group.texts}
    text = "\n".join([contraction_standard.DECLARED, *texts.values()])
    found, read = standard_code._declarations(text), standard_code.read(text)[1]
    assert {name: line.split() for name, line in found.items()} == {name: line.split() for name, line in read.items()}


def test_a_program_stops_what_it_does_not_ask_for(asked, monkeypatch):
    real, goes_on, begun, calls = standard_code._compiled, threading.Event(), threading.Event(), list[str]()

    def held_up(*given):
        calls.append(given[1])
        begun.set()
        goes_on.wait()
        return real(*given)

    monkeypatch.setattr(standard_code, "_compiled", held_up)
    groups = known()
    program = o2m.convert(MODELS["few rows"]).lowered
    standard_code.begin(groups)
    begun.wait()
    threading.Timer(0.2, goes_on.set).start()
    engine_of(program)
    made = {name for group in groups if group.is_made for name in group.names}
    # What it was likely to ask for may be there too.
    assert asked[1] <= made
    assert not made & {name for group, of_windows in task._standard(3, objects.host()) if of_windows for name in group.names}
    # Those that it made are there for the next one.
    check(MODELS["few rows"])
    assert len(set(calls)) == len(calls)
    # Nobody waits for what is not going to be.
    check(MODELS["pixels"])


def test_what_a_program_is_likely_to_ask_for():
    few_rows, windows = (o2m.convert(MODELS[name]).lowered.bytecode for name in ("few rows", "windows"))
    standard = task._standard(3, objects.host())
    assert likely(few_rows) == [group for group, of_windows in standard if not of_windows]
    assert likely(windows) == [group for group, of_windows in standard if of_windows]
    assert likely(task._LITTLE) == []


def test_what_is_likely_is_made_until_a_program_asks():
    """One after the other, the first one first; those that nobody asked for by the end are not begun."""
    goes_on, begun, made = threading.Event(), threading.Event(), list[int]()

    def make(number):
        made.append(number)
        begun.set()
        goes_on.wait()
        return b""

    groups = [standard_code.Group(frozenset(), frozenset(), "", functools.partial(make, number)) for number in range(3)]
    with WrittenCode(3) as written:
        written.expect(groups)
        begun.wait()
        threading.Timer(0.1, goes_on.set).start()
        assert written.objects() == []
    assert made == [0]


def test_a_program_does_without_what_llvm_does_not_take(asked, monkeypatch):
    def refused(*given):
        raise ValueError("LLVM does not take the module")

    monkeypatch.setattr(standard_code, "_compiled", refused)
    for group in known():
        group.make()
        assert group.is_refused
    check(MODELS["few rows"])
    assert not asked[1]


def test_another_level_of_optimization_is_another_code():
    lower = known(level=0)
    for group in lower:
        group.make()
    assert not any(group.is_made for group in known())
    check(MODELS["few rows"])
    assert any(group.is_made for group in known()) and not set(known()) & set(lower)
