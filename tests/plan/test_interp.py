"""Plans of tiny models, run in random orders, against a forward pass that knows nothing of tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kgen.ir.attention import Rope
from kgen.ir.machine import Finish, Request
from kgen.passes.pipeline import compile_graph
from kgen.plan.interp import InterpError, Interpreter
from tests.graphs import TINY, Model, build
from tests.reference import forward, random_weights

MODELS = {
    "tied": TINY,
    "untied": replace(TINY, tied=False),
    "qk_norm": replace(TINY, qk_norm=True, heads=6, kv_heads=2, head=16),
    "bias": replace(TINY, bias=True),
    "separate": replace(TINY, fused=False, bias=True),
    "ragged": replace(TINY, hidden=37, ffn=53, vocab=101, head=24, heads=3, kv_heads=1, workers=7),
    "no_rope": replace(TINY, rope=None),
    "scaled_rope": replace(
        TINY, rope=Rope(500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=32)
    ),
    "one_row": replace(TINY, batch=1, rows=1, kv_heads=4),
    "multi_head": replace(TINY, kv_heads=4, batch=3, rows=9, kv_page=7, workers=20),
}


def prompts(m: Model, lengths: list[int]) -> list[list[int]]:
    rng = np.random.default_rng(7)
    return [rng.integers(0, m.vocab, n).tolist() for n in lengths]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("name", MODELS)
def test_greedy_decoding_in_random_orders(name: str) -> None:
    m = MODELS[name]
    graph = build(m)
    weights = random_weights(graph, seed=1)
    interpreter = Interpreter(compile_graph(graph).plan, weights)
    texts, count = prompts(m, [13, 1, 6][: m.batch]), 5
    requests = [Request(tuple(p), count) for p in texts]
    results = [interpreter.generate(requests, np.random.default_rng(seed)) for seed in range(4)]
    for s, prompt in enumerate(texts):
        tokens = results[0].sequences[s].tokens
        assert len(tokens) == count
        assert results[0].sequences[s].finish is Finish.LENGTH
        # The logits that the reference has for the same text, and how far rounding to bf16 may move them.
        logits = forward(m, weights, prompt + tokens[:-1])[len(prompt) - 1 :]
        near = 0.01 * np.abs(logits).max()
        np.testing.assert_allclose(results[0].logits[s], logits[-1], atol=near)
        assert (logits[np.arange(count), tokens] >= logits.max(-1) - near).all()
        expected = log_softmax(logits)[np.arange(count), tokens]
        got = [results[0].sequences[s].logprobs[len(prompt) + i] for i in range(count)]
        np.testing.assert_allclose(got, expected, atol=near)
        for other in results[1:]:
            assert other.sequences[s].tokens == tokens
            np.testing.assert_array_equal(other.logits[s], results[0].logits[s])


def test_a_sequence_does_not_depend_on_the_others_or_on_chunks() -> None:
    m = replace(TINY, batch=3, rows=7)
    graph = build(m)
    weights = random_weights(graph, seed=2)
    together = Interpreter(compile_graph(graph).plan, weights)
    one_row_a_step = Interpreter(compile_graph(build(replace(m, batch=1, rows=1))).plan, weights)
    requests = [Request(tuple(p), 4) for p in prompts(m, [11, 3, 8])]
    batch = together.generate(requests, np.random.default_rng(0))
    for s, request in enumerate(requests):
        alone = one_row_a_step.generate([request], np.random.default_rng(1))
        assert alone.sequences[0].tokens == batch.sequences[s].tokens
        np.testing.assert_array_equal(alone.logits[0], batch.logits[s])


def test_scoring_a_prompt_records_the_log_probability_of_each_of_its_tokens() -> None:
    graph = build(TINY)
    weights = random_weights(graph, seed=3)
    (prompt,) = prompts(TINY, [9])
    request = Request(tuple(prompt), 1, score_prompt=True)
    result = Interpreter(compile_graph(graph).plan, weights).generate([request], np.random.default_rng(0))
    expected = log_softmax(forward(TINY, weights, prompt))
    got = result.sequences[0].logprobs
    assert sorted(got) == list(range(1, 10))
    for p in range(1, 9):
        assert got[p] == pytest.approx(expected[p - 1, prompt[p]], abs=0.05)


def test_a_stop_token_ends_a_sequence_and_the_others_go_on() -> None:
    graph = build(TINY)
    weights = random_weights(graph, seed=4)
    interpreter = Interpreter(compile_graph(graph).plan, weights)
    first, second = prompts(TINY, [5, 4])
    free = interpreter.generate(
        [Request(tuple(first), 6), Request(tuple(second), 6)], np.random.default_rng(0)
    )
    stop = free.sequences[0].tokens[2]
    ends = free.sequences[0].tokens.index(stop) + 1
    requests = [Request(tuple(first), 6, stop=(stop,)), Request(tuple(second), 6)]
    result = interpreter.generate(requests, np.random.default_rng(0))
    assert result.sequences[0].finish is Finish.STOP_TOKEN
    assert result.sequences[0].tokens == free.sequences[0].tokens[:ends]
    assert result.sequences[1].tokens == free.sequences[1].tokens


@pytest.mark.parametrize("prompt_and_new", [(0, 1), (3, 0), (40, 10)])
def test_requests_that_do_not_fit_are_refused(prompt_and_new: tuple[int, int]) -> None:
    interpreter = Interpreter(compile_graph(build(TINY)).plan, random_weights(build(TINY), seed=0))
    prompt, new = prompt_and_new
    with pytest.raises(InterpError, match="context of 48"):
        interpreter.generate([Request((1,) * prompt, new)], np.random.default_rng(0))
