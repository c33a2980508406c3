"""Whole generations against onnxruntime: the same words, and scores that differ in rounding only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T

import onnx2torch_mlir as o2m
from onnx2torch_mlir.program import CoreProgram, SplitProgram
from onnx2torch_mlir.verification import run_reference
from tests.domains.com_microsoft.generation_models import (
    VOCABULARY,
    encoder,
    encoder_alone,
    encoder_weights,
    further_words,
    generation,
    gpt,
    value,
    weights,
)

SEQUENCES = value("sequences", T.INT32, "batch", "longest")
BEAMS = [
    value("sequences", T.INT32, "batch", "returned", "longest"),
    value("sequences_scores", T.FLOAT, "batch", "returned"),
    value("scores", T.FLOAT, "steps", "batch", "beams", VOCABULARY),
]
BEAM_INPUTS = "input_ids max_length min_length num_beams num_return_sequences length_penalty repetition_penalty"
PROMPTS = ([[1, 2, 3], [0, 4, 5]], [[1, 2]], [[0, 0, 7, 8, 9], [1, 2, 3, 4, 5], [0, 3, 2, 1, 1]])


def ints(numbers: Any) -> Any:
    return np.array(numbers, np.int32)


def floats(number: Any) -> Any:
    return np.array(number, np.float32)


def masks(prompt: list[list[int]]) -> dict[str, Any]:
    """Masks that rule some words out, and hide some of the prompt."""
    rng = np.random.default_rng(len(prompt))
    return {
        "vocab_mask": ints(np.arange(VOCABULARY) != 6),
        "prefix_vocab_mask": ints(rng.random((len(prompt), VOCABULARY)) < 0.7),
        "attention_mask": ints(rng.random((len(prompt), len(prompt[0]))) < 0.8),
    }


def check(engine: Any, model: Any, feeds: dict[str, Any]) -> None:
    wanted = run_reference(model, feeds).outputs
    results = engine.run(feeds)
    np.testing.assert_array_equal(results[0], wanted[0])
    if len(results) == 3:  # after the last step taken, onnxruntime leaves the scores of the steps unwritten
        taken = np.abs(results[2]).max(axis=(1, 2, 3)) > 0
        results[2], wanted[2] = results[2][taken], wanted[2][taken]
    for result, want in zip(results[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-3)


def test_greedy_search():
    """The word that ends a text is one that some texts do not come to, so that onnxruntime writes all of the result."""
    names = "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask"
    given = {"decoder": gpt(), "eos_token_id": 4, "pad_token_id": 0, "no_repeat_ngram_size": 2}
    model = generation("GreedySearch", names, [SEQUENCES], {}, **given)
    program = o2m.convert(model)
    assert isinstance(program, CoreProgram)
    engines = [program.eager(), program.compile()]
    for prompt, longest, least, penalty in zip(PROMPTS, (12, 9, 8), (0, 6, 0), (1.5, 1.0, 2.0), strict=True):
        feeds = {"input_ids": ints(prompt), "max_length": ints(longest), "min_length": ints(least)}
        feeds |= {"repetition_penalty": floats(penalty), **masks(prompt)}
        for engine in engines:
            check(engine, model, feeds)


def test_greedy_search_with_another_graph_for_the_first_word():
    """Its weights are those of the main graph; all texts end early, and what comes after their ends is padding."""
    both = {"decoder": gpt(held=False), "init_decoder": gpt("init_decoder", held=False)}
    known = {"max_length": ints(12)}
    model = generation(
        "GreedySearch", "input_ids max_length", [SEQUENCES], known, weights(0), eos_token_id=9, pad_token_id=0, **both
    )
    feeds = {"input_ids": ints(PROMPTS[0])}
    [wanted] = run_reference(model, feeds).outputs
    [result] = o2m.convert(model).eager().run(feeds)
    np.testing.assert_array_equal(result[:, :7], wanted[:, :7])
    assert not result[:, 7:].any() and result.shape == (2, 12)


def beam_feeds(prompt: list[list[int]], longest: int, least: int, beams: int, length: float, penalty: float) -> dict[str, Any]:
    numbers = {"max_length": longest, "min_length": least, "num_beams": beams, "num_return_sequences": 2}
    feeds = {"input_ids": ints(prompt), **{name: ints(number) for name, number in numbers.items()}}
    return feeds | {"length_penalty": floats(length), "repetition_penalty": floats(penalty)}


@pytest.mark.parametrize(("end", "early", "masked"), [(9, 0, False), (3, 0, True), (3, 1, False)])
def test_beam_search(end, early, masked):
    """With open sizes, a number of beams that is only known at run time, and one that is known."""
    extra = " vocab_mask prefix_vocab_mask attention_mask" if masked else ""
    known = {} if masked else {"num_beams": ints(3), "num_return_sequences": ints(2)}
    given = {"decoder": gpt(), "eos_token_id": end, "pad_token_id": 0, "early_stopping": early}
    outputs = BEAMS[:2] if early else BEAMS
    model = generation("BeamSearch", BEAM_INPUTS + extra, outputs, known, no_repeat_ngram_size=3 * early, **given)
    program = o2m.convert(model)
    assert isinstance(program, CoreProgram)
    engine = program.eager() if early else program.compile()
    cases = [(10, 0, 3, 1.0, 1.0), (9, 6, 2, 2.0, 1.5), (12, 0, 4, 0.5, 1.0)]
    for prompt, numbers in zip(PROMPTS, cases, strict=True):
        feeds = beam_feeds(prompt, *numbers) | (masks(prompt) if masked else {})
        check(engine, model, {name: array for name, array in feeds.items() if name not in known})


@pytest.mark.parametrize("form", ["first word by the encoder", "keys and values alone"])
def test_beam_search_with_an_encoder(form):
    graph = encoder_alone() if form == "keys and values alone" else encoder()
    given = {"encoder": graph, "decoder": further_words(), "eos_token_id": 9, "pad_token_id": 0, "decoder_start_token_id": 1}
    model = generation("BeamSearch", BEAM_INPUTS, BEAMS, {}, encoder_weights(1), model_type=1, **given)
    program = o2m.convert(model)
    assert isinstance(program, CoreProgram)
    engine = program.eager() if form == "keys and values alone" else program.compile()
    for prompt, numbers in zip(PROMPTS, [(10, 0, 3, 1.0, 1.0), (9, 6, 2, 2.0, 1.5), (12, 0, 4, 0.5, 1.0)], strict=True):
        check(engine, model, beam_feeds(prompt, *numbers))


@pytest.mark.parametrize(
    "attributes",
    [
        {"top_p": 0.9, "temperature": 16.0, "min_tokens_to_keep": 2},
        {"top_p": 0.8, "temperature": 20.0, "custom": 1, "presence_penalty": 3.5, "filter_value": float("-inf")},
    ],
)
def test_sampling(attributes):
    """The engine's numbers are onnxruntime's, over all texts and words."""
    names = "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask presence_mask seed"
    given = {"decoder": gpt(), "eos_token_id": VOCABULARY + 1, "pad_token_id": 0, **attributes}
    model = generation("Sampling", names, [SEQUENCES], {}, **given)
    program = o2m.convert(model)
    assert isinstance(program, CoreProgram)
    engine = program.eager() if "custom" in attributes else program.compile()
    for prompt, longest, seed in zip(PROMPTS, (22, 14, 18), (1, 0, 2147483647), strict=True):
        present = np.random.default_rng(seed).integers(0, 2, (len(prompt), VOCABULARY))
        feeds = {"input_ids": ints(prompt), "max_length": ints(longest), "min_length": ints(0), "seed": ints([seed])}
        feeds |= {"repetition_penalty": floats(1.25), "presence_mask": ints(present), **masks(prompt)}
        check(engine, model, feeds)


TOKENS = {"translate_token_id": 3, "transcribe_token_id": 4, "start_of_lm_token_id": 5, "no_timestamps_token_id": 2}


def whisper(op: str, names: str, **attributes: Any) -> Any:
    """A model with features; onnxruntime wants the weights inside of its graphs."""
    graphs = {"encoder": encoder(4), "decoder": further_words(masked=False)}
    for graph in graphs.values():
        graph.initializer.extend(encoder_weights(1, 4))
    names = BEAM_INPUTS.replace("input_ids", "features") + names
    given = {"pad_token_id": 0, "decoder_start_token_id": 1, "model_type": 2, **graphs, **attributes}
    return generation(op, names, BEAMS, {}, **given)


def test_whisper_beam_search():
    """With and without the rules for marks of time, which are the words from 6 on."""
    attributes = {**TOKENS, "beginning_timestamp_token_id": 6, "eos_token_id": 5}
    extra = " _ _ _ decoder_input_ids logits_processor _ _ temperature"
    model = whisper("WhisperBeamSearch", extra, **attributes)
    program = o2m.convert(model)
    assert isinstance(program, CoreProgram)
    engines = [program.eager(), program.compile()]
    rng = np.random.default_rng(2)
    for batch, marks, heat in ((2, 1, 1.0), (1, 0, 2.0), (5, 1, 0.7)):
        feeds = beam_feeds([[1]], 16, 0, 3, 1.0, 1.0)
        del feeds["input_ids"]
        feeds |= {"features": floats(rng.standard_normal((batch, 4, 5))), "temperature": floats([heat])}
        feeds |= {"decoder_input_ids": ints(rng.integers(1, 4, (batch, 2))), "logits_processor": ints(marks)}
        for engine in engines:
            check(engine, model, feeds)


def test_whispers_form_of_beam_search_is_left_to_the_host():
    model = whisper("BeamSearch", "", eos_token_id=9)
    program = o2m.convert(model)
    assert isinstance(program, SplitProgram)
    feeds = beam_feeds([[1]], 9, 0, 2, 1.0, 1.0)
    del feeds["input_ids"]
    check(program.compile(), model, feeds | {"features": floats(np.random.default_rng(1).standard_normal((3, 4, 6)))})
