"""Functions that are machine code before the first program comes: what programs take of them, and what they do without."""

import itertools
import random
import threading

import pytest
from onnx import helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import code_parts, contraction_standard, standard_code
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from tests.engine.made_here import entry_of
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
def nothing_ready(monkeypatch):
    monkeypatch.setattr(standard_code, "_ready", {})
    monkeypatch.setattr(code_parts, "number_of_parts", lambda: 2)


@pytest.fixture
def asked(monkeypatch):
    """The texts of programs, and the functions of those that were ready."""
    texts, ready = set[str](), set[str]()

    def add(written, module, *added, real=WrittenCode.add):
        texts.update(added)
        real(written, module, *added)
        ready.update(name for made in written._standard for name in made.names)

    monkeypatch.setattr(WrittenCode, "add", add)
    return texts, ready


def begin(level=3):
    standard_code.begin(contraction_standard.DECLARED, contraction_standard.groups(UNIT), level)
    return list(dict.fromkeys(made.code for made in standard_code._ready.values()))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_ready_the_rest_is_made(seed, asked):
    """No function is missing, and none is there twice."""
    for code in begin():
        assert code.result()
    every = dict(standard_code._ready)
    kept = set(random.Random(seed).sample(sorted({made.declared for made in every.values()}), 8))
    for key, made in every.items():
        if made.declared not in kept:
            del standard_code._ready[key]
    for name, usual in USUAL.items():
        program = o2m.convert(usual).lowered
        code = entry_of(program)["object"]
        assert not [symbol for symbol in objects.undefined_symbols(code) if symbol.startswith("o2m_")], name
    assert asked[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_of_what_is_ready(threads, asked):
    for code in begin():
        assert code.result()
    for name in ("few rows", "narrow", "wide and narrow", "pixels", "windows", "fewer products", "attention"):
        asked[1].clear()
        check(MODELS[name], threads)
        assert {"o2m_panel_1", "o2m_rows_1"} & asked[1], name


def test_each_is_what_some_program_asks_for(asked):
    """Else it would be made for nothing."""
    for usual in USUAL.values():
        compiled(usual, 1)
    for text in itertools.chain.from_iterable(contraction_standard.groups(UNIT)):
        assert text in asked[0], text.partition("(")[0]


def test_a_program_waits_for_the_one_that_is_under_way_alone(asked, monkeypatch):
    real, goes_on, begun = standard_code._compiled, threading.Event(), threading.Event()

    def held_up(*given):
        begun.set()
        goes_on.wait()
        return real(*given)

    monkeypatch.setattr(standard_code, "_compiled", held_up)
    first, *others = begin()
    begun.wait()
    threading.Timer(0.2, goes_on.set).start()
    check(MODELS["few rows"])
    assert first.result() and all(code.cancelled() for code in others)
    assert asked[1] == {"o2m_panel_1"}
    # Nobody waits for what is not going to be.
    check(MODELS["pixels"])


def test_a_program_does_without_what_llvm_does_not_take(asked, monkeypatch):
    def refused(*given):
        raise ValueError("LLVM does not take the module")

    monkeypatch.setattr(standard_code, "_compiled", refused)
    for code in begin():
        assert code.exception()
    check(MODELS["few rows"])
    assert not asked[1]


def test_another_level_of_optimization_is_another_code(asked):
    for code in begin(level=0):
        assert code.result()
    check(MODELS["few rows"])
    assert not asked[1]
