"""Plans of tiny models, run in random orders, against a forward pass that knows nothing of tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kgen.ir.attention import Rope
from kgen.ir.machine import Finish, Request
from kgen.passes.linearize import linearize
from kgen.passes.pipeline import CompileError, compile_graph
from kgen.passes.place import place
from kgen.passes.select_tasks import select_tasks
from kgen.passes.verify import Stage, verify
from kgen.plan.build import build_plan
from kgen.plan.interp import InterpError, Interpreter, Result
from kgen.plan.plan import START_EVENT
from kgen.tgraph.tgraph import Event
from tests.graphs import TINY, Model, build, with_forks
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


def test_a_plan_with_empty_tasks() -> None:
    """Doubling x behind the first norm is doubling the embedding, but for that norm's eps and the logits."""
    m = replace(TINY, layers=1, rows=3)
    graph = with_forks(m)
    weights = random_weights(graph, seed=6)
    interpreter = Interpreter(compile_graph(graph).plan, weights)
    assert any(v.kind == "empty" for v in interpreter.plan.variants)
    (prompt,) = prompts(m, [4])
    results = [interpreter.generate([Request(tuple(prompt), 2)], np.random.default_rng(s)) for s in range(6)]
    for other in results[1:]:
        np.testing.assert_array_equal(other.logits, results[0].logits)
    doubled = {**weights, "embed": 2 * weights["embed"], "lm_head": weights["embed"]}
    text = prompt + results[0].sequences[0].tokens[:-1]
    expected = forward(replace(m, tied=False), doubled, text)
    np.testing.assert_allclose(results[0].logits[0], expected[-1], atol=0.01 * np.abs(expected).max())


def test_a_seed_draws_the_same_tokens_in_every_order() -> None:
    graph = build(TINY)
    interpreter = Interpreter(compile_graph(graph).plan, random_weights(graph, seed=8))
    (prompt,) = prompts(TINY, [6])

    def draw(seed: int, order: int) -> list[int]:
        request = Request(tuple(prompt), 8, temperature=2.0, top_k=40, top_p=0.95, seed=seed)
        return interpreter.generate([request], np.random.default_rng(order)).sequences[0].tokens

    assert draw(1, 0) == draw(1, 1) == draw(1, 2)
    assert draw(1, 0) != draw(2, 0)


@pytest.mark.parametrize("prompt_and_new", [(0, 1), (3, 0), (40, 10)])
def test_requests_that_do_not_fit_are_refused(prompt_and_new: tuple[int, int]) -> None:
    interpreter = Interpreter(compile_graph(build(TINY)).plan, random_weights(build(TINY), seed=0))
    prompt, new = prompt_and_new
    with pytest.raises(InterpError, match="context of 48"):
        interpreter.generate([Request((1,) * prompt, new)], np.random.default_rng(0))


@pytest.mark.parametrize("model", [TINY, replace(TINY, fused=False)], ids=["fused", "separate"])
def test_without_one_event_the_result_is_wrong_or_the_step_does_not_end(model: Model) -> None:
    m = replace(model, layers=1, rows=3)
    graph = build(m)
    weights = random_weights(graph, seed=5)
    complete = compile_graph(graph)
    request = [Request(tuple(p), 3) for p in prompts(m, [4, 2])]
    expected = Interpreter(complete.plan, weights).generate(request, np.random.default_rng(0))
    tgraph = complete.tgraph
    for e, event in enumerate(tgraph.events):
        if e == START_EVENT:
            continue
        # What the event released is now free to run at once.
        start = tgraph.events[START_EVENT]
        free = Event(start.producers, tuple(sorted((*start.consumers, *event.consumers))))
        others = [
            Event(x.producers, x.consumers) for i, x in enumerate(tgraph.events) if i not in (START_EVENT, e)
        ]
        broken = replace(tgraph, events=(free, *others))
        with pytest.raises(CompileError):
            verify(broken, Stage.NORMALIZED)
        broken = place(graph, linearize(broken))
        interpreter = Interpreter(build_plan(graph, broken, select_tasks(graph, broken)), weights)
        assert any(goes_wrong(interpreter, request, expected, seed) for seed in range(30)), f"event {e}"


def goes_wrong(interpreter: Interpreter, requests: list[Request], expected: Result, seed: int) -> bool:
    try:
        result = interpreter.generate(requests, np.random.default_rng(seed))
    except InterpError:
        return True
    return not np.array_equal(result.logits, expected.logits)
