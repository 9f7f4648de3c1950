"""Choosing tokens: stop tokens, seeds, temperature, top-k, top-p."""

from __future__ import annotations

from typing import Any

import numpy as np
from prompts import random_prompt
from reference import Reference


def draws(model: Any, prompt: list[int], count: int, **sampling: Any) -> np.ndarray:
    """`count` first tokens after `prompt`, with the seeds 0 to count - 1."""
    batch = model.info.batch
    tokens = []
    for first in range(0, count, batch):
        seeds = list(range(first, min(first + batch, count)))
        results = model.generate([prompt] * len(seeds), max_new_tokens=1, seed=seeds, **sampling)
        tokens += [int(result.tokens[0]) for result in results]
    return np.array(tokens)


def probabilities(reference: Reference, prompt: list[int], temperature: float) -> np.ndarray:
    logits = reference.logits(prompt)[-1] / temperature
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def test_stop_token_ends_the_sequence(model: Any, spec: dict[str, Any]) -> None:
    prompt = random_prompt(spec, 7)
    (free,) = model.generate([prompt], max_new_tokens=10)
    tokens = free.tokens.tolist()
    stop = tokens[5]
    unused = [t for t in range(spec["vocab"]) if t not in tokens][:1]
    (result,) = model.generate([prompt], max_new_tokens=10, stop_tokens=[*unused, stop])
    assert result.tokens.tolist() == tokens[: tokens.index(stop) + 1]
    assert result.finish.name == "STOP_TOKEN"
    (result,) = model.generate([prompt], max_new_tokens=10, stop_tokens=unused)
    assert result.tokens.tolist() == tokens
    assert result.finish.name == "LENGTH"


def test_others_go_on_after_one_stops(model: Any, spec: dict[str, Any]) -> None:
    prompts = [random_prompt(spec, 4, seed=s) for s in range(min(2, spec["runtime"]["batch"]))]
    free = model.generate(prompts, max_new_tokens=10)
    stop = int(free[0].tokens[1])
    results = model.generate(prompts, max_new_tokens=10, stop_tokens=[stop])
    for result, unstopped in zip(results, free, strict=True):
        tokens = unstopped.tokens.tolist()
        expected = tokens[: tokens.index(stop) + 1] if stop in tokens else tokens
        assert result.tokens.tolist() == expected


def test_streaming_gives_every_token_once(model: Any, spec: dict[str, Any]) -> None:
    prompts = [random_prompt(spec, 3, seed=s) for s in range(spec["runtime"]["batch"])]
    seen: list[list[int]] = [[] for _ in prompts]
    results = model.generate(prompts, max_new_tokens=15, on_token=lambda s, token: seen[s].append(token))
    assert seen == [result.tokens.tolist() for result in results]


def test_a_seed_gives_the_same_text(model: Any, spec: dict[str, Any]) -> None:
    prompt = random_prompt(spec, 6)
    sampling = {"max_new_tokens": 12, "temperature": 20.0, "top_k": 50, "top_p": 0.95}
    (first,) = model.generate([prompt], seed=5, **sampling)
    (again,) = model.generate([prompt], seed=5, **sampling)
    (other,) = model.generate([prompt], seed=6, **sampling)
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert first.tokens.tolist() != other.tokens.tolist()
    batch = spec["runtime"]["batch"]
    crowd = model.generate([random_prompt(spec, 4)] * (batch - 1) + [prompt], seed=5, **sampling)
    np.testing.assert_array_equal(crowd[-1].tokens, first.tokens)


def test_top_k_1_and_tiny_temperature_and_tiny_top_p_are_greedy(model: Any, spec: dict[str, Any]) -> None:
    prompt = random_prompt(spec, 8)
    (greedy,) = model.generate([prompt], max_new_tokens=8)
    for sampling in (
        {"temperature": 5.0, "top_k": 1},
        {"temperature": 1e-4},
        {"temperature": 1.0, "top_p": 1e-6},
    ):
        (result,) = model.generate([prompt], max_new_tokens=8, seed=3, **sampling)
        np.testing.assert_array_equal(result.tokens, greedy.tokens)


def test_top_k_draws_follow_the_probabilities(model: Any, spec: dict[str, Any], rounded: Reference) -> None:
    prompt, kept, count = random_prompt(spec, 5), 4, 400
    expected = probabilities(rounded, prompt, temperature=5.0)
    best = np.argsort(expected)[::-1][:kept]
    expected = expected[best] / expected[best].sum() * count
    tokens = draws(model, prompt, count, temperature=5.0, top_k=kept)
    observed = np.array([(tokens == token).sum() for token in best])
    assert observed.sum() == count, "a token outside the best k was drawn"
    chi_squared = ((observed - expected) ** 2 / expected).sum()
    assert chi_squared < 21, f"{observed=} {expected=}"  # 3 degrees of freedom: 1 in 10 000


def nucleus(probability: np.ndarray, mass: float) -> set[int]:
    """The fewest tokens that together have a probability of `mass`, the most likely ones first."""
    order = np.argsort(probability)[::-1]
    before = np.concatenate([[0], np.cumsum(probability[order])[:-1]])
    return set(order[before < mass].tolist())


def test_top_p_keeps_the_nucleus(model: Any, spec: dict[str, Any], rounded: Reference) -> None:
    prompt, mass = random_prompt(spec, 5), 0.6
    for temperature in (2.0, 4.0, 8.0, 16.0):  # the first at which some tokens are kept and some are not
        expected = probabilities(rounded, prompt, temperature)
        possible, certain = nucleus(expected, mass + 0.01), nucleus(expected, mass - 0.01)
        if len(certain) >= min(3, spec["vocab"] // 2):
            break
    assert 0 < len(certain) <= len(possible) < max(spec["vocab"], 2)
    seen = set(draws(model, prompt, 300, temperature=temperature, top_p=mass).tolist())
    assert seen <= possible
    assert len(seen & certain) > len(certain) / 2


def test_temperature_alone_reaches_the_whole_vocabulary(model: Any, spec: dict[str, Any]) -> None:
    prompt = random_prompt(spec, 5)
    tokens = draws(model, prompt, 200, temperature=50.0)
    assert len(set(tokens.tolist())) > min(60, spec["vocab"] // 3)
